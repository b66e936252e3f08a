"""Against the reference implementation of tiles and signed notes in Go (``golang.org/x/mod``).

``SKILLHUB_GO`` names the program go, ``SKILLHUB_GO_SOURCES`` a folder with checkouts of ``golang.org/x/mod`` and
``github.com/transparency-dev/formats`` below ``src``. ``log_tiles.go`` reads the log of a test registry like a
monitor: it proves each entry and each earlier tree from our tiles, and signs a checkpoint of its own.
"""

import os
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import AdmissionChange, delegate
from skillhub.trust.keys import PrivateKey
from skillhub.trust.log import Checkpoint, Note, NoteKey, origin_of, signed_checkpoint
from tests.interop.test_skills_ref import given
from tests.support.registry import Simulator, key_of

pytestmark = pytest.mark.interop
PROGRAM = Path(__file__).with_name("log_tiles.go")


def test_another_implementation_reads_proves_and_signs_the_log(tmp_path):
    go, sources = given("SKILLHUB_GO"), given("SKILLHUB_GO_SOURCES")
    for module in ("golang.org/x/mod/sumdb/tlog", "github.com/transparency-dev/formats/log"):
        if not os.path.isdir(os.path.join(sources, "src", module)):
            pytest.skip(f"{module} could not be fetched")
    hub = Simulator(tmp_path, bits=1, log=True)
    hub.publish()
    # More than one tile at level 0, and one at level 1.
    keys = [PrivateKey.from_seed(number.to_bytes(32)).public.pem for number in range(1, 301)]
    delegate(hub.dir.path, AdmissionChange(publisher="partner", keys=tuple(keys)), Signing(now=hub.when))
    hub.publish(version="1.1.0")
    ours = NoteKey.of_log(origin_of(hub.dir.fingerprint()), key_of("test")("log", "ed25519").public)
    theirs = PrivateKey.from_seed(b"g" * 32, "ed25519")
    named = NoteKey.of_log("go.example/log", theirs.public)
    secret = f"PRIVATE+KEY+{named.name}+{named.id.hex()}+{b64encode(bytes([1]) + b'g' * 32).decode()}"
    offline = {"GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOTELEMETRY": "off"}
    done = subprocess.run(
        [go, "run", str(PROGRAM), hub.dir.site, str(ours), secret],
        env={**os.environ, **offline, "GOPATH": sources, "GOCACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    note = Note.parse(done.stdout.encode())
    assert named.signs(note)
    assert note == signed_checkpoint(Checkpoint.parse(note.text), theirs)
    assert Checkpoint.parse(note.text).size == 304
