"""Where skillhub keeps its own things."""

from __future__ import annotations

import os
import subprocess
import sys

from skillhub.world.home import Home


def test_one_variable_puts_all_of_it_below_one_folder(tmp_path):
    home = Home.of({"SKILLHUB_HOME": str(tmp_path)})
    assert (home.config, home.data, home.cache, home.state) == tuple(
        str(tmp_path / part) for part in ("config", "data", "cache", "state")
    )


def test_a_relative_one_is_made_absolute_and_an_empty_one_is_none():
    assert os.path.isabs(Home.of({"SKILLHUB_HOME": "here"}).data)
    assert "skillhub" in Home.of({"SKILLHUB_HOME": ""}).data


def test_the_platform_s_own_folders_without_it(tmp_path):
    code = "import os; from skillhub.world.home import Home; print(Home.of(os.environ).data)"
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path))
