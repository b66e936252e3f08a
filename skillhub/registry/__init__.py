"""For operators of a registry: build, publish, keys, delegate, check, push."""
