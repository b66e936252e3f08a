"""Policies of machine, user and project: their lines and files, and the patterns that they deny by."""
