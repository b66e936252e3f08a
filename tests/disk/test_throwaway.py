"""Temporary folders of one command: made in the system's folder for them, or refused."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from skillhub.disk.home import throwaway
from skillhub.errors import StateError
from tests.support.faults import Faults, forbidden, in_child, no_space


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a disk fails in a forked child")
@pytest.mark.parametrize("fault", [no_space, forbidden])
def test_a_failing_disk_is_a_state_error(fault):
    faults = Faults(Path(tempfile.gettempdir()), 1, fault)
    status = in_child(lambda: throwaway().cleanup(), lambda: sys.addaudithook(faults.hook))
    assert status == StateError.exit_code
