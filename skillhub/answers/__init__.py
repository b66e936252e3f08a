"""What commands print with ``--json``: a class for each answer."""

VERSION = 1  # of the form of all answers, which each has as ``schema``
