"""The data flow in the programs of a skill: from reads to sends, and from decoding to running.

The programs of all languages become one graph of values. Paths of credentials, and functions that read, decode, send
or run, are recognized by their names. A rule names the kinds of values that must not reach a sink. Each kind is
followed over every edge at most once, so the work is linear in the size of the programs.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from skillhub.formats.text import packaged, words
from skillhub.model.finding import Sighting, rules
from skillhub.scan.views import IS_DATA

Node = int | tuple[str, ...]
Place = tuple[str, int]

# What texts, functions and commands stand for, by kind: a pattern, or a list of alternatives. Texts are in lower case
# with `/` between folders; functions are dotted names in lower case, with `()` after a class that was called, and
# ``ANY`` is what stands before a name. Credentials of a vendor may go to its hosts. Files of ``settings`` count as
# stolen only if a program sends them whole: an honest program reads its own line of them. The commands of ``later``
# files run later: in every shell, at each login or start of Python, with each command of git. The calls and acts of
# statements are those of languages whose programs are read without a grammar, by the name that ``calls`` has.
_KINDS: Final = packaged("scan/kinds.json")
_ANY: Final = r"(?:.*[.)])?"


def patterns(table: str, form: str = "{}") -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the compiled patterns of a table by kind, each put into ``form``."""
    texts = {kind: each if isinstance(each, str) else "|".join(each) for kind, each in _KINDS[table].items()}
    return tuple((kind, re.compile(form.format(text.replace("ANY", _ANY)))) for kind, text in texts.items())


# Names of functions, members and commands of which one of those who read programs asks.
WORDS: Final = {name: frozenset(words(" ".join(lines))) for name, lines in _KINDS["words"].items()}
_PUBLIC_KEY: Final = re.compile(r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\w{1,20}|sk-\S{1,40})\s{1,4}aaaa[\w+/]{40}")
# What a program records of its user; it counts as stolen only at a host that the program names.
_RECORDED: Final = ("keys", "clipboard", "screen", "microphone")
# Addresses of wallets.
_COIN: Final = re.compile(
    r"bc1[a-z0-9]{25,60}|[13LM][1-9A-HJ-NP-Za-km-z]{25,34}|0x[0-9a-fA-F]{40}|T[1-9A-HJ-NP-Za-km-z]{33}"
    r"|4[1-9A-HJ-NP-Za-km-z]{94}|(?=\D*\d)(?=[^A-Z]*[A-Z])[1-9A-HJ-NP-Za-km-z]{43,44}"
)
# Kinds of credentials that belong in no repository.
_UNPUBLISHED: Final = ("ssh", "aws", "gcloud", "azure", "kube", "gnupg", "browser", "wallet", "keychain")
# For each sink: the rules, each with the kinds that must meet there.
_RULES_BY_SINK: Final = {
    "program": (("SH605", {"data file"}),),
    "input": (("SH605", {"from data"}),),
    "feed": (("SH105", {"unseen"}), ("SH104", {"hidden"})),
    "timer": (("SH105", {"fetched", "said"}),),
    "import": (("SH105", {"fetched"}),),
    "import-from": (("SH105", {"odd"}), ("SH105", {"downloaded"}), ("SH104", {"decoded"})),
    "module path": (("SH105", {"downloaded"}),),
    "load-from": (("SH105", {"downloaded"}), ("SH105", {"host other"}), ("SH105", {"host collect"})),
    "start": (("SH113", {"fetched odd"}), ("SH114", {"fetched"})),
    "eval": (("SH605", {"from data"}), ("SH105", {"answered"}), ("SH105", {"record"})),
    "line": (("SH105", {"record"}),),
    "whole line": (("SH105", {"answered"}),),
    "exec": (("SH605", {"part of data"}), ("SH105", {"answer"})),  # honest programs evaluate expressions of both
    "write": (("SH406", {"later"}), ("SH406", {"packages", "path file"})),
    "copy": (("SH414", {"coin"}),),
    "replace": (("SH414", {"coin"}),),
    "instantiate": (("SH105", {"fetched odd"}),),
    "remove": (("SH405", {"walked"}),),  # of a program that encrypts
    "package": (("SH117", {"odd"}),),
    "load": (("SH120", {"model"}),),
    "publish": tuple(("SH603", {f"of {kind}"}) for kind in _UNPUBLISHED),
}
_URL = re.compile(r"(?:https?|wss?|ftp)://(?:[^\s/@\"']{0,99}@)?(\[?[\w.:-]{1,253})")
_BARE = re.compile(
    r"(?:[a-z0-9_-]{1,63}\.){1,8}(?:com|net|org|io|dev|app|xyz|me|site|cloud|ai|co|sh|top|ru|cn|invalid)"
)
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_HERE = re.compile(
    r"(?:localhost|0\.0\.0\.0|(?:127|10)(?:\.\d{1,3}){3}|(?:192\.168|169\.254)(?:\.\d{1,3}){2}"
    r"|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}|.*\.local)$"
)
_BLOB = re.compile(
    r"(?=[^A-Z]{0,99}[A-Z])(?=[^a-z]{0,99}[a-z])(?=[^0-9]{0,99}[0-9])[A-Za-z0-9+/_\n-]{24,}={0,2}\s?"
    r"|(?!(?:[0-9a-fA-F]{8}){4,16}$)(?:[0-9a-fA-F]{2}){16,}"  # digests apart
)
_SHELL = re.compile(r"(?:^|/)(?:ba|z|da|k)?sh$|^(?:cmd(?:\.exe)?|powershell(?:\.exe)?|pwsh)$")
_HOME = re.compile(r"^(?:~(?:/(?!\.)[\w -]{1,40})?|/(?:home|users)(?:/[\w.-]{1,40}){0,2})/?$")
_SENDS_IN_TEXT = re.compile(r"(?:^|[\s;&|(/])(?:curl|wget|ncat?|scp|sftp|rsync)(?:\s|$)")
_LOOKS_UP = re.compile(r"(?:^|[;&|`(])\s?(?:nslookup|dig|host|ping)(?:\s|$)")
_FILE = re.compile(
    r"[\w~$./{} =@-]{0,200}?(\.?[\w-]{1,80}(?:\.[\w-]{1,20}){0,2}\.[a-z]{1,8}\d?)"
    r"|(?:\w{0,20}=)?@?(?:/var)?/(?:tmp|dev/shm)/(?:[\w.-]{1,80}/){0,9}?([\w.-]{1,80})/?"
)
_PATHS: Final = (*patterns("credentials"), *patterns("settings"))
# Kinds of functions that are sinks of their arguments, and the kinds of what others return.
_SINKS: Final = frozenset(words("send lookup eval command load hand-out pipe feed copy replace instantiate remove"))
_RESULTS: Final = {kind: kind for kind in words("socket packages model encrypted home record")}
_RESULTS.update(send="fetched", fetch="fetched", encode="encoded", decode="decoded")
# Kinds that a part of a value does not have.
_WHOLE: Final = frozenset(
    ("environment", "of agent", "of dotenv", "fetched", "answered", "downloaded", "socket", "from data")
)
# Kinds of which only these sinks ask.
_ONLY_AT: Final = {
    "data file": ("program", "eval", "input"),
    **dict.fromkeys(_KINDS["later"], ("write",)),
    "coin": ("copy", "replace"),
    "home": ("remove",),
}
# Kinds of paths that are not followed through files that contain these paths.
_NAMED: Final = (*_KINDS["later"], "data file")
_LATER_PATHS: Final = patterns("later")
# Each text that matches one of these patterns has one of these parts, to whose first letters the engine skips.
_PARTS: Final = dict(patterns("parts"))
_VARIABLES: Final = patterns("variables")
_HOSTS: Final = patterns("hosts", r"(?:.*\.)?(?:{})$")
_TOKENS: Final = patterns("tokens")  # commands that print a key, by the kind of the key
_CALLS: Final = patterns("calls")
# A longer text is not kept with its kinds, and no path, host or command is in the middle of a long word of it.
_TEXT_MAX: Final = 1 << 13
_LONG_WORD = re.compile(r"(?<![\w+/=-])[\w+/=-]{500,}")
_END: Final = 200  # characters at either end of a long word that are searched

# Commands that print what an address answers.
_PRINTS_ANSWER: Final = re.compile(
    r"(?:/usr/bin/)?(?:curl\s(?!(?:.*\s)?(?:-\w{0,6}[oOI]|--output|--remote-name|--head))|wget\s(?:.*\s)?-\w{0,6}O\s?-)"
)


@lru_cache(1 << 12)
def _kinds(name: str) -> tuple[str, ...]:
    """Return the kinds of a function, by its dotted name in lower case."""
    return tuple(kind for kind, pattern in _CALLS if pattern.fullmatch(name))


def _find_kinds(folded: str) -> tuple[str, ...]:
    """Return the kinds of a fixed text in lower case: a path of credentials, a host, a shell, a command."""
    kinds = (
        [f"at {kind}" for kind, pattern in _PATHS if pattern.search(folded)]
        if _PARTS["credentials"].search(folded)
        else []
    )
    kinds += _hosts_of(folded)
    kinds += (
        [kind for kind, pattern in _LATER_PATHS if pattern.search(folded)] if _PARTS["later"].search(folded) else []
    )
    others = (
        ("data file", IS_DATA),
        ("home", _HOME),
        ("public key", _PUBLIC_KEY),
        ("shell", _SHELL),
        ("sends", _SENDS_IN_TEXT),
        ("looks up", _LOOKS_UP),
    )
    return (*kinds, *(kind for kind, pattern in others if pattern.search(folded)))


class _Meaning(NamedTuple):
    """What a fixed text stands for: its kinds, the name of a file or an empty string, and the text in lower case."""

    kinds: tuple[str, ...]
    file: str
    folded: str


def _find_meaning(text: str) -> _Meaning:
    folded = text.strip().replace("\\", "/").replace("%20", " ").lower()
    is_long = len(text) > _TEXT_MAX
    if is_long:
        folded = _LONG_WORD.sub(lambda word: f"{word[0][:_END]} {word[0][-_END:]}", folded)
    kinds = _find_kinds(folded)
    if _COIN.fullmatch(text.strip()):
        kinds += ("coin",)
    if _BLOB.match(text) if is_long else _BLOB.fullmatch(text):
        kinds += ("blob",)
    file = _FILE.fullmatch(folded.removeprefix("file://"))
    return _Meaning(kinds, (file[1] or file[2]) if file else "", folded)


_meaning_of: Final = lru_cache(1 << 14)(_find_meaning)


def _hosts_of(folded: str) -> list[str]:
    if _PARTS["collect"].search(folded):
        return ["host collect"]
    match = _URL.search(folded) or _BARE.fullmatch(folded) or _ADDRESS.fullmatch(folded)
    if match is None:
        return []
    host = match[match.lastindex or 0].partition(":")[0].rstrip(".")
    if _HERE.match(host):
        return ["host here"]
    if _ADDRESS.fullmatch(host):
        return ["host collect"]
    return [f"host {kind}" for kind, pattern in _HOSTS if pattern.match(host)] or ["host other"]


class Flow:
    """The graph of values of all programs of a skill, with the kinds of the values.

    Args:
        search_text: As the attribute.
        is_anybodys: Whether a text in lower case has an address at which anybody can publish.
        is_installer: Whether an address in lower case is the installer of a well-known project.
        act_of: Returns the rule that a text falls under as a command, or None; None itself if the skill keeps none.

    Attributes:
        search_text: Searches a text that a program composes or decodes, as if it stood in the file; may be replaced.
        direct_findings: The findings (rule and place) that need no data flow.
    """

    def __init__(
        self,
        search_text: Callable[[str, Place], None],
        is_anybodys: Callable[[str], bool],
        is_installer: Callable[[str], bool],
        act_of: Callable[[str], str | None] | None,
    ) -> None:
        self.search_text, self._is_anybodys, self._is_installer = search_text, is_anybodys, is_installer
        self._act_of = act_of
        self.direct_findings: set[tuple[str, Place]] = set()
        self._edges: defaultdict[Node, list[tuple[Node, bool]]] = defaultdict(list)
        self._marks: defaultdict[str, dict[Node, Place]] = defaultdict(dict)
        self._changes: defaultdict[str, list[Node]] = defaultdict(list)
        self._composed: set[Node] = set()
        self._sinks: list[tuple[str, Node, Place]] = []
        self._fetches: list[tuple[Node, Node]] = []
        self._count = 0

    def new(self) -> int:
        """Return a new node without a name."""
        self._count += 1
        return self._count

    def join(self, before: Node, after: Node, *, part: bool = False) -> None:
        """Add an edge: the value ``before``, or a named ``part`` of it, flows into ``after``; node 0 is discarded."""
        if before != 0 and after != 0:
            self._edges[before].append((after, part))

    def mark(self, kind: str, node: Node, place: Place) -> None:
        """Mark a node as a value of a kind."""
        if node != 0:
            self._marks[kind].setdefault(node, place)

    def text(self, text: str, node: Node, place: Place, *, is_hidden: bool = False) -> None:
        """Add a fixed text that flows into ``node``; ``is_hidden`` if the file spells the text in another way."""
        if is_hidden and len(text) > 3:
            self.search_text(text, place)
        if node == 0:  # a docstring, for example
            return
        meaning = _find_meaning(text) if len(text) > _TEXT_MAX else _meaning_of(text)
        for kind in meaning.kinds:
            self.mark(kind, node, place)
        if "://" in meaning.folded and self._is_anybodys(meaning.folded):
            self.mark("odd", node, place)
        if meaning.file:
            self.join(("file", meaning.file), node)
        if self._act_of and (rule := self._act_of(text)):
            self.mark(f"act {rule}", node, place)

    def words(self, texts: Iterable[str], node: Node, place: Place) -> None:
        """Add a list of fixed texts, which may be the words of a command, that flows into ``node``."""
        if self._act_of and (rule := self._act_of(shlex.join(texts))):
            self.mark(f"words {rule}", node, place)

    def lists(self, path: str, texts: Iterable[str]) -> None:
        """Add a file of data, if its texts are the paths of several kinds of credentials."""
        kinds = {kind for text in texts for kind in _meaning_of(text).kinds}
        listed = [f"listed {kind[3:]}" for kind in kinds if kind.startswith("at ")]
        for kind in listed if len(listed) > 1 else ():
            self.mark(kind, ("file", path.rpartition("/")[2].lower()), (path, 0))

    def printed(self, command: str, node: Node, place: Place) -> None:
        """Add the output of a command, which flows into ``node``."""
        for kind, pattern in _TOKENS:
            if pattern.match(command):
                self.mark(kind, node, place)

    def output(self, command: str, node: Node, place: Place, kinds: Iterable[str] = ("answered", "answer")) -> None:
        """Add the output of a command that a program in another language than the shell runs, as ``printed``.

        The answer of an address that the command prints is a value of ``kinds``.
        """
        self.printed(command, node, place)
        urls = [word.strip("\"'") for word in command.lower().split() if "://" in word]
        if _PRINTS_ANSWER.match(command) and not (urls and all(map(self._is_installer, urls))):
            for kind in kinds:
                self.mark(kind, node, place)

    def variable(self, name: str, node: Node, place: Place) -> None:
        """Add an environment variable that flows into ``node``; an empty name stands for the whole environment."""
        if not name:
            self.mark("environment", node, place)
        elif name in ("HOME", "USERPROFILE"):
            self.mark("home", node, place)
        for kind, pattern in _VARIABLES:
            if pattern.search(name.lower()):
                self.mark(f"variable {kind}", node, place)

    def call(self, name: str, arguments: Node, returned: Node, place: Place, *, is_part: bool = False) -> None:
        """Add the call of a function by its dotted name.

        Args:
            name: The name.
            arguments: The node into which the arguments flow.
            returned: The node of the result.
            place: The file and line.
            is_part: Whether the function returns a part of its arguments.
        """
        if is_part:
            inner = self.new()
            self.join(inner, returned, part=True)
            returned = inner
        kinds = _kinds(name.lower())
        if name == "exec":
            self.sink("exec", arguments, place)
        if name.endswith((".text", ".toString", ".responseText", ".decode")):
            self.mark("said", returned, place)
        if name.endswith(("http.request", "https.request")) or not {"send", "one-way"} & {*kinds}:
            self.join(arguments, returned)  # Node's request is sent later, by its methods
        if {"send", "fetch"} & {*kinds}:
            self._fetches.append((arguments, returned))
        for kind in kinds:
            if kind in _SINKS:
                self.sink(kind, arguments, place)
            if kind in ("read", "command"):
                self.reads(returned)
            if kind in ("decode", "walk"):
                self._changes[kind].append(returned)
            if kind == "upload":  # by its path
                content = self.new()
                self.join(arguments, content)
                self.reads(content)
                self.sink("send", content, place)
            if kind in _RESULTS or kind.startswith(("of ", "token ")):
                self.mark(_RESULTS.get(kind, kind), returned, place)

    def sink(self, kind: str, node: Node, place: Place) -> None:
        """Add a sink: the value of ``node`` is sent or run there."""
        self._sinks.append((kind, node, place))

    def writes(self, node: Node, path: str) -> None:
        """Add the writing of a node's value to a file."""
        name = path.rstrip("/").rpartition("/")[2].lower()
        self.join(node, ("file", name))
        self.join(node, ("written", name))

    def prints(self, node: Node, path: str) -> None:
        """Add the printing of a node's value by the program in a file, which a command that starts it may read."""
        name = path.rpartition("/")[2].lower()
        self.join(node, ("printed", name))
        self.join(("printed", name), ("file", name))

    def reads(self, node: Node) -> None:
        """Mark a node as the content of each file whose path flows into it."""
        self._changes["read"].append(node)

    def composes(self, node: Node) -> None:
        """Mark a node as a text that is composed from its values, none of which is the whole of it."""
        self._composed.add(node)

    def unseen(self, node: Node) -> None:
        """Mark a node whose value comes from a command without a literal name, which the patterns cannot find."""
        self._changes["unseen"].append(node)

    def findings(self) -> Iterator[Sighting]:
        """Follow every kind of value, and yield the findings at the sinks."""
        marks = self._marks
        for kind in [kind for kind in marks if kind.startswith("listed ")]:
            self._read_list(kind)
        for kind in [kind for kind in marks if kind.startswith("at ")]:
            self._mark_changed(kind, "of" + kind[2:], "read")
        # Only who reads the clipboard replaces an address in it, and who encrypts takes files away for ransom.
        idle = {sink for sink, kind in (("copy", "of clipboard"), ("remove", "encrypted")) if not marks[kind]}
        self._sinks = [sink for sink in self._sinks if sink[0] not in idle]
        self._drop_unasked()
        self._mark_changed("data file", "from data", "read")
        self._mark_changed("data file", "part of data", "read")
        metadata = self._reachable("at metadata")
        for arguments, returned in self._fetches:
            if arguments in metadata:
                self.mark("of metadata", returned, metadata[arguments])
        self._mark_changed("blob", "unpacked", "decode")
        self._mark_changed("home", "walked", "walk")
        # Who loads a file runs the file, not what it prints.
        marks["downloaded"].update(marks["fetched"])
        marks["answer"].update({**marks["fetched"], **marks["socket"]})
        self._mark_changed("fetched", "unseen", "unseen")
        odd = self._reachable("odd")
        for arguments, returned in self._fetches:
            if arguments in odd:
                self.mark("fetched odd", returned, odd[arguments])
        reached = {kind: self._reachable(kind) for kind in list(marks)}
        if admitted := reached.get("public key", {}).get(("file", "authorized_keys")):
            self.direct_findings.add(("SH402", admitted))
        seen = set(self.direct_findings)
        for sink, node, place in self._sinks:
            kinds = {kind: places[node] for kind, places in reached.items() if node in places}
            origin = kinds.get("answer")
            if sink == "line" and origin and origin[0] == place[0]:  # honest programs store answers for others
                kinds.setdefault("fetched", origin)
            for rule, origin in _judge(sink, kinds):
                if (rule, place) not in seen:
                    seen.add((rule, place))
                    message = "" if origin == place else f"{rules()[rule].title} (from {origin[0]}:{origin[1]})"
                    yield Sighting(rule, *place, message)
        yield from (Sighting(rule, *place) for rule, place in sorted(self.direct_findings))

    def _read_list(self, kind: str) -> None:
        """Mark what was read from a list of paths as such a path."""
        reached = self._reachable(kind)
        for node in [node for node in self._changes["read"] if node in reached]:
            path = self.new()
            self._edges[path] = [*self._edges[node]]
            self.mark(f"at {kind[7:]}", path, reached[node])

    def _drop_unasked(self) -> None:
        """Drop the marks of kinds that no sink of these programs asks for."""
        present = {sink for sink, _, _ in self._sinks}
        for kind, sinks in _ONLY_AT.items():
            if present.isdisjoint(sinks):
                self._marks.pop(kind, None)

    def _mark_changed(self, kind: str, new_kind: str, change: str) -> None:
        reached = self._reachable(kind)
        for node in self._changes[change]:
            if node in reached:
                self.mark(new_kind, node, reached[node])

    @cached_property
    def _named(self) -> Mapping[str, set[Node]]:
        """The nodes that stand for files, and for what their programs print, once all programs have been read."""
        named = ("file", "printed")
        nodes = [node for node in self._edges if isinstance(node, tuple) and node[0] in named]
        return {name: {node for node in nodes if node[0] == name} for name in named}

    def _reachable(self, kind: str) -> dict[Node, Place]:
        whole = kind in _WHOLE
        # The content of a file is not a path.
        stops = set(self._changes["read"]) if kind.startswith(("at ", "listed ")) or kind in _NAMED else set[Node]()
        if kind == "downloaded" or kind in _NAMED:
            stops |= self._named["file" if kind in _NAMED else "printed"]
        # A part of them is followed, unless a fixed command has it as an argument.
        if kind == "answer" or kind.startswith(("act ", "words ")):
            stops = self._composed
        reached = dict(self._marks[kind])
        queue = list(reached)
        while queue:
            node = queue.pop()
            for after, part in self._edges.get(node, ()) if node not in stops else ():
                if after not in reached and not (part and whole):
                    reached[after] = reached[node]
                    queue.append(after)
        return reached


def _judge(sink: str, kinds: dict[str, Place]) -> Iterator[tuple[str, Place]]:
    """Yield the rules for a sink that values of these kinds reach, each with the place where the value begins."""
    for rule, needed in _RULES_BY_SINK.get(sink, ()):
        if needed <= kinds.keys():
            yield rule, kinds[min(needed)]
    if sink in ("eval", "line", "whole line", "words"):
        form = "words " if sink == "words" else "act "
        yield from ((kind.removeprefix(form), origin) for kind, origin in kinds.items() if kind.startswith(form))
    if sink in ("eval", "feed") and (origin := kinds.get("decoded") or kinds.get("unpacked")):
        yield "SH104", origin
    if sink in ("command", "load") and (origin := kinds.get("unpacked")):
        yield "SH104", origin
    if sink in ("eval", "load", "line") and (origin := kinds.get("fetched") or kinds.get("socket")):
        yield "SH105", origin
    if (sink == "hand-out" or (sink in ("command", "pipe") and "shell" in kinds)) and (origin := kinds.get("socket")):
        yield "SH402", origin
    if sink == "run-file" and (origin := kinds.get("fetched")):
        yield "SH105", origin
    if sink == "say" and "socket" in kinds:
        yield from _judge_sent(kinds)
    if sink == "lookup" or (sink == "command" and "looks up" in kinds):
        stolen = [
            place for kind, place in kinds.items() if kind.startswith("of ") or kind in ("encoded", "environment")
        ]
        yield from (("SH604", place) for place in stolen[:1])
    if sink == "send" or (sink == "command" and "sends" in kinds):
        yield from _judge_sent(kinds)


def _judge_sent(kinds: dict[str, Place]) -> Iterator[tuple[str, Place]]:
    hosts = {kind[5:] for kind in kinds if kind.startswith("host ")}
    if hosts == {"here"}:
        return
    is_foreign = bool(hosts & {"other", "collect"})
    if "environment" in kinds:
        yield "SH403", kinds["environment"]
    read = [kind[3:] for kind in kinds if kind.startswith("of ")]
    if is_foreign and (recorded := [kind for kind in read if kind in _RECORDED]):
        yield "SH413", kinds[f"of {recorded[0]}"]
    stolen = [kind for kind in read if kind not in _RECORDED and (kind not in hosts or is_foreign)]
    stolen += [kind[6:] for kind in kinds if kind.startswith("token ") and is_foreign and kind[6:] not in hosts]
    if stolen:
        yield "SH603", kinds.get(f"of {stolen[0]}") or kinds[f"token {stolen[0]}"]
        return
    variables = [kind[9:] for kind in kinds if kind.startswith("variable ")]
    needed = 1 if "collect" in hosts or "aws" in variables else 2
    if is_foreign and len(variables) >= needed and hosts.isdisjoint(variables):
        yield "SH603", kinds[f"variable {variables[0]}"]
