"""A project on this disk: lock and intent files, store, copies in agents' folders, agents' configuration."""
