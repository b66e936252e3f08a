"""``python -I -m skillhub``; ``-P`` does, too. Without either the working folder would lead ``sys.path``."""

import os
import sys


def _working_folder_leads() -> bool:
    """Say whether Python put the working folder first where it looks for modules, as it does for ``-m``."""
    if sys.flags.safe_path or not sys.path:
        return False
    try:
        return os.path.samefile(sys.path[0] or os.curdir, os.curdir)
    except OSError:  # one of them is gone: nothing is imported from there
        return False


_LEADS = _working_folder_leads()
if _LEADS:
    del sys.path[0]  # before anything is imported that may be in it

from skillhub.cli.main import run  # noqa: E402

run(working_folder_leads=_LEADS)
