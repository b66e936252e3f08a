"""``python -m skillhub``."""

import sys

from skillhub.cli.main import main

sys.exit(main())
