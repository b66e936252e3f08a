"""The skills of the corpus in each form for installers: a well-known site, a git repository, wheels."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from corpus import name_of, write_corpus  # noqa: E402

from skillhub.model.discovery import SCHEMA  # noqa: E402
from skillhub.sources.site import CURRENT_PLACE  # noqa: E402

_SERVE = (
    "import sys; from skillhub.server.site import site_server; server = site_server(sys.argv[1], '127.0.0.1', 0);"
    "print(server.server_address[1], flush=True); server.serve_forever()"
)


@dataclass(frozen=True)
class Offers:
    """The same skills in each form for installers."""

    top: Path
    count: int

    @property
    def names(self) -> list[str]:
        return [name_of(number) for number in range(self.count)]

    def write(self) -> None:
        self.write_site()
        self.write_repository()
        self._write_wheels()

    def write_site(self) -> None:
        self._write_skills()
        rows = []
        folder = (self.top / "site" / CURRENT_PLACE.lstrip("/")).parent
        folder.mkdir(parents=True)
        for name in self.names:
            data = _zipped(self.top / "skills" / name)
            (folder / f"{name}.zip").write_bytes(data)
            digest = f"sha256:{sha256(data).hexdigest()}"
            row = {"name": name, "type": "archive", "description": name, "url": f"{name}.zip", "digest": digest}
            rows.append(row)
        index = {"$schema": SCHEMA, "skills": rows}
        (folder / "index.json").write_text(json.dumps(index))

    def write_repository(self) -> None:
        self._write_skills()
        shutil.copytree(self.top / "skills", self.top / "repository" / "skills")
        who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "skills"], ["repack", "-adq"]):
            subprocess.run(["git", *who, "-C", str(self.top / "repository"), *words], check=True)

    def _write_skills(self) -> None:
        if not (self.top / "skills").exists():
            write_corpus(self.top / "skills", self.count)

    def _write_wheels(self) -> None:
        (self.top / "wheels").mkdir()
        for name in self.names:
            module = name.replace("-", "_")
            info = f"{module}-1.0.dist-info"
            with zipfile.ZipFile(self.top / "wheels" / f"{module}-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
                wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                wheel.writestr(f"{info}/RECORD", "")
                for path in sorted((self.top / "skills" / name).rglob("*")):
                    if path.is_file():
                        wheel.write(path, f"{module}/{path.relative_to(self.top / 'skills' / name)}")


def _zipped(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder from another process."""
    with subprocess.Popen([sys.executable, "-c", _SERVE, str(folder)], stdout=subprocess.PIPE, text=True) as server:
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.terminate()
