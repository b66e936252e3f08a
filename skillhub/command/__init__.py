"""What a command works with: its ports, options, state and outcome."""
