import http.client
import os
import socket
import tracemalloc
from contextlib import ExitStack

import pytest

from fixtures.build import EMBEDDED
from skillhub.errors import NotFound, StateError, UsageError
from skillhub.net.client import Http
from skillhub.registry.check import check
from skillhub.server.headers import HEADERS
from skillhub.server.site import find_page, site_server
from skillhub.sources.configured import embedded_root
from skillhub.sources.registry_client import TufRegistry
from tests.support.effort import calls
from tests.support.registry import now
from tests.support.serving import serving


@pytest.fixture
def site(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    folder = tmp_path / "site"
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "timestamp.json").write_bytes(b"{}")
    (folder / "metadata" / "1.root.json").write_bytes(b"{}")
    (folder / ("a" * 64 + ".zip")).write_bytes(b"PK")
    os.symlink(tmp_path / "secret", folder / "link.json")
    os.symlink(tmp_path, folder / "up")
    return folder


@pytest.fixture
def ask(site):
    with serving(site_server(str(site))) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)

        def ask(path, method="GET", **headers):
            connection.putrequest(method, path, skip_host=False)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            response = connection.getresponse()
            return response, response.read()

        yield ask
        connection.close()


def test_file_has_its_type_validator_and_lifetime(ask):
    response, body = ask("/metadata/timestamp.json")
    assert (response.status, body) == (200, b"{}")
    assert response.getheader("Content-Type") == "application/json"
    assert response.getheader("Cache-Control") == "public, max-age=60"
    assert response.getheader("Accept-Ranges") == "none"
    etag = response.getheader("ETag")
    for header in (etag, f'W/{etag}, "x"'):
        response, body = ask("/metadata/timestamp.json", If_None_Match=header)
        assert (response.status, body) == (304, b"")
    assert ask("/metadata/timestamp.json", If_None_Match='"other"')[0].status == 200


@pytest.mark.parametrize("path", ["/metadata/1.root.json", f"/{'a' * 64}.zip"])
def test_file_with_a_version_or_hash_in_its_name_is_immutable(ask, path):
    assert "immutable" in ask(path)[0].getheader("Cache-Control")


@pytest.mark.parametrize("host", ["evil.invalid", "evil.invalid:80", "127.0.0.1.evil.invalid", "[::1", "10.0.0.7"])
def test_attack_a_rebound_host_name_reads_no_registry_on_this_machine(site, host):
    with serving(site_server(str(site))) as server:
        port = server.server_port
        for name, status in ((host, 421), (f"localhost:{port}", 200), (f"[::1]:{port}", 200), ("127.0.0.1", 200)):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/metadata/timestamp.json", headers={"Host": name})
            assert connection.getresponse().status == status
            connection.close()


def test_a_server_that_other_machines_reach_is_for_everybody(site):
    with serving(site_server(str(site), "0.0.0.0")) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        connection.request("GET", "/metadata/timestamp.json", headers={"Host": "skills.invalid"})
        assert connection.getresponse().status == 200
        connection.close()


def test_head_range_and_query_are_answered(ask):
    response, body = ask("/metadata/timestamp.json?x=1", "HEAD")
    assert (response.status, response.getheader("Content-Length"), body) == (200, "2", b"")
    response, body = ask("/metadata/timestamp.json", Range="bytes=0-0")
    assert (response.status, body) == (200, b"{}")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/metadata",
        "/metadata/",
        "/../secret",
        "/%2e%2e/secret",
        "/metadata/../../secret",
        "/..%2fsecret",
        "/..%5csecret",
        "/link.json",
        "/up/secret",
        "/up/site/metadata/timestamp.json",
        "/metadata//timestamp.json",
        "/metadata/timestamp.json/",
        "/metadata/timestamp.json%00",
        "/%ff",
        "metadata/timestamp.json",
        "/" + "a" * 5000,
    ],
)
def test_only_plain_files_of_the_site_are_served(ask, path):
    response, body = ask(path or "*")
    assert (response.status, body) == (404, b"")


def test_pages_have_their_policy_and_missing_files_a_page(ask, site):
    (site / "-").mkdir()
    for path in ("index.html", "404.html", "-/style.css", "-/search.js", "feed.xml"):
        (site / path).write_text(path)
    types = {
        path: ask(f"/{path}")[0].getheader("Content-Type").partition(";")[0] for path in ("-/style.css", "feed.xml")
    }
    assert types == {"-/style.css": "text/css", "feed.xml": "application/xml"}
    response, body = ask("/")
    assert (response.status, body, response.getheader("Content-Type")) == (
        200,
        b"index.html",
        "text/html; charset=utf-8",
    )
    policy = response.getheader("Content-Security-Policy")
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    for method, shown in (("GET", b"404.html"), ("HEAD", b"")):
        response, body = ask("/none", method)
        assert (response.status, body, response.getheader("Cache-Control")) == (404, shown, "no-store")


@pytest.mark.parametrize(
    "name", ["index.html", "evil.svg", "evil.js", "evil.css", "evil.xml", "evil.xhtml", "SKILL.md"]
)
def test_attack_a_file_of_a_skill_is_served_inert(ask, site, name):
    (site / "hello").mkdir()
    (site / "hello" / name).write_text("<script xmlns='http://www.w3.org/1999/xhtml'>alert(1)</script>")
    response, _ = ask(f"/hello/{name}")
    assert response.getheader("Content-Type") in ("application/octet-stream", "text/markdown; charset=utf-8")
    assert response.getheader("Content-Security-Policy").endswith("; sandbox")
    assert response.getheader("X-Content-Type-Options") == "nosniff"


def test_attack_slow_clients_of_a_large_file_keep_no_copy_of_it_in_memory(site):
    size, clients = 32 << 20, 4
    (site / "large.bin").write_bytes(b"")
    os.truncate(site / "large.bin", size)
    with serving(site_server(str(site))) as server, ExitStack() as ending:
        ending.callback(tracemalloc.stop)
        tracemalloc.start()
        for _ in range(clients):
            peer = ending.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=300))
            peer.sendall(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert peer.recv(12) == b"HTTP/1.1 200"
        assert tracemalloc.get_traced_memory()[0] < size


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on open files")
def test_attack_the_links_of_a_path_without_a_file_are_not_read(site):
    """A request of 64 kB with a path of 32,000 segments took as long as a hundred others."""
    [resolved] = calls(lambda: find_page(str(site), "/a" * 9_000), os.path.realpath)
    assert resolved == 0
    assert find_page(str(site), "/up/secret") is None


def test_attack_a_file_of_an_overloaded_server_is_not_missing(ask):
    import resource  # Windows lacks it

    assert ask("/metadata/timestamp.json")[0].status == 200  # the connection stays open
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        status = ask("/metadata/timestamp.json")[0].status
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert status == 503


def test_a_file_that_becomes_shorter_while_it_is_sent_ends_the_connection(site):
    path = site / "large.bin"
    path.write_bytes(b"")
    os.truncate(path, 256 << 20)
    with (
        serving(site_server(str(site))) as server,
        socket.create_connection(("127.0.0.1", server.server_port), timeout=300) as peer,
    ):
        peer.sendall(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.recv(12) == b"HTTP/1.1 200"
        os.truncate(path, 0)
        assert sum(map(len, iter(lambda: peer.recv(1 << 20), b""))) < 256 << 20


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_methods_that_write_are_refused(ask, method):
    assert ask("/metadata/timestamp.json", method)[0].status == 501


@pytest.mark.parametrize(("method", "more"), [("<b>", {}), ("GET", {"Host": "a.invalid"}), ("HEAD", {"Host": "a"})])
def test_attack_an_error_is_inert_and_repeats_nothing_of_the_request(ask, method, more):
    response, body = ask("/", method, **more)
    assert response.status in (421, 501) and body in (b"", b"Misdirected Request\n", b"Not Implemented\n")
    assert {name: response.getheader(name) for name in HEADERS} == HEADERS
    assert response.getheader("Content-Type") == "text/plain; charset=utf-8"


def test_served_registry_is_valid_and_readable(tmp_path):
    with serving(site_server(EMBEDDED)) as server, Http() as fetcher:
        url = f"http://127.0.0.1:{server.server_port}"
        assert check(url, now(), fetcher_for=lambda _: fetcher).problems == ()
        registry = TufRegistry.open(url, embedded_root(), fetcher, str(tmp_path))
        release = registry.release_index(["gh-fix-ci"]).releases("gh-fix-ci")[0]
        assert len(registry.artifact(release)) == release.size


def test_missing_folder_and_used_or_impossible_port_are_errors(tmp_path):
    with pytest.raises(NotFound):
        site_server(str(tmp_path / "absent"))
    for port in (-1, 65536):
        with pytest.raises(UsageError, match=f"^expected a port from 0 to 65535, found {port}$"):
            site_server(str(tmp_path), port=port)
    taken = pytest.raises(StateError, match=r"^cannot listen: [A-Z]")
    with site_server(str(tmp_path)) as server, taken:
        site_server(str(tmp_path), port=server.server_port)
