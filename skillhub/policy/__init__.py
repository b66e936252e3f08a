"""The policies of machine, user and project: their files and rules, and the patterns for capabilities."""
