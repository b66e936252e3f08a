"""Where an operator puts a registry: a folder, S3, OCI."""
