"""A credential in a URL, given to the program or by a server: it ends in no file, and in no line that is shown."""

import json

import pytest

from tests.support.cli import Shell
from tests.support.web import Web, answer, raw, redirect

SKILL = b"---\nname: deploy\ndescription: Deploys.\n---\n\nDeploy.\n"
SECRET = "hunter2"


@pytest.fixture
def web():
    with Web() as web:
        yield web


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def clean(shell, done):
    assert SECRET not in done.out + done.err
    for path, data in shell.files().items():
        assert SECRET not in path and SECRET.encode() not in data, path


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize(
    "words",
    [
        ("install", "URL/SKILL.md?token=hunter2", "--yes", "--allow-unsigned"),
        ("install", "URL/SKILL.md#access_token=hunter2", "--yes", "--allow-unsigned"),
        ("install", "http://u:hunter2@HOST/SKILL.md", "--yes", "--allow-unsigned"),
        ("install", "git+http://u:hunter2@HOST/r.git", "--yes", "--allow-unsigned"),
        ("install", "oci://u:hunter2@HOST/r:1", "--yes", "--allow-unsigned"),
        ("show", "URL/SKILL.md?x-api-key=hunter2"),
        ("show", "https://u%3Ahunter2%40h.example/SKILL.md"),
        ("source", "add", "acme", "URL/?sig=hunter2"),
        ("source", "add", "acme", "http://u:hunter2@HOST/"),
        ("registry", "check", "http://u:hunter2@HOST/"),
        ("registry", "check", "https://u:hunter2@h.example"),
        ("registry", "check", "URL/?token=hunter2"),
        ("registry", "check", "https://h.example/#token=hunter2"),
    ],
)
def test_attack_a_credential_that_is_typed_in_a_url(web, shell, words, form):
    web.at("/SKILL.md", answer(SKILL, "Content-Type: text/markdown"))
    words = [each.replace("URL", web.url("")).replace("HOST", f"127.0.0.1:{web.port}") for each in words]
    done = shell.run(*words, *form)
    assert done.status == 2, done.err
    clean(shell, done)
    assert not web.seen


def test_attack_a_server_that_sends_one_on_to_a_url_with_a_credential(web, shell):
    """What a cloud does with each download: the place that it was fetched from at last is of no use later."""
    fields = ('ETag: "1"', "Cache-Control: max-age=100", "Content-Type: text/markdown")
    web.at("/signed?X-Amz-Signature=hunter2", answer(SKILL, *fields))
    url = web.at("/SKILL.md", redirect("/signed?X-Amz-Signature=hunter2"))
    done = shell.run("install", url, "--yes", "--allow-unsigned")
    clean(shell, done)
    web.at("/broken?X-Amz-Signature=hunter2", raw(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))
    url = web.at("/other.zip", redirect("/broken?X-Amz-Signature=hunter2"))
    for form in ((), ("--json",)):
        done = shell.run("install", url, "--yes", "--allow-unsigned", *form)
        assert done.status == 3, done.err
        clean(shell, done)
    url = web.at("/away.zip", redirect("http://other.example/?token=hunter2"))
    done = shell.run("install", url, "--yes", "--allow-unsigned", "--json")
    assert done.status == 5, done.err
    clean(shell, done)


def test_attack_a_lock_and_an_intent_with_a_credential_in_a_url(shell):
    tree = f"sha256:{'1' * 64}"
    entry = {"capabilities": [], "requires": [], "size": 1, "tree": tree, "source": "https://h.example"}
    entry["url"] = "https://h.example/x.zip?token=hunter2"
    shell.write(
        "project/skillhub.lock", json.dumps({"version": 1, "skills": {"deploy": entry}, "sources": {}})
    )
    for form in ((), ("--json",)):
        done = shell.run("install", *form)
        assert done.status == 4
        assert SECRET not in done.out + done.err
    (shell.project / "skillhub.lock").unlink()
    for line in ("[sources.a]\nurl =", "[skills.deploy]\nfrom =", "[skills.deploy]\ngit ="):
        shell.write("project/skillhub.toml", f"{line} 'https://h.example/x?token=hunter2'\n")
        done = shell.run("install", "--json")
        assert done.status == 4
        assert SECRET not in done.out + done.err
