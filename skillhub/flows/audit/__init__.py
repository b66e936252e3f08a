"""Check what is installed, and where it came from."""
