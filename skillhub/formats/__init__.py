"""JSON, TOML and YAML: read strictly, edited in place."""
