"""``python -m skillhub``."""

from skillhub.cli.main import run

run()
