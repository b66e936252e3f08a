"""What a skill can do, read off its bytes: what a person agrees to, and what an update is held against.

A capability is one line of text, ``scripts`` or ``network:api.github.com``; a set of them is compared as a
set. Nothing here believes a declaration that the content contradicts, and nothing here is a judgement.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Set
from hashlib import sha256

from skillhub.model.manifest import Manifest
from skillhub.model.text import clean
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.model.variables.programs import variables

TEXT_MAX = 100
HOSTS_MAX = 200
RUN_BY_NAME = (
    *(".sh", ".bash", ".zsh", ".fish", ".ps1", ".psm1", ".bat", ".cmd", ".py", ".pyw", ".rb", ".pl", ".php"),
    *(
        ".js",
        ".mjs",
        ".cjs",
        ".ts",
        ".mts",
        ".lua",
        ".r",
        ".jl",
        ".go",
        ".exe",
        ".com",
        ".jar",
        ".applescript",
    ),
)
# The scheme is looked at only where `://` is found, which is what keeps this fast.
_HOST = re.compile(
    rb"://(?:[^\s/@\"'<>`\\?#]{0,128}@)?([A-Za-z0-9\x80-\xff](?:[A-Za-z0-9.\x80-\xff-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
)
_LABELS = re.compile(r"[\w.-]*")
# What IDNA takes for a dot; in prose it may be a full stop.
_DOT = re.compile(r"[\u3002\uff0e\uff61](?=[a-z0-9])")
# The four bytes of an address as one number: those of the public begin at 1.0.0.0.
_NUMBER = re.compile(r"[0-9]{8,}|0x[0-9a-f]{7,}")
_ASCII = re.compile(r"[ -~]*")
_SCP = re.compile(rb"git@([A-Za-z0-9.-]{1,253}):")
_SCHEMES = (b"https", b"http", b"wss", b"ws", b"git", b"ssh", b"ftp", b"ftps", b"sftp")
# This machine, and the names of XML vocabularies, which nobody asks.
_NOWHERE = re.compile(
    r"(?:.*\.)?localhost|127(?:\.[0-9]{1,3}){3}|0\.0\.0\.0|::1?"
    r"|www\.w3\.org|schemas\.openxmlformats\.org|schemas\.microsoft\.com|purl\.org"
)
# RFC 2606, RFC 6761.
_KEPT_FOR_DOCUMENTATION = re.compile(r"(?:.*\.)?(?:example|test|invalid|example\.(?:com|org|net))")
# Claude Code runs `` !`command` `` and blocks of ```! before the model sees the text. Here and below: what a pattern
# begins with, rather than what is before it, is what it is found by, ten times as fast.
_SHELL = re.compile(r"!(?:(?<![\w`)\]!]!)`[^`]|(?<=```!)(?=[ \t]*$))", re.MULTILINE)

# What a person or an agent is told to run, whatever its kind and place: `bash references/setup.txt`.
_PROGRAMS = r"(?:[bz]a|z|da|k|fi)?sh|python[0-9.]*|node|bun|deno|ruby|perl|php|Rscript|pwsh"
_BEFORE = (
    rf"(?<![\w/.-])(?:{_PROGRAMS}|source|\.|uv|chmod)[ \t]+(?:(?:run|[-+][\w.=-]*)[ \t]+){{0,9}}"
    r"(?:<[ \t]*)?(?:[\"'](?:[^\"'`|;&<>\n]*/)?|(?:\\ |[^\s\"'`|;&<>()])*/)?\Z"
)
_AFTER = rf"(?![\w/-]|\.\w)(?:[\"']?[ \t]{{0,9}}\|[ \t]{{0,9}}(?:sudo[ \t]{{1,9}})?({_PROGRAMS})\b)?"
_JOINED = re.compile(r"\\\r?\n")
# What is longer, or names a file more often, was not written to be read.
_BODY_MAX = 1 << 18
_TIMES_MAX = 100


def capabilities(tree: Tree, manifest: Manifest) -> tuple[str, ...]:
    """Return what the skill in ``tree`` can do, sorted, each once.

    Hosts are those of URLs in files that run and in the instructions; more than 200 are one ``network:*``.
    Names without a dot, this machine's own and the names of XML vocabularies are none; names kept for documentation
    are hosts like any other, as a server may well answer at ``api.example.com``. Variables are those that are
    declared, and those that files that run are seen to read; more than 200 of these are one ``env:*``.
    """
    alone = {path for path, file in tree.items() if runs(path, file)}
    run = alone | _told_to_run(tree.keys() - alone, manifest.body)
    running = [(path, tree[path].data) for path in tree if path in run]
    found = {f"{kind}:{_line(text)}" for kind, text in _named(manifest)}
    if running:
        found.add("scripts")
    if _SHELL.search(manifest.body):
        found.add("shell")
    if manifest.hooks:
        found.add("hooks")
    if manifest.fork is not None:
        found.add("agents")
    if not all(is_text(file.data) for file in tree.values()):
        found.add("binary")
    hosts = {
        host
        for data in (manifest.body.encode("utf-8"), *(data for _, data in running))
        for host in _hosts(data)
    }
    servers = (need.server.host for need in manifest.requires if need.server and need.server.host)
    hosts |= {host for server in servers for host in _somewhere(server.encode())}
    found |= {f"network:{host}" for host in hosts} if len(hosts) <= HOSTS_MAX else {"network:*"}
    found |= {f"env:{_line(name)}" for name in variables(running)}
    return tuple(sorted(found))


def runs(path: str, file: File) -> bool:
    """Say whether ``file`` is one that runs: by its execute bit, its place, its first line or its name."""
    return (
        file.executable
        or path.startswith("scripts/")
        or file.data.startswith(b"#!")
        or path.lower().endswith(RUN_BY_NAME)
    )


def _told_to_run(paths: Set[str], body: str) -> Set[str]:
    """Return those of the paths that the instructions have a program run; all, if they are too much to be read.

    A file is known by its name alone: which folder a command is in, `cd "$(…)/references" && bash setup.txt`, cannot
    be seen.
    """
    documents = paths - {SKILL_MD}
    if len(body) > _BODY_MAX:
        return documents
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path in documents:
        by_name[path.rpartition("/")[2]].append(path)
    body = _JOINED.sub(" ", body)
    return {path for name, named in by_name.items() if _is_told_to_run(name, body) for path in named}


def _is_told_to_run(name: str, body: str) -> bool:
    """Say whether the instructions have a program run a file of that name; True if they name it without end."""
    at = -1
    for _ in range(_TIMES_MAX):
        at = body.find(name, at + 1)
        if at < 0:
            return False
        after = re.compile(_AFTER).match(body, at + len(name))
        start = max(at - 200, 0)
        line = body[body.rfind("\n", start, at) + 1 or start : at]
        if after and (after[1] or re.search(_BEFORE, line)):
            return True
    return True


def is_kept_for_documentation(host: str) -> bool:
    """Say whether ``host`` is a name that is promised to nobody: ``example.com``, ``.test`` and their like."""
    return _KEPT_FOR_DOCUMENTATION.fullmatch(host) is not None


def is_text(data: bytes) -> bool:
    """Say whether ``data`` is UTF-8 without a NUL."""
    if b"\0" in data:
        return False
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield from (("tools", tool) for tool in manifest.granted_tools)
    yield from (("permissions", permission) for permission in manifest.permissions)
    yield from ((need.kind, need.name) for need in manifest.requires if need.kind in ("env", "mcp"))


def _hosts(data: bytes) -> Iterator[str]:
    if b"://" in data:
        for match in _HOST.finditer(data):
            if data[max(0, match.start() - 5) : match.start()].lower().endswith(_SCHEMES):
                yield from _somewhere(match[1])
    if b"@" in data:
        for match in _SCP.finditer(data):
            yield from _somewhere(match[1])


def _somewhere(raw: bytes) -> Iterator[str]:
    given = raw.decode("utf-8", "replace").lower()
    read = (given,) if given.isascii() else map(_resolved, {given, _DOT.sub(".", given)})
    for each in read:
        host = each.strip("[].-")
        if ("." in host or ":" in host or _NUMBER.fullmatch(host)) and not _NOWHERE.fullmatch(host):
            yield host


def _resolved(host: str) -> str:
    # In punycode, as a browser would look it up: a look-alike of a known name is not shown as that name.
    # Where prose runs on without a blank, its first word sticks to the last label and is cut off again.
    *labels, last = _LABELS.findall(host)[0].split(".")
    labels.append(_ASCII.findall(last)[0] or last)
    return ".".join(
        label if label.isascii() else "xn--" + label.encode("punycode").decode() for label in labels
    )


def _line(text: str) -> str:
    shown = clean(text)
    if len(shown) <= TEXT_MAX:
        return shown
    # The digest keeps two long texts apart, so that a change beyond the cut still is a change.
    return f"{shown[: TEXT_MAX - 9]}…{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
