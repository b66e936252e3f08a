"""Credentials in URLs are neither stored nor shown, by one rule for all names and places."""

import pytest

from skillhub.errors import FormatError, UsageError
from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock, Locked
from skillhub.model.reference import holds_secret, masked, parse_ref
from skillhub.project.project import parse_intent
from tests.support.effort import at_most

GHP = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ0bC2dE4fG6"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PLACE = "https://h.example/x.zip"
SECRET = [
    *(f"{PLACE}?{name}=hunter2" for name in ("token", "access_token", "TOKEN", "private-token", "api_key", "apikey")),
    *(f"{PLACE}?{name}=hunter2" for name in ("sig", "X-Amz-Signature", "X-Amz-Security-Token", "x-goog-signature")),
    *(
        f"{PLACE}?{name}=hunter2"
        for name in ("X-Amz-Credential", "AWSAccessKeyId", "Key-Pair-Id", "Policy_Signature")
    ),
    *(f"{PLACE}?{name}=hunter2" for name in ("password", "passwd", "pwd", "secret", "client.secret", "auth", "key")),
    *(f"{PLACE}?{name}=hunter2" for name in ("Authorization", "x-api-key", "Cookie", "sessionid", "jwt", "bearer")),
    *(f"{PLACE}{end}token=hunter2" for end in ("?a=b&", "#", "#a&", "?a=b#", "?a;", ";", "?a=b&amp;", "/?", "?&&")),
    *(f"{PLACE}?{name}=hunter2" for name in ("%74oken", "%2574oken", "%252574oken", "to%6Ben", "access%5Ftoken")),
    *(f"{PLACE}?a=b%26token=hunter2", f"{PLACE}?token%3Dhunter2", f"{PLACE}?u=https://o.example/?token=hunter2"),
    *(f"{PLACE}?{value}" for value in (GHP, JWT, f"x={GHP}", f"x={JWT}", f"x=Bearer%20{GHP}", "d3adB33f0123456789")),
    *(f"{PLACE}#{GHP}", f"{PLACE};{GHP}", f"{PLACE}?x=glpat-aaaaaaaaaaaa", f"{PLACE}?x=AKIAIOSFODNN7EXAMPLE"),
    *(
        "https://u:hunter2@h.example/x.zip",
        "https://hunter2@h.example/x.zip",
        "https://u%3Ahunter2%40h.example/x.zip",
    ),
    *("https://u:p%40hunter2@h.example/x", "https://:hunter2@h.example/x", "HTTPS://u:hunter2@h.example/x"),
    *("ssh://git:hunter2@h.example/x", "ssh://git%3Ahunter2@h.example/x"),
]
STRONG = """
    token=correct-horse-battery password=correct-horse-battery pass=correct-horse
    passphrase=correct-horse secret=correct-horse sig=correct-horse pw=letmein pwd=letmein
    access_token=letmein client_secret=letmein passwd=letmein api-key=letmein auth=alice:letmein
    auth=alice%3Aletmein auth=YWxpY2U6aHVudGVyMg== key=9f8e7d6c5b4a key=AIzaSyD-9tSrke72PouQMnMX
    key=qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq key=123456789 key=Tr0ub4dor&3x code=d41d8cd98f00b204e980
    sid=d41d8cd98f00b204e980 ticket=d41d8cd98f00b204e980 session=d41d8cd98f00b204e980
    tokenid=letmein storage_key=a1B2c3D4e5 u=https://u:letmein@o.example/ u=https%3A%2F%2Fu%3Aletmein%40o.example
    a[token]=letmein a.b.password=letmein data=%7B%22token%22%3A%22letmein%22%7D data={%22password%22:%22letmein%22}
    oauth_code=d41d8cd98f00b204e980 t=a1b2c3d4e5f6a7b8c9d0 t=5d41402abc4b2a76b9719d911017c592
"""
HARMLESS = """
    key=docs key=1 key=v2 key=getting-started key=GettingStarted key=README key=a/b.md key=2026 key=
    version=1 ref=main raw=1 download=true code=python code=404 auth=none token=true signature=yes
    session=fall-2026 oauth=github max_tokens=4096 pass=2 tokenizer=bpe secretary=jane
    cookies=accept ticket=docs-123 sid=main password= v=5d41402abc4b2a76b9719d911017c592 sha=0a1b2c3
    etag=0a1b2c3d4e5f6071 lang=en-GB file=mypackage20260102.zip at=20260102T030405Z rev=v1.2.0-rc.1
    name=LongCamelCaseName2 keyword=python3 keys=a,b monkey=1 author=alice99 design=modern2024 id=dQw4w9WgXcQ
    path=skills/token-counter name=password-policy-checker token_type=bearer grant=authorization_code
    u=https://o.example/@user/post job=build-linux-x86_64 t=1700000000 api-version=7.1-preview.1 ref_type=heads
"""
PLAIN = [
    PLACE, f"{PLACE}?v=1.2.0", f"{PLACE}?ref=main&path=skills/gh-fix-ci", f"{PLACE}?raw=true", f"{PLACE}#skills/pdf",
    f"{PLACE}#{'0123456789abcdef0a1b' * 2}",
    f"{PLACE}?ref={'0a1b' * 10}", f"{PLACE}?sha256={'0a1b' * 16}", f"{PLACE}?ref=release-2026-01-02-internal-tools",
    "ssh://git@h.example/x", "https://h.example/a@b", f"{PLACE}?page=2&sort=name", f"{PLACE}?file=gh-fix-ci-1.zip",
    f"{PLACE}?id=123e4567-e89b-12d3-a456-426614174000", f"{PLACE}?", f"{PLACE}#",
    "https://h.example/token/x.zip",
]  # fmt: skip


@pytest.mark.parametrize("url", SECRET)
def test_attack_a_credential_in_a_url_is_neither_stored_nor_shown(url):
    assert holds_secret(url)
    shown = masked(f"expected {url}, found '{url}' and (\"{url}\")")
    assert not any(secret in shown for secret in ("hunter2", GHP, JWT, "d3adB33f", "glpat-a", "AKIAIO"))
    for text in (url, f"git+{url}"):
        with pytest.raises(UsageError) as caught:
            parse_ref(text)
        message = f"{caught.value.message} {caught.value.where}"
        assert not any(secret in message for secret in ("hunter2", GHP, JWT, "d3adB33f", "glpat-a", "AKIAIO"))
    for line in (f"[sources.a]\nurl = '{url}'", f"[skills]\na = {{ from = '{url}' }}"):
        with pytest.raises(FormatError) as caught:
            parse_intent(line.encode())
        assert "hunter2" not in caught.value.message
    tree = Digest.of(b"x")
    for source in (url, "https://h.example"):
        with pytest.raises(FormatError) as caught:
            Lock({"a": Locked(source=source, url=url, tree=tree, size=1)}).dump()
        assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("url", PLAIN)
def test_url_without_a_credential_is_stored_and_shown(url):
    assert not holds_secret(url)
    assert masked(f"found '{url}' there") == f"found '{url}' there"


@pytest.mark.parametrize("pair", STRONG.split())
def test_attack_an_evident_credential_is_masked(pair):
    value = pair.partition("=")[2]
    assert holds_secret(f"{PLACE}?a=b&{pair}")
    assert value not in masked(f"found {PLACE}?{pair}")


@pytest.mark.parametrize("pair", HARMLESS.split())
def test_ambiguous_name_with_a_harmless_value_is_stored(pair):
    """Locks and intents with such a URL stay readable."""
    assert not holds_secret(f"{PLACE}#{pair}")
    for url in (f"{PLACE}?{pair}", f"{PLACE}?a=b&{pair}"):
        assert not holds_secret(url)
        assert masked(f"found '{url}'") == f"found '{url}'"
        data = Lock({"a": Locked(source=url, url=url, tree=Digest.of(b"x"), size=1)}).dump()
        assert Lock.parse(data).skills["a"].url == url
        assert parse_intent(f"[skills]\na = {{ from = '{url}' }}".encode()).skills["a"].origin == url


def test_attack_a_long_url_is_checked_in_linear_time():
    for url in (
        f"{PLACE}?" + "a=b&" * 100_000,
        f"{PLACE}?" + "%25" * 100_000,
        f"{PLACE}?" + "a" * 1_000_000,
        f"{PLACE}?a://" + ":" * 500_000,
        f"{PLACE}?" + "://" * 200_000,
        f"{PLACE}?key=" + "aA" * 300_000,
    ):
        holds_secret(url)
        masked(url)


@pytest.mark.parametrize(
    "text",
    [
        "oauth2:hunter2@gitlab.example/a/b",
        "gitlab.example/oauth2:hunter2@gitlab.example",
        "u:hunter2@h.example:8080/x",
        "oauth2:hun/hunter2@gitlab.example/a",
        "u:hunter2@@h.example",
    ],
)
def test_attack_a_password_without_a_scheme_before_it_is_not_repeated(text):
    with pytest.raises(UsageError) as caught:
        parse_ref(text)
    assert "hunter2" not in str(caught.value) + (caught.value.hint or "")


def test_a_malformed_name_with_a_version_is_repeated():
    with pytest.raises(UsageError, match=r"github:Bad_Name@1\.2\.0"):
        parse_ref("github:Bad_Name@1.2.0")


@pytest.mark.parametrize("text", [":" * 50_000 + "x", ":@a.a." * 8_000 + "!", ":@" * 12_000 + "a." * 12_000 + "1"])
def test_attack_a_long_text_in_place_of_a_reference_is_refused_in_linear_time(text):
    with at_most(3), pytest.raises(UsageError):
        parse_ref(text)


def test_attack_a_text_of_thousands_of_schemes_is_masked_in_linear_time():
    text = "https://h.example/" + "://" * 30_000 + "';"
    with at_most(3):
        assert masked(text) == text
