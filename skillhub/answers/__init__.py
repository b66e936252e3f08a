"""What commands print with ``--json``: a class for each answer."""
