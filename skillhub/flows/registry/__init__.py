"""For who runs a registry."""
