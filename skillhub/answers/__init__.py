"""The answers of commands with ``--json`` and of the HTTP API: one class each."""

VERSION = 1  # the value of ``schema`` in each answer: the version of the form of all answers
