"""The minimal work of a correct tool, as processes of plain Python: a baseline, not a tool.

floor.py pass
floor.py install URL KEY [FOLDER...]
                             fetch a list, then every archive over 8 connections; hash, check a signature, unpack
                             once and link to it; with folders, also write a copy into each
floor.py list                print what was installed
floor.py verify KEY FOLDER...
                             hash every file below the folders, and check a signature for each installed skill
floor.py hash FOLDER...      hash every file below the folders
"""

from __future__ import annotations

import sys

if sys.argv[1] == "pass":
    sys.exit()

import json
import os
from hashlib import sha256

LOCK = "floor.json"


def verifier(key: str):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with open(key, "rb") as file:
        private = load_pem_private_key(file.read(), None)
    public, data = private.public_key(), b"as much as one signature costs"
    signature = private.sign(data, ec.ECDSA(hashes.SHA256()))
    return lambda: public.verify(signature, data, ec.ECDSA(hashes.SHA256()))


def install(url: str, key: str, copies: list[str]) -> None:
    import asyncio
    import io
    import zipfile
    from urllib.parse import urlsplit

    where, check, lock = urlsplit(url), verifier(key), {}

    async def connect():
        return await asyncio.open_connection(where.hostname, where.port, limit=1 << 24)

    async def get(wire, path):
        wire[1].write(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
        head = (await wire[0].readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if " 200 " not in head.split("\r\n")[0]:
            sys.exit(head)
        return await wire[0].readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))

    def unpack(entry, data):
        if sha256(data).hexdigest() != entry["digest"].removeprefix("sha256:"):
            sys.exit("wrong bytes")
        check()
        top = f".floor/{entry['digest'][7:]}"
        tops, files = [top, *(f"{folder}/{entry['name']}" for folder in copies)], {}
        os.makedirs(top)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for row in archive.infolist():
                content = archive.read(row)
                for full in [f"{each}/{row.filename}" for each in tops]:
                    os.makedirs(os.path.dirname(full), exist_ok=True)
                    handle = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                    os.write(handle, content)
                    status = os.fstat(handle)
                    os.close(handle)
                # Facts that later show, without reading the file, that it is unchanged.
                seen = [status.st_size, status.st_mtime_ns, status.st_ino]
                files[row.filename] = [sha256(content).hexdigest(), *seen]
        if not copies:
            os.symlink(os.path.abspath(top), f".claude/skills/{entry['name']}")
        lock[entry["name"]] = {"files": files, "digest": entry["digest"], "description": entry["description"]}

    async def main():
        first = await connect()
        todo = iter(json.loads(await get(first, "/.well-known/agent-skills/index.json"))["skills"])

        async def work(wire):
            for entry in todo:
                path = "/" + entry["url"].removeprefix("../../")
                unpack(entry, await get(wire, path))

        wires = [first, *[await connect() for _ in range(7)]]
        await asyncio.gather(*map(work, wires))

    os.makedirs(".claude/skills")
    asyncio.run(main())
    with open(LOCK, "w") as file:
        json.dump(lock, file)


def installed() -> dict:
    with open(LOCK, "rb") as file:
        return json.loads(file.read())


def show() -> None:
    sys.stdout.write("".join(f"{k}\t{v['digest']}\t{v['description']}\n" for k, v in installed().items()))


def verify(key: str, folders: list[str]) -> None:
    check = verifier(key)
    for _ in installed():
        check()
    hash_all(folders)


def hash_all(folders: list[str]) -> None:
    waiting, count = list(folders), 0
    while waiting:
        with os.scandir(waiting.pop()) as rows:
            for row in rows:
                if row.is_dir(follow_symlinks=False):
                    waiting.append(row.path)
                else:
                    with open(row.path, "rb", buffering=0) as file:
                        count += len(sha256(file.read()).digest())
    sys.stdout.write(f"{count}\n")


if sys.argv[1] == "install":
    install(sys.argv[2], sys.argv[3], sys.argv[4:])
elif sys.argv[1] == "list":
    show()
elif sys.argv[1] == "hash":
    hash_all(sys.argv[2:])
else:
    verify(sys.argv[2], sys.argv[3:])
