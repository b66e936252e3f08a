import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.disk.home import Home
from skillhub.errors import FormatError, SkillhubError, StateError
from skillhub.model.lock import Lock
from skillhub.net.settings import InstallDefaults, Settings
from skillhub.project.intent import Intent
from skillhub.project.last_seen import LoadCheck
from skillhub.project.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "config.md"


def test_missing_file_gives_the_default_settings(tmp_path):
    assert Settings.read(Home.of({"SKILLHUB_HOME": str(tmp_path)})) == Settings()


@pytest.mark.parametrize("name", ["config/config.toml", "config"])
def test_attack_a_link_that_leads_nowhere_is_no_missing_file(tmp_path, name):
    """The share that has the file is not mounted: without it a known bad skill would be loaded."""
    home = Home.of({"SKILLHUB_HOME": str(tmp_path)})
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "share" / name)
    for read in (Settings.read, lambda home: LoadCheck(Lock(), Store(home.data), home, "", "project", Intent)):
        with pytest.raises(StateError, match="leads nowhere"):
            read(home)
    (tmp_path / "share/config").mkdir(parents=True)
    (tmp_path / "share/config/config.toml").write_text('trusted-hosts = ["a.example"]\n')
    assert Settings.read(home).trusted


def test_example_of_the_page_is_read(tmp_path):
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    home = Home.of({"SKILLHUB_HOME": str(tmp_path)})
    os.makedirs(home.config)
    Path(home.config, "config.toml").write_text(shown)
    found = Settings.read(home)
    assert found.tokens == {"skills.example": "SKILLS_TOKEN", "git.example:8443": "GIT_TOKEN"}
    assert found.mirrors == {
        "https://skills.example": "https://mirror.corp.example/skills",
        "https://registry.example/team": "http://127.0.0.1:8080",
        "https://registry.example/copied": "file:///srv/registry",
    }
    assert found.install == InstallDefaults(("claude-code", "codex"), "copy", "project")
    assert set(found.trusted) == {("git.corp.example", None), ("10.0.0.7", 8443)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[token]", "unknown key 'token'"),
        ("tokens = 1", "expected a table"),
        ('[tokens]\n"https://a" = {env = "A"}', "expected a host"),
        ('[tokens]\n"a@b" = {env = "A"}', "expected a host"),
        ('[tokens]\n"a" = {env = "A B"}', "the name of a variable"),
        ('[tokens]\n"a" = {env = "A", x = 1}', "the name of a variable"),
        ('[mirrors]\n"a" = "https://b"', "http"),
        ('[mirrors]\n"https://a" = "file://host/etc"', "file:///folder"),
        ('[mirrors]\n"https://a" = "https://me:pass@b"', "http"),
        ('[mirrors]\n"https://a" = "https://b?x=1"', "a URL"),
        ('[mirrors]\n"https://a" = 1', "a URL"),
        ('trusted-hosts = "a"', "expected a list"),
        ("[trusted-hosts]", "expected a list"),
        ("trusted-hosts = [1]", "expected a host"),
        ('trusted-hosts = [""]', "expected a host"),
        ('trusted-hosts = ["*"]', "expected a host"),
        ('trusted-hosts = ["*.corp.example"]', "expected a host"),
        ('trusted-hosts = ["Git.corp.example"]', "expected a host"),
        ('trusted-hosts = ["https://git.corp.example"]', "expected a host"),
        ('trusted-hosts = ["git.corp.example/team"]', "expected a host"),
        ('trusted-hosts = ["me@git.corp.example"]', "expected a host"),
        ('trusted-hosts = ["git.corp.example:0"]', "expected a host"),
        ('trusted-hosts = ["git.corp.example:99999"]', "expected a host"),
        ('trusted-hosts = ["::1"]', "expected a host"),
        ('[install]\nagents = "codex"', "expected a list"),
        ('[install]\nagents = ["codx"]', "there is no agent 'codx'"),
        ('[install]\nagents = [""]', "expected"),
        ('[install]\nagents = ["c\u200bodex"]', "expected"),
        ('[install]\nlink = "hard"', "expected copy or symlink"),
        ('[install]\nscope = "machine"', "expected project or user"),
        ("[install]\nscope = true", "expected project or user"),
        ("[install]\nyes = true", "unknown key 'yes'"),
        ("install = 1", "expected a table"),
        ("[tokens", "TOML"),
        (f"{'a.' * 5000}a = 1", "dots"),
    ],
)
def test_invalid_setting_is_refused(text, message):
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        Settings.parse(text.encode(), "config.toml")
    assert "config.toml" in caught.value.where


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[tokens]\n"a.example" = 1', "config.toml: tokens.a.example"),
        ('[mirrors]\n"https://a" = "ftp://b"', "config.toml: mirrors.https://a"),
        ('trusted-hosts = ["a.example", "*"]', "config.toml: trusted-hosts[1]"),
        ("mirrors = 1", "config.toml: mirrors"),
        ('[install]\nagents = ["codex", "codx"]', "config.toml: install.agents[1]"),
        ('[install]\nscope = "all"', "config.toml: install.scope"),
    ],
)
def test_error_names_the_place_of_the_invalid_setting(text, where):
    with pytest.raises(FormatError) as caught:
        Settings.parse(text.encode(), "config.toml")
    assert caught.value.where == where


TRUSTING = Settings.parse(
    b'trusted-hosts = ["git.corp.example", "ports.example:8443", "10.0.0.7", "[fd00::1]:8443", "localhost:8000"]', "x"
)


@pytest.mark.parametrize(
    "url",
    [
        "https://git.corp.example/x", "https://git.corp.example:443/x", "ssh://git@git.corp.example/x",
        "https://GIT.corp.example/x", "oci://git.corp.example/x", "https://10.0.0.7/", "https://ports.example:8443/x",
        "ssh://git@ports.example:8443/x", "https://[fd00::1]:8443/x", "http://localhost:8000/x",
    ],
)  # fmt: skip
def test_url_of_a_trusted_host_is_trusted(url):
    assert TRUSTING.trusts(url)
    assert not Settings().trusts(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://git.corp.example/x", "http://10.0.0.7/", "git://git.corp.example/x", "file://git.corp.example/x",
        "https://git.corp.example:8443/x", "https://git.corp.example:22/x", "ssh://git@git.corp.example:443/x",
        "https://ports.example/x", "ssh://git@ports.example/x", "https://[fd00::1]/x", "http://localhost/x",
        "https://evil.example/git.corp.example", "https://git.corp.example.evil.example/x", "https://corp.example/x",
        "https://x.git.corp.example/x", "https://git.corp.example@evil.example/x", "https://10.0.0.70/", "/x", "",
        "https://git.corp.example:x/", "https://[fd00::1/", "https://evil.example#@git.corp.example/",
    ],
)  # fmt: skip
def test_attack_a_lookalike_of_a_trusted_host_is_not_trusted(url):
    assert not TRUSTING.trusts(url)


def test_attack_a_token_written_into_the_file_is_not_shown():
    with pytest.raises(FormatError) as caught:
        Settings.parse(b'[tokens]\n"a.example" = "s3cret"', "config.toml")
    assert "s3cret" not in f"{caught.value} {caught.value.where} {caught.value.hint}"


@given(st.one_of(st.binary(max_size=60), st.text(alphabet='[]tokensmirr"={}. \n/:', max_size=60).map(str.encode)))
def test_any_bytes_are_read_or_refused_as_format_error(data):
    try:
        Settings.parse(data, "config.toml")
    except SkillhubError as error:
        assert isinstance(error, FormatError)
