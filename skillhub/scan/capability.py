"""The capabilities of a skill, determined from its bytes. A person agrees to them; an update is compared with them.

A capability is one line of text, such as ``scripts`` or ``network:api.github.com``. Two versions are compared by
their sets of capabilities. A declaration never overrides the content, and a capability is a fact, not a judgement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256

from skillhub.formats.text import clean
from skillhub.model.finding import NETWORK_UNKNOWN
from skillhub.model.manifest import Manifest
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.scan.code import encoded_commands
from skillhub.scan.environment import variables
from skillhub.scan.files import PROGRAMS, running, runs_by_itself
from skillhub.scan.offline import is_offline, is_offline_shell, names_network
from skillhub.scan.pattern import Letters
from skillhub.scan.skill_files import SkillFiles, SourceFile

TEXT_MAX = 100
HOSTS_MAX = 200
# The scheme is checked only where `://` occurs, which keeps the search fast.
_HOST = re.compile(
    rb"://(?:[^\s/@\"'<>`\\?#]{0,128}@)?([A-Za-z0-9\x80-\xff](?:[A-Za-z0-9.\x80-\xff-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
)
_LABELS = re.compile(r"[\w.-]*")
# Characters that IDNA treats as a dot; in prose they may be a full stop.
_DOT = re.compile(r"[\u3002\uff0e\uff61](?=[a-z0-9])")
# An IPv4 address as one number; public addresses begin at 1.0.0.0.
_NUMBER = re.compile(r"[0-9]{8,}|0x[0-9a-f]{7,}")
_ASCII = re.compile(r"[ -~]*")
_SCP = re.compile(rb"git@([A-Za-z0-9.-]{1,253}):")
_SCHEMES = (b"https", b"http", b"wss", b"ws", b"git", b"ssh", b"ftp", b"ftps", b"sftp")
# This machine, and the names of XML vocabularies, to which no program connects.
_NOWHERE = re.compile(
    r"(?:.*\.)?localhost|127(?:\.[0-9]{1,3}){3}|0\.0\.0\.0|::1?"
    r"|www\.w3\.org|schemas\.openxmlformats\.org|schemas\.microsoft\.com|purl\.org"
)
# Claude Code runs `` !`command` `` and blocks of ```! before the model sees the text. The pattern starts with the
# fixed byte and looks behind from there: that is ten times as fast as a pattern that starts with the lookbehind.
_SHELL = re.compile(r"!(?:(?<![\w`)\]!]!)`[^`]|(?<=```!)(?=[ \t]*$))", re.MULTILINE)

_COMMANDS = re.compile(r"!`([^`]*)`|```!([^`]*)```")
# A program that the interpreter of another language runs; each of the two may read it differently.
_FILE_OF_IT = r"[ \t]+(?:-\S+[ \t]+){0,5}[\"'<]?[^\s\"'`|;&]*"
_OTHER_PROGRAM = re.compile(
    rf"(?<![\w./-])(?:(?!python|pypy)(?:{PROGRAMS}|source|\.){_FILE_OF_IT}\.pyw?\b"
    rf"|(?!(?:ba|da)?sh\b)(?:{PROGRAMS}){_FILE_OF_IT}\.(?:ba)?sh\b)"
)
_PROGRAM_FILES = (".py", ".sh", ".bash")
_NETWORK_TOOLS = frozenset({"webfetch", "websearch"})


def capabilities(tree: Tree, manifest: Manifest, sources: SkillFiles | None = None) -> tuple[str, ...]:
    """Return the capabilities of the skill in ``tree``, sorted and unique; ``sources`` are the files of the tree.

    Hosts come from the URLs in the instructions and in the files that run, encoded commands included; more than 200
    hosts become one ``network:*``. Names without a dot, names of this machine and names of XML vocabularies do not
    count as hosts. Names reserved for documentation do, since a server may answer at ``api.example.com``. Variables
    are the declared ones, and those that a file that runs visibly reads; more than 200 of the latter become one
    ``env:*``.
    """
    sources = SkillFiles(tree) if sources is None else sources
    body = _instructions(manifest, sources.files.get(SKILL_MD))
    run = {
        path: sources.files[path].without_nul
        for path in running(sources.held, body, lambda path: sources.files[path].without_nul)
    }
    result = {f"{kind}:{_capability_text(text)}" for kind, text in _declared(manifest)}
    if run:
        result.add("scripts")
    if _SHELL.search(manifest.body):
        result.add("shell")
    if manifest.hooks:
        result.add("hooks")
    if manifest.fork is not None:
        result.add("agents")
    if not all(file.is_text for file in sources):
        result.add("binary")
    read = (sources.files[path] for path in (SKILL_MD, *run) if path in sources.files)
    encoded = [each.text for file in read for each in file.parsed(encoded_commands)]
    hosts = {
        host for data in (body.data, *(letters.data for letters in run.values()), *encoded) for host in _hosts(data)
    }
    servers = (need.server.host for need in manifest.requires if need.server and need.server.host)
    hosts |= {host for server in servers for host in _remote_hosts(server.encode())}
    result |= {f"network:{host}" for host in hosts} if len(hosts) <= HOSTS_MAX else {"network:*"}
    if encoded or not _is_offline(sources.held, manifest, body, run):
        result.add(NETWORK_UNKNOWN)
    result |= {f"env:{_capability_text(name)}" for name in variables(run.items())}
    return tuple(sorted(result))


def _instructions(manifest: Manifest, source: SourceFile | None) -> Letters:
    """Return the letters of the instructions, which share the words of ``SKILL.md`` if that file ends with them."""
    data = manifest.body.encode("utf-8")
    is_end = source is not None and source.data.endswith(b"\n" + data)
    return Letters(data, source.letters if source is not None and is_end else None)


def _is_offline(tree: Mapping[str, File], manifest: Manifest, letters: Letters, run: Mapping[str, Letters]) -> bool:
    """Return whether every file that runs provably stays offline, and the instructions name nothing of the network.

    Instructions are not a program: what an agent does with them cannot be proved.
    """
    body = manifest.body
    if manifest.hooks or any(need.server and need.server.command for need in manifest.requires):
        return False
    tools = (tool.partition("(") for tool in manifest.allowed_tools)
    named = ((name.strip().lower(), Letters(f"`{inner}".encode())) for name, _, inner in tools)
    if any(name in _NETWORK_TOOLS or names_network(inner) for name, inner in named):
        return False
    commands = (match[1] or match[2] or "" for match in _COMMANDS.finditer(body))
    if _SHELL.search(body) and not all(map(is_offline_shell, commands)):
        return False
    lines = body.split("\n") if any(suffix in body for suffix in _PROGRAM_FILES) else ()
    if any(_OTHER_PROGRAM.search(line) for line in lines if any(suffix in line for suffix in _PROGRAM_FILES)):
        return False
    if names_network(letters):
        return False
    return all(
        is_offline(
            path, tree[path], letters, runs_anyway=not path.startswith("scripts/") or runs_by_itself(path, tree[path])
        )
        for path, letters in run.items()
    )


def _declared(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield from (("tools", tool) for tool in manifest.granted_tools)
    yield from (("permissions", permission) for permission in manifest.permissions)
    yield from ((need.kind, need.name) for need in manifest.requires if need.kind in ("env", "mcp"))


def _hosts(data: bytes) -> Iterator[str]:
    if b"://" in data:
        for match in _HOST.finditer(data):
            if data[max(0, match.start() - 5) : match.start()].lower().endswith(_SCHEMES):
                yield from _remote_hosts(match[1])
    if b"@" in data:
        for match in _SCP.finditer(data):
            yield from _remote_hosts(match[1])


def _remote_hosts(raw: bytes) -> Iterator[str]:
    name = raw.decode("utf-8", "replace").lower()
    spellings = (name,) if name.isascii() else map(_in_punycode, {name, _DOT.sub(".", name)})
    for spelling in spellings:
        host = spelling.strip("[].-")
        if ("." in host or ":" in host or _NUMBER.fullmatch(host)) and not _NOWHERE.fullmatch(host):
            yield host


def _in_punycode(host: str) -> str:
    # In punycode, as a browser resolves it, so that a look-alike of a known name is not shown as that name.
    # If prose follows without a blank, its first word is attached to the last label, and is cut off here.
    *labels, last = _LABELS.findall(host)[0].split(".")
    labels.append(_ASCII.findall(last)[0] or last)
    return ".".join(label if label.isascii() else "xn--" + label.encode("punycode").decode() for label in labels)


def _capability_text(text: str) -> str:
    cleaned = clean(text)
    if len(cleaned) <= TEXT_MAX:
        return cleaned
    # The digest distinguishes two long texts, so that a change after the cut still is a change.
    return f"{cleaned[: TEXT_MAX - 9]}…{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
