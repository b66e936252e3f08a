"""What programs read of their environment: how languages spell it, by other names, in shells."""
