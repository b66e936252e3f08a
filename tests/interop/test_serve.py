"""``skillhub serve`` with other programs: schemathesis for the API, Chromium for the page.

``SKILLHUB_SCHEMATHESIS`` names the program; Chromium is Debian's ``chromium``.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess

import pytest

from tests.support.cli import Shell
from tests.support.http_api import TOKEN, Served
from tests.support.web import Web

pytestmark = pytest.mark.interop
# A body over the size limit is refused before its content is read.
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 414, 415, 422, 428, 429]
"""
WIDTHS = [(360, ()), (1280, ()), (360, ("--force-dark-mode",)), (1280, ("--force-dark-mode",))]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("serve"))
    assert shell.run("install", "github:release-notes", "github:code-review", "--yes").status == 0
    assert shell.run("install", "github:gh-fix-ci", "--yes", "--mcp", "skip").status == 6
    return shell


@pytest.mark.parametrize("has_token", [False, True])
def test_schemathesis_finds_no_fault_in_the_api(machine, has_token):
    program = os.environ.get("SKILLHUB_SCHEMATHESIS")
    if not program:
        pytest.skip("SKILLHUB_SCHEMATHESIS names nothing")
    token = machine.folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    config = machine.folder / "schemathesis.toml"
    config.write_text(CONFIG)
    bearer = ("--header", f"Authorization: Bearer {TOKEN}") if has_token else ()
    with Served(machine, *(("--token-file", token) if has_token else ())) as server:
        words = [program, "--config-file", config, "run", f"{server.url}/openapi.json", *bearer, "--no-color"]
        # The stream of events is endless.
        words += ["--exclude-path", "/api/v1/events", "--max-examples", "15", "--seed", "1"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(machine.home)}
        done = subprocess.run(
            words, cwd=machine.folder, env=environ, capture_output=True, text=True, timeout=580, check=False
        )
        assert done.returncode == 0, done.stdout[-20_000:]
        assert server.stop() == (0, "stop with Ctrl-C\nstopped\n")  # no warning about a fault


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium")
    return program


def browse(chromium, folder, url, *flags):
    words = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *flags]
    words += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", url]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True).stdout


def test_hostile_skills_run_no_code_on_the_page(chromium, tmp_path):
    with Web() as evil:
        there = evil.url("")
        shell = Shell(tmp_path)
        (shell.project / ".git").mkdir()
        hostile = [
            "<script>document.title='PWNED'</script>",
            "<img src=x onerror=\"document.title='PWNED'\">",
            f"<img src={there}/img><script src={there}/s.js></script>",
            f"<link rel=stylesheet href={there}/x.css><style>@import url({there}/y.css);</style>",
            f"<iframe src={there}/frame></iframe><meta http-equiv=refresh content='0;url={there}/go'>",
            "</p></div></article></main><svg onload=\"document.title='PWNED'\">",
        ]
        for number, text in enumerate(hostile):
            head = f"---\nname: hostile-{number}\ndescription: {json.dumps(text)}\nversion: {json.dumps(text)}\n---\n"
            shell.write(f"project/.agents/skills/hostile-{number}/SKILL.md", head + text)
            shell.write(f"project/.agents/skills/hostile-{number}/page.html", text)
            shell.write(f"project/.agents/skills/hostile-{number}/image.svg", f"<svg xmlns='x'>{text}</svg>")
        with Served(shell) as server:
            page = browse(chromium, tmp_path, server.url + "/", "--dump-dom")
            assert f"<title>Skills in {shell.project}</title>" in page and page.count("hostile-") >= 6
            for name in ("page.html", "image.svg", "SKILL.md"):
                for number in (0, 5):
                    url = f"{server.url}/api/v1/skills/hostile-{number}/files/{name}"
                    shown = browse(chromium, tmp_path, url, "--dump-dom")
                    assert "<title>PWNED" not in shown and "<script>" not in shown and "<svg" not in shown
        assert evil.connections == 0


@pytest.mark.parametrize(("width", "flags"), WIDTHS, ids=lambda value: str(value))
def test_the_page_is_rendered_at_every_width_light_and_dark(chromium, machine, tmp_path, width, flags):
    """``SKILLHUB_SCREENSHOTS`` names a folder for the pictures."""
    kept = os.environ.get("SKILLHUB_SCREENSHOTS")
    name = f"page-{width}-{'dark' if flags else 'light'}.png"
    with Served(machine) as server:
        browse(
            chromium,
            tmp_path,
            server.url + "/",
            *flags,
            f"--window-size={width},2400",
            f"--screenshot={tmp_path / name}",
        )
    data = (tmp_path / name).read_bytes()
    assert struct.unpack(">II", data[16:24]) == (width, 2400)
    assert len(data) > 30_000  # an empty page is smaller
    if kept:
        shutil.copy(tmp_path / name, kept)
