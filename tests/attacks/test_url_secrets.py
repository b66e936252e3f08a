"""A credential in a URL, from the user or from a server, gets into no file and no output."""

import json

import pytest

from skillhub.answers import error_json
from skillhub.errors import Refused, SkillhubError
from skillhub.model.question import Answer, Question
from skillhub.net.client import Http
from tests.support.site import AT_ONCE, JSON, WELL_KNOWN, current, offer
from tests.support.web import answer, raw, redirect

SKILL = b"---\nname: deploy\ndescription: Deploys.\n---\n\nDeploy.\n"
SECRET = "hunter2"


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
def test_attack_a_typed_url_with_a_credential_is_refused(web, shell, words, form):
    web.at("/SKILL.md", answer(SKILL, "Content-Type: text/markdown"))
    words = [each.replace("URL", web.url("")).replace("HOST", f"127.0.0.1:{web.port}") for each in words]
    done = shell.run(*words, *form)
    assert done.status == 2, done.err
    clean(shell, done)
    assert not web.seen


def test_attack_a_redirect_to_a_url_with_a_credential_is_not_stored(web, shell):
    """Cloud storage redirects each download to a signed URL, which is of no use later."""
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


def test_attack_a_lock_or_an_intent_with_a_credential_is_refused(shell):
    tree = f"sha256:{'1' * 64}"
    entry = {"capabilities": [], "requires": [], "size": 1, "tree": tree, "source": "https://h.example"}
    entry["url"] = "https://h.example/x.zip?token=hunter2"
    shell.write("project/skillhub.lock", json.dumps({"version": 1, "skills": {"deploy": entry}, "sources": {}}))
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


def test_attack_a_skill_at_a_url_with_a_credential_in_an_index_is_refused(web, shell):
    """The skill is refused before any request for it; another skill of the site is not affected."""
    good, bad = offer(web, "good"), offer(web, "bad")
    bad["url"] += "?X-Amz-Signature=hunter2"
    web.at(WELL_KNOWN, answer(current(good, bad), JSON))
    for form in ((), ("--json",)):
        done = shell.run("install", web.url("/"), "--skill", "bad", "--yes", "--allow-unsigned", *form)
        assert done.status == 4, done.err
        clean(shell, done)
        done = shell.run("install", web.url("/"), "--all", "--yes", "--allow-unsigned", *form)
        assert done.status == 4, done.err
        clean(shell, done)
    assert not any("hunter2" in path for path in web.seen)
    assert not (shell.hub / "store").exists() or not any((shell.hub / "store").iterdir())
    assert shell.run("install", web.url("/"), "--skill", "good", "--yes", "--allow-unsigned").status == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_attack_a_credential_in_the_url_of_a_policy_is_masked(shell, form):
    policy = "sources = ['https://u:hunter2@h.example/', 'https://h.example/x?token=hunter2']\n"
    shell.write("hub/config/policy.toml", policy)
    for words in (("doctor", "policy"), ("install", "https://other.example/", "--yes")):
        done = shell.run(*words, *form)
        assert SECRET not in done.out + done.err
        assert "h.example" in done.out + done.err


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("target", ["oci://u:hunter2@h.example/r:1", "s3://u:hunter2@b/x", "https://h/?sig=hunter2"])
def test_attack_a_push_target_with_a_credential_is_refused(shell, target, form):
    done = shell.run("registry", "push", shell.folder, target, *form)
    assert done.status == 2
    clean(shell, done)


def test_attack_a_stored_credential_is_removed_at_the_next_write(web, shell):
    copy = {"digest": f"sha256:{'1' * 64}", "etag": "", "modified": "", "fresh_until": 0}
    url = "https://h.example/"
    rows = {
        f"{url}?token=hunter2": {"url": url, **copy},
        f"{url}a": {"url": f"{url}?sig=hunter2", **copy},
        f"{url}b": {"url": url, **copy},
    }
    known = {"version": 1, "sites": [], "copies": rows}
    path = shell.write("hub/state/sites.json", json.dumps(known))
    web.at("/SKILL.md", answer(SKILL, "Content-Type: text/markdown", 'ETag: "1"'))
    done = shell.run("install", web.url("/SKILL.md"), "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    clean(shell, done)
    with open(path) as file:
        assert f"{url}b" in json.load(file)["copies"]


def test_attack_an_error_object_contains_no_credential(web):
    """Errors of a library are logged, so message, arguments, place and hint are masked at their origin."""
    url = "/signed?X-Amz-Signature=hunter2"
    web.at("/away", redirect("ftp://u:hunter2@other.example/?token=hunter2"))
    web.at("/broken", redirect(url))
    web.at(url, raw(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))
    with Http(patience=AT_ONCE) as http:
        for path in ("/away", "/broken"):
            with pytest.raises(SkillhubError) as caught:
                http.get(web.url(path), cap=9)
            error = caught.value
            assert SECRET not in f"{error} {error.args} {error.message} {error.where} {error.hint}"


def test_attack_a_credential_in_any_part_of_an_error_is_removed():
    url = "https://u:hunter2@h.example/?token=hunter2"
    error = Refused(f"no {url}", where=url, hint=f"see {url}")
    error.reason = f"for {url}"
    error.skills = [{"name": "a", "code": "refused", "message": f"at {url}"}]
    question = Question("install", "a", f"Install it from {url}?", (f"from: {url}",))
    error.asked = [(question, Answer("unanswered"))]
    printed = json.dumps(error_json(error))
    assert SECRET not in printed
    assert printed.count("h.example") == 7


def test_a_url_in_the_text_of_a_skill_is_shown_unchanged(shell):
    """An example in the text of a skill is no credential of the user; load prints the text unchanged."""
    text = "Ask https://api.example/v1?api_key=YOUR-KEY-HERE for it."
    shell.skill("project/plain", **{"SKILL.md": f"---\nname: plain\ndescription: Does it.\n---\n\n{text}\n"})
    assert shell.run("install", "./plain", "--yes", "--allow-unsigned").status == 0
    assert text in shell.run("load", "plain", "--json").json["text"]
