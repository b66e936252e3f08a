"""How hard the suite tries: a sample by default, everything where ``SKILLHUB_EVERY_FAULT`` is set."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("sample", max_examples=40)
settings.register_profile("everything", max_examples=500)
settings.load_profile("everything" if "SKILLHUB_EVERY_FAULT" in os.environ else "sample")
