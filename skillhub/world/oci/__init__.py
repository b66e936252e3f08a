"""Skills in OCI registries."""
