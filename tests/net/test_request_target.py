import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import NotFound, UnsafeTransfer, WrongBytes
from skillhub.net.fetch import FolderFetcher, Requester
from skillhub.net.target import RequestTarget, is_public, judge
from tests.support.effort import at_most

LOCAL = """
    127.0.0.1 10.1.2.3 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 168.63.129.16 0.0.0.0 255.255.255.255
    224.0.0.1 192.0.0.192 198.18.0.1 240.0.0.1 ::1 :: fe80::1%eth0 fc00::1 fec0::1 ff02::1 ff0e::1
    2001:0:4136:e378:8000:63bf:3fff:fdd2 ::ffff:10.0.0.1 ::ffff:127.0.0.1 64:ff9b::a00:1 64:ff9b:1::a00:1
    2002:a00:1:: 2001:db8::1
    """
# IPv4 in IPv6, in each form that a router, a translator or a socket may unwrap, and neighbouring forms.
EMBEDDED = """
    ::127.0.0.1 ::10.0.0.1 ::169.254.169.254 ::8.8.8.8 ::7f00:1 ::2
    ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8 ::ffff:7f00:1 ::fffe:127.0.0.1
    64:ff9b::127.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::1 64:ff9b:2::8.8.8.8
    64:ff9b:0:1::8.8.8.8
    2002:7f00:1:: 2002:a9fe:a9fe::a9fe:a9fe 2002:c0a8:1::1
    2001:0:7f00:1:0:ffff:f7f7:f7f7 2001:0:a9fe:a9fe:8000:63bf:fefe:fefe 2001:0:4136:e378:8000:63bf:80ff:fffe
    2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1 2606:4700:1:2:0:5efe:a9fe:a9fe fe80::5efe:8.8.8.8
    3fff::1 5f00::1 2001:10::1 2001:20::1 100::1 4000::1 8000::1 fec0::5efe:1.1.1.1 192.88.99.1
    """


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://example.com", "https://example.com:443", "/"),
        ("http://example.com", "http://example.com:80", "/"),
        ("http://Example.com:8080/a?b=c#d", "http://example.com:8080", "/a?b=c"),
        ("https://[2606:4700::1111]/x", "https://[2606:4700::1111]:443", "/x"),
        ("http://my_service.:80/", "http://my_service.:80", "/"),
    ],
)
def test_url_is_split_into_origin_and_path(url, origin, target):
    hop = RequestTarget.parse(url)
    assert (hop.origin, hop.raw_path) == (origin, target)
    assert hop.url == url.removesuffix("#d")


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://example.com:80/", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://[::1]:80/", "[::1]:80"),
    ],
)
def test_authority_has_every_port_except_the_default(url, authority):
    assert RequestTarget.parse(url).authority == authority


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_loopback_hosts_are_local(host):
    assert RequestTarget.parse(f"http://{host}:8080/").loopback


@pytest.mark.parametrize("host", ["localhost.example", "example.com", "0.0.0.0", "10.0.0.1", "[::2]"])
def test_other_hosts_are_not_local(host):
    assert RequestTarget.parse(f"http://{host}:8080/").loopback is False


def test_redirect_to_another_origin_is_restricted_to_public_addresses():
    hop = RequestTarget.parse("http://127.0.0.1:8080/a/b")
    assert not hop.follow("../c").public_only
    assert hop.follow("/c").url == "http://127.0.0.1:8080/c"
    assert hop.follow("https://example.com/").public_only
    assert hop.follow("https://127.0.0.1:8080/").public_only


def test_redirect_from_https_to_http_is_refused():
    with pytest.raises(UnsafeTransfer):
        RequestTarget.parse("https://example.com/a").follow("http://example.com/a")


PUBLIC = """
    1.1.1.1 64:ff9b::a83f:8111 2606:4700::1111 64:ff9b::101:101 ::ffff:1.1.1.1 2002:101:101::
    2001:0:4136:e378:8000:63bf:fefe:fefe 2606:4700::5efe:1.1.1.1 2a00:1450:4001:81b::200e 2001:4860:4860::8888
    """


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize("address", LOCAL.split())
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", EMBEDDED.split())
def test_attack_an_embedded_private_address_is_not_public(address):
    assert not is_public(address)
    assert not is_public(f"{address}%eth0")


@pytest.mark.parametrize("bad", ["é", "\n", "\r", "\t", "\0", "\x7f", " ", "\\"])
def test_attack_a_url_with_unsafe_characters_is_refused(bad):
    for url in (f"https://example.com/a{bad}b", f"https://example.com/?a{bad}b", f"https://example.com{bad}"):
        with pytest.raises(UnsafeTransfer):
            RequestTarget.parse(url)


def test_attack_a_url_of_megabytes_is_refused():
    assert RequestTarget.parse("http://127.0.0.1/" + "a" * (16_384 - 17)).loopback
    url = "http://127.0.0.1" + "/metadata" * 16_000 + "/x"
    with at_most(3), pytest.raises(UnsafeTransfer, match="expected an http or https URL"):
        judge(url, Requester("repository", url))


def test_port_outside_of_1_to_65535_is_refused():
    assert RequestTarget.parse("https://example.com:1/").port == 1
    for url in ("https://example.com:0/", "https://example.com:65536/", "https://example.com:-1/"):
        with pytest.raises(UnsafeTransfer):
            RequestTarget.parse(url)


NO_HOSTS = ("a..b", ".a", "a" * 64, ".".join(["a" * 60] * 5), "a%00b", 'a"b', "[::g]", "[1.2.3.4]", "[v1.x]")


@pytest.mark.parametrize("host", NO_HOSTS)
def test_attack_an_unresolvable_host_is_refused(host):
    for url in (f"https://{host}/x", f"http://{host}:8080"):
        with pytest.raises(UnsafeTransfer):
            RequestTarget.parse(url)
        with pytest.raises(UnsafeTransfer):
            RequestTarget.parse("https://example.com/").follow(url)


@given(st.from_regex(r"[a-zA-Z0-9.:_%-]{1,80}", fullmatch=True) | st.ip_addresses().map(str))
def test_any_accepted_host_can_be_encoded_for_look_up(host):
    with contextlib.suppress(UnsafeTransfer):
        RequestTarget.parse(f"https://{host}").host.encode("idna")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_parsed_or_refused(url, location):
    with contextlib.suppress(UnsafeTransfer):
        RequestTarget.parse(url)
    with contextlib.suppress(UnsafeTransfer):
        RequestTarget.parse("https://example.com/a/b").follow(location)


@pytest.mark.parametrize(
    "path", ["/../secret", "/a/../../secret", "//secret", "/./a", "/..", "", "/", "/a\x00", "/..\\secret"]
)
def test_folder_serves_no_file_outside_of_it(tmp_path, path):
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "site" / "a").mkdir(parents=True)
    folder = FolderFetcher(str(tmp_path / "site"), "embedded:")
    with pytest.raises(UnsafeTransfer):
        folder.get(f"embedded:{path}", cap=100)


def test_folder_answers_like_the_network(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"12345")
    folder = FolderFetcher(str(tmp_path), "embedded:")
    assert folder.get("embedded:/a/b", cap=5).data == b"12345"
    with pytest.raises(WrongBytes):
        folder.get("embedded:/a/b", cap=4)
    for path in ("a", "a/c", "a/b/c"):
        with pytest.raises(NotFound):
            folder.get(f"embedded:/{path}", cap=5)
    with pytest.raises(UnsafeTransfer):
        folder.get("https://example.com/a/b", cap=5)
