"""JSON, TOML and YAML: read strictly, decoded into values, edited in place."""
