"""A mirror changes where bytes come from, never which bytes are trusted."""

import os

import pytest

from skillhub.errors import FormatError, NotFound, SourceError, UnsafeTransfer, WrongBytes
from skillhub.net.client import Http
from skillhub.net.fetch import RequestOptions
from skillhub.net.mirrors import Mirrors
from skillhub.net.settings import Logins, Settings
from tests.support.web import answer, redirect, requester_of


def mirrored(http, mirrors):
    return Mirrors(http, Settings(mirrors=mirrors))


def test_response_of_a_mirror_has_the_original_url(web):
    with Http() as http:
        mirror_client = mirrored(http, {"https://a.example": web.url("/a"), "https://a.example/deep": web.url("/d")})
        web.at("/a/x?y=1", answer(b"x"))
        web.at("/d/x", answer(b"deep"))
        web.at("/a/deeper", answer(b"other"))
        assert mirror_client.get("https://A.example:443/x?y=1", cap=9).url == "https://a.example/x?y=1"
        assert mirror_client.get("https://a.example/deep/x", cap=9).data == b"deep"
        assert mirror_client.get("https://a.example/deeper", cap=9).data == b"other"
        with pytest.raises(NotFound):
            mirror_client.get("https://a.example/absent", cap=9)


def test_redirect_within_the_mirror_is_mapped_to_the_site(web):
    with Http() as http:
        mirror_client = mirrored(http, {"https://a.example/s": web.url("/m")})
        web.at("/m/old", redirect("/m/new/index.json"))
        web.at("/m/new/index.json", answer(b"x"))
        web.at("/m/out", redirect("/elsewhere"))
        web.at("/elsewhere", answer(b"x"))
        assert mirror_client.get("https://a.example/s/old", cap=9).url == "https://a.example/s/new/index.json"
        assert mirror_client.get("https://a.example/s/out", cap=9).url == "https://a.example/s/out"


def test_private_mirror_serves_only_its_own_urls(web):
    """A URL in a public index is fetched from the mirror; the client checks a redirect of the mirror as any other."""
    site = "https://site.example/index.json"
    with Http() as http:
        mirror_client = mirrored(http, {"https://a.example/pub": web.url("/pub")})
        web.at("/pub/x", answer(b"x"))
        web.at("/secret", answer(b"secret"))
        web.at("/pub/out", redirect(f"http://localhost:{web.port}/secret"))
        assert mirror_client.get("https://a.example/pub/x", cap=9, named_by=requester_of(site)).data == b"x"
        for path in ("../secret", "%2e%2e/secret", "./x", "..%2fsecret", "out"):
            with pytest.raises(UnsafeTransfer):
                mirror_client.get(f"https://a.example/pub/{path}", cap=9, named_by=requester_of(site))
        with pytest.raises(UnsafeTransfer):
            mirror_client.get(web.url("/secret"), cap=9, named_by=requester_of(site))
    assert not web.seen["/secret"]


def test_attack_a_mirror_does_not_receive_the_token_of_the_site(web, tmp_path):
    known = Logins({"a.example": "A", "127.0.0.1": "M"}, {"A": "for-a", "M": "for-the-mirror"}, str(tmp_path))
    with Http(credentials=known) as http:
        mirror_client = mirrored(http, {"https://a.example": web.url("")})
        web.at("/x", answer(b"x"))
        mirror_client.ask(
            "https://a.example/x", cap=9, options=RequestOptions(headers={"Authorization": "Bearer for-a"})
        )
    assert "for-a" not in web.heads[0]
    assert "Authorization: Bearer for-the-mirror" in web.heads[0]


def test_without_mirrors_the_request_goes_to_the_server(web):
    with Http() as http:
        web.at("/a//../x", answer(b"x"))
        assert mirrored(http, {}).get(web.url("/a//../x"), cap=9) == http.get(web.url("/a//../x"), cap=9)


def test_attack_a_url_cannot_leave_a_mirror_folder(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "mirror" / "a b").mkdir(parents=True)
    (tmp_path / "mirror" / "a b" / "x").write_bytes(b"found")
    with Http() as http:
        mirror_client = mirrored(http, {"https://a.example/s": f"file://{tmp_path}/mirror"})
        for url in ("https://a.example/s/a%20b/x", "https://A.example:443/s/a%20b/x?y=1"):
            assert mirror_client.get(url, cap=9).data == b"found"
            assert mirror_client.get(url, cap=9).url.startswith("https://a.example/s/")
        for gone in ("secret", "a%20b", "x/y", "absent"):
            with pytest.raises(NotFound):
                mirror_client.get(f"https://a.example/s/{gone}", cap=9)
        for hostile in (
            "../secret",
            "%2e%2e/secret",
            "a%20b/..%2f..%2fsecret",
            "%5c..%5csecret",
            "a%00",
            "/",
            "a//x",
        ):
            with pytest.raises((UnsafeTransfer, NotFound)):
                mirror_client.get(f"https://a.example/s/{hostile}", cap=9)
        with pytest.raises(WrongBytes):
            mirror_client.get("https://a.example/s/a%20b/x", cap=2)
        (tmp_path / "mirror").rename(tmp_path / "unmounted")
        with pytest.raises(SourceError) as caught:
            mirror_client.get("https://a.example/s/a%20b/x", cap=9)
        assert caught.value.where == f"{tmp_path}/mirror" and "[mirrors]" in caught.value.hint


def test_attack_a_pipe_or_an_outward_link_in_a_mirror_folder_is_refused(tmp_path):
    """Others can write to a shared drive: a pipe would never end, and a link would show a file of this user."""
    (tmp_path / "secret").write_bytes(b"x")
    mirror = tmp_path / "mirror"
    (mirror / "deep").mkdir(parents=True)
    (mirror / "deep" / "x").write_bytes(b"found")
    (mirror / "inner").symlink_to("deep")
    (mirror / "out").symlink_to(tmp_path)
    (mirror / "file").symlink_to("../secret")
    os.mkfifo(mirror / "pipe")
    with Http() as http:
        mirror_client = mirrored(http, {"https://a.example": f"file://{mirror}"})
        assert mirror_client.get("https://a.example/inner/x", cap=9).data == b"found"
        for hostile in ("out/secret", "file"):
            with pytest.raises(UnsafeTransfer):
                mirror_client.get(f"https://a.example/{hostile}", cap=9)
        for gone in ("pipe", "a" * 300, "deep/x/y"):
            with pytest.raises(NotFound):
                mirror_client.get(f"https://a.example/{gone}", cap=9)


@pytest.mark.parametrize(
    "value",
    ["file:", "file://", "file:///", "file://host/x", "file:x", "file:///a/../b", "file:///a?b", "file:///a\x1b", 1],
)
def test_invalid_file_url_of_a_mirror_is_refused(value):
    with pytest.raises(FormatError):
        Settings.parse(f"[mirrors]\n'https://a.example' = {value!r}\n".encode(), "config.toml")
    assert Settings.parse(b"[mirrors]\n'https://a.example' = 'file:///srv/a/'\n", "config.toml").mirrors == {
        "https://a.example": "file:///srv/a"
    }
