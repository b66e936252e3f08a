"""Skills on GitHub, by its API where there is no git."""
