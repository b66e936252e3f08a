import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from skillhub.errors import UnsafeTransfer
from skillhub.server.site import site_server
from skillhub.world.http import Http
from tests.support.web import Web, redirect


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate of this machine's own, as a PEM file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + secret)
    return str(path)


@pytest.fixture
def secure(authority, tmp_path):
    """Return the base URL of a site over https."""
    (tmp_path / "a.json").write_bytes(b"{}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    server = site_server(str(tmp_path))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_server_that_proves_who_it_is(secure, authority):
    with Http(tls=ssl.create_default_context(cafile=authority)) as http:
        for _ in range(2):
            assert http.get(f"{secure}/a.json", cap=2).data == b"{}"


def test_server_that_cannot_prove_who_it_is(secure):
    with Http() as http, pytest.raises(UnsafeTransfer, match="cannot prove"):
        http.get(f"{secure}/a.json", cap=2)


def test_certificate_of_another_host(secure, authority):
    with Http(tls=ssl.create_default_context(cafile=authority)) as http, pytest.raises(UnsafeTransfer):
        http.get(f"{secure.replace('127.0.0.1', 'localhost')}/a.json", cap=2)


def test_private_site_over_https_is_reached_by_no_redirect(secure, authority):
    with Web() as web, Http(tls=ssl.create_default_context(cafile=authority)) as http:
        http.get(f"{secure}/a.json", cap=2)
        with pytest.raises(UnsafeTransfer, match="private"):
            http.get(web.at("/a", redirect(f"{secure}/a.json")), cap=2)
