"""Measure installs over a network: TLS, 20 ms of latency and 100 Mbit/s, skillhub and the npm client in turns.

    python tests/bench/link.py --npm DIR [-n 1,100,1000] [--rounds 3] [--rtt 0.02] [--rate 100]

A process in front of each server holds every byte back for half of the latency each way and lets so many pass in a
second, over all connections together; to connect takes the whole latency once, as a handshake of TCP does, and TLS
takes its own. A connection has its full rate from the start. The servers are those of `skillhub registry serve` and
`git http-backend`, the certificate is of an authority that was made for the run.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from offers import Offers, served  # noqa: E402
from peers import OURS, Desk, Row, Tool, compare, heads, npm_program  # noqa: E402
from run import PYTHON, SKILLHUB, measure  # noqa: E402

RTT, RATE = 0.02, 100.0  # seconds, and Mbit in a second
SITE, REGISTRY, GIT = "from a site", "from a registry", "from a git server"
LIMITS = {(work, "skills"): {1: 1.8, 100: 0.8, 1000: 0.4} for work in (SITE, REGISTRY, GIT)}
_AHEAD = 0.02  # seconds that a connection may be ahead of the line, or the clock's ticks would slow it down
_GIT = (
    "import sys; from pathlib import Path; from tests.support import gitbackend;"
    "gitbackend._Handler.protocol_version = 'HTTP/1.1'; server = gitbackend.Backend(Path(sys.argv[1]));"
    "print(server.server_address[1], flush=True); server.serve_forever()"
)


# The line: TLS behind, latency and rate in front, so that the handshake of TLS waits as it does elsewhere.


class Lane:
    """One direction of a line, which all its connections share.

    Args:
        delay: The seconds after which a byte arrives.
        rate: The bytes that pass in a second; None if any number does.
    """

    def __init__(self, delay: float, rate: float | None) -> None:
        self._delay = delay
        self._rate = rate
        self._free = 0.0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on every byte of a connection in order, and then its end."""
        loop = asyncio.get_running_loop()
        while data := await reader.read(1 << 14):
            now = loop.time()
            self._free = max(now, self._free) + (len(data) / self._rate if self._rate else 0.0)
            loop.call_at(self._free + self._delay, writer.write, data)
            if self._free - now > _AHEAD:
                await asyncio.sleep(self._free - now - _AHEAD / 2)
        loop.call_at(max(loop.time(), self._free) + self._delay, writer.close)


async def line(port: int, rtt: float, rate: float | None) -> asyncio.Server:
    """Return a running server in front of the one at ``port``; ``rate`` is in bytes a second."""
    there, back = Lane(rtt / 2, rate), Lane(rtt / 2, rate)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(rtt)
        answers, to = await asyncio.open_connection("127.0.0.1", port)
        with suppress(OSError):
            await asyncio.gather(there.carry(reader, to), back.carry(answers, writer))

    return await asyncio.start_server(relay, "127.0.0.1", 0, backlog=256)


async def tls(port: int, pem: str) -> asyncio.Server:
    """Return a running server that accepts TLS and forwards to the server at ``port``, which does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            answers, to = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(one_way(reader, to), one_way(answers, writer))

    return await asyncio.start_server(relay, "127.0.0.1", 0, backlog=256, ssl=context)


async def serve(port: int, pem: str, rtt: float, rate: float | None) -> None:
    """Serve the server at ``port`` over such a line, and print the port of the line."""
    behind = await tls(port, pem)
    front = await line(behind.sockets[0].getsockname()[1], rtt, rate)
    print(front.sockets[0].getsockname()[1], flush=True)
    await front.serve_forever()


def certificates(folder: Path) -> tuple[Path, Path]:
    """Write a new certificate authority, and a certificate for 127.0.0.1 with its key; return the paths of both."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    now, top, key = (
        datetime.now(UTC),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    own = x509.SubjectKeyIdentifier.from_public_key(top.public_key())
    usage = dict.fromkeys(
        (
            *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
        ),
        False,
    )

    def made(public: ec.EllipticCurvePublicKey, subject: str, serial: int, is_authority: bool) -> x509.Certificate:
        does = {"key_cert_sign": True, "crl_sign": True} if is_authority else {"digital_signature": True}
        found = (
            x509.CertificateBuilder(
                name("bench authority"), name(subject), public, serial, now, now + timedelta(days=1)
            )
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**{**usage, **does}), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        )
        if not is_authority:
            address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
            found = found.add_extension(address, critical=False)
        return found.sign(top, SHA256())

    authority, both = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(made(top.public_key(), "bench authority", 1, True).public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(made(key.public_key(), "bench", 2, False).public_bytes(Encoding.PEM) + secret)
    return authority, both


@dataclass(frozen=True)
class Line:
    """What servers are put behind; ``rate`` is in Mbit in a second."""

    folder: Path
    rtt: float = RTT
    rate: float = RATE

    @contextmanager
    def to(self, url: str) -> Iterator[str]:
        """Put the server at ``url`` behind the line, in a separate process."""
        words = ["--part", "serve", str(urlsplit(url).port), str(self.folder / "server.pem")]
        words += ["--rtt", str(self.rtt), "--rate", str(self.rate)]
        with subprocess.Popen(
            [PYTHON, str(Path(__file__).resolve()), *words], stdout=subprocess.PIPE, text=True
        ) as it:
            try:
                assert it.stdout is not None
                yield f"https://127.0.0.1:{int(it.stdout.readline())}"
            finally:
                it.terminate()

    @property
    def trusted(self) -> Mapping[str, str]:
        """The variables by which Python, node and git trust its authority."""
        return dict.fromkeys(
            ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"), str(self.folder / "authority.pem")
        )


@contextmanager
def git_server(folder: Path) -> Iterator[str]:
    """Serve repositories over git's own protocol in a separate process."""
    with subprocess.Popen(
        [PYTHON, "-c", _GIT, str(folder)], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]
    ) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


class Shelf:
    """The corpus on a site, in a registry and in a git repository, and a home whose user trusts that registry."""

    def __init__(self, top: Path, count: int, program: list[str]) -> None:
        self._program = program
        self.offers = Offers(top, count)
        self.offers.write()
        self.home, self._registry = top / "trusting", top / "registry"
        self.home.mkdir()
        self._run("registry", "init", str(self._registry), "--publisher", "bench")
        self._run("registry", "add", str(self._registry), *map(str, sorted((top / "skills").iterdir())))
        (top / "git").mkdir()
        words = ["git", "clone", "-q", "--bare", str(top / "repository"), str(top / "git" / "skills.git")]
        subprocess.run(words, check=True)

    @contextmanager
    def online(self, line: Line) -> Iterator[Mapping[str, str]]:
        """Give the URL of each, all behind such a line."""
        with ExitStack() as undo:
            site = undo.enter_context(served(self.offers.top / "site"))
            registry = undo.enter_context(served(self._registry / "site"))
            git = undo.enter_context(git_server(self.offers.top / "git"))
            plain = {SITE: site, REGISTRY: registry, GIT: git}
            urls = {work: undo.enter_context(line.to(url)) for work, url in plain.items()}
            urls[GIT] += "/skills.git"
            root = str(self._registry / "site" / "metadata" / "1.root.json")
            self._run("source", "add", "bench", urls[REGISTRY], "--root", root, "--yes", **line.trusted)
            yield urls

    def _run(self, *words: str, **more: str) -> None:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "SKILLHUB_HOME": str(self.home / "hub")}
        measure([*self._program, *words], self.home, {**environ, **more})


def raced(
    top: Path, count: int, npm: str | None, rounds: int, line: Line | None = None, program: list[str] = SKILLHUB
) -> Iterator[Row]:
    """Print and yield the cost of a first install of so many skills over the line."""
    top.mkdir(parents=True)
    certificates(top)
    shelf, line = Shelf(top, count, program), line or Line(top)
    with shelf.online(line) as urls:
        ours = [*program, "install"]
        rest = ["--yes", "--allow-unsigned", "--agent", "claude-code"]
        names = [f"bench:{name}" for name in shelf.offers.names]
        works = {
            SITE: [*ours, urls[SITE], "--all", *rest],
            REGISTRY: [*ours, *names, *rest],
            GIT: [*ours, f"git+{urls[GIT]}", "--all", *rest],
        }
        tools = {OURS: Tool(works, [])}
        if npm is not None and (program := npm_program(npm, "skills")):
            add = ["-y", "-a", "claude-code", "--skill", "*"]
            tools["skills"] = Tool({work: [*program, "add", url, *add] for work, url in urls.items()}, [])
        desk = Desk(shelf.offers, line.trusted, shelf.home)
        print(heads(), flush=True)
        for row in compare(desk, tools, rounds, LIMITS):
            print(row, flush=True)
            yield row
    shutil.rmtree(top)


def main() -> int:
    """Print what each took; return 1 if one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", default="1,100", help="how many skills, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rtt", type=float, default=RTT)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--npm", help="the folder with node_modules: skills")
    parser.add_argument("--dir", help="where to work")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        asyncio.run(serve(int(given.part[1]), given.part[2], given.rtt, given.rate * 125_000))
        return 0
    rows = []
    with tempfile.TemporaryDirectory(prefix="skillhub-link-", dir=given.dir) as name:
        for count in map(int, given.n.split(",")):
            top = Path(name) / str(count)
            line = Line(top, given.rtt, given.rate)
            rows += [*raced(top, count, given.npm, given.rounds if count < 1_000 else 1, line)]
    return 0 if all(row.is_good(other) for row in rows for other in row.others) else 1


if __name__ == "__main__":
    sys.exit(main())
