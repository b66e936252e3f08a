"""Locks and skills of others: import, adopt, merge, bills of materials."""
