"""Whether what runs can be shown to stay offline, Python by its syntax tree; else it has ``network:?``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from skillhub.formats.text import words
from skillhub.scan.offline_shell import is_offline_shell, names_network

# Whether a Python program can be shown to stay offline: by what it imports, and by the names that it uses.
# It is read by tokens and not by ``ast``, which understands another language in each version of Python.

_TOKEN = re.compile(
    r"(?P<string>[rRbBuUfFtT]{0,2}(?:'''(?:[^\\']|\\.|'(?!''))*+'''|\"\"\"(?:[^\\\"]|\\.|\"(?!\"\"))*+\"\"\""
    r"|'(?:[^\\'\r\n]|\\\r\n|\\.)*+'|\"(?:[^\\\"\r\n]|\\\r\n|\\.)*+\"))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*+)|(?P<skip>\#[^\r\n]*+|[ \t\f]++|[0-9][\w.]*+|\\\r?\n)|(?P<sign>[\r\n]|.)",
    re.DOTALL,
)
_CODING = re.compile(r"(?:[^\r\n]*[\r\n]{1,2})?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_CODINGS = frozenset({"utf-8", "utf8", "ascii", "us-ascii", "latin-1", "iso-8859-1"})
# Of the standard library what neither reaches a network, nor starts a program, nor runs text.
_MODULES = frozenset(
    words(
        "__future__ abc argparse array ast atexit base64 binascii bisect bz2 calendar cmath codecs"
        " collections collections.abc colorsys concurrent concurrent.futures configparser contextlib"
        " contextvars copy csv dataclasses datetime decimal difflib enum errno filecmp fnmatch fractions"
        " functools getopt glob graphlib gzip hashlib heapq hmac html html.entities html.parser io itertools"
        " json keyword locale logging lzma math mimetypes numbers operator optparse os os.path pathlib"
        " platform plistlib pprint queue random re reprlib secrets shlex shutil signal stat statistics string"
        " struct sys tarfile tempfile textwrap threading time token tokenize tomllib traceback types typing"
        " unicodedata urllib.parse uuid warnings weakref xml xml.dom xml.dom.minidom xml.etree"
        " xml.etree.ElementTree xml.sax.saxutils zipfile zlib zoneinfo typing_extensions PIL PIL.Image"
        " PIL.ImageDraw PIL.ImageFont PIL.ImageOps PIL.ImageFilter docx openpyxl pdfplumber pptx pypdf"
        " tabulate tomli yaml defusedxml defusedxml.ElementTree defusedxml.minidom bs4"
    )
)
_DENIED = re.compile(
    r"(?:exec|exec[lv]p?e?|eval|(?:posix_)?spawn\w*|p?[pP]open\w*|system|startfile|breakpoint|_*import_*|import_module"
    r"|importlib\w*|_*builtins_*|modules|meta_path|path_hooks|globals|locals|vars|attrgetter|methodcaller|FunctionType"
    r"|CodeType|LambdaType|ctypes|cdll|windll|[CW]\w{0,3}DLL|socket\w*|ssl|subprocess|multiprocessing|asyncio|urlopen"
    r"|urlretrieve|check_output|check_call|ProcessPoolExecutor|f_globals|f_builtins|f_locals|\w{2}_frame|_getframe"
    r"|get_type_hints|ForwardRef|_evaluate|enable_load_extension|load_extension|create_module|exec_module|load_module"
    r"|run_path|run_module|run_code|webbrowser|requests|httpx|aiohttp|pty|posix|nt|pickle|marshal|_\w*os|_sys|_socket)"
)
_DUNDERS = frozenset(
    words(
        "__name__ __main__ __file__ __doc__ __init__ __post_init__ __new__ __str__ __repr__ __eq__ __ne__"
        " __hash__ __lt__ __le__ __gt__ __ge__ __len__ __iter__ __next__ __contains__ __getitem__ __setitem__"
        " __delitem__ __enter__ __exit__ __call__ __bool__ __int__ __float__ __add__ __sub__ __mul__"
        " __truediv__ __and__ __or__ __all__ __version__ __author__ __class__ __future__ __slots__"
        " __annotations__ __del__ __format__ __radd__ __neg__ __abs__ __missing__"
    )
)
# Of others the best known that read and write files.
_PACKAGES = frozenset(words("PIL docx openpyxl pdfplumber pptx pypdf"))
# Modules of which a member is harmless that is not so elsewhere; none has another name, no other has theirs.
_GUARDED = {
    "re": None,
    "platform": None,
    "yaml": frozenset(words("safe_load safe_load_all safe_dump safe_dump_all dump YAMLError SafeLoader SafeDumper")),
}
_WORD = re.compile(r"\w+", re.ASCII)


def is_offline_python(text: str, own: Set[str], *, has_archives: bool) -> bool:
    """Say whether it is shown that a program reaches no network.

    Args:
        text: The program.
        own: The names of the modules that are in the skill, each of which is judged for itself.
        has_archives: Whether the skill holds an archive, out of which Python may import what nobody reads.
    """
    coding = _CODING.match(text)
    if "\0" in text or (coding and coding[1].lower() not in _CODINGS):
        return False
    tokens = [
        (match.lastgroup or "", match[0])
        for match in _TOKEN.finditer(text.removeprefix("\ufeff"))
        if match.lastgroup != "skip"
    ]
    return all(_is_harmless(tokens, at, own, has_archives) for at in range(len(tokens)))


def _is_harmless(tokens: list[tuple[str, str]], at: int, own: Set[str], has_archives: bool) -> bool:
    kind, text = tokens[at]
    if kind == "string":
        return _is_harmless_string(text)
    if kind == "sign":
        return text.isascii() and text not in "'\"\0"
    after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
    before = tokens[at - 1][1] if at else ""
    previous = tokens[at - 2][1] if at > 1 else ""
    if text == "import":
        return _is_harmless_import(tokens, at, own)
    if text in _GUARDED:
        return (
            after == "." or before == "import" or (before == "," and after in (",", "\n", "\r"))
        ) and before != "as"
    if before == "." and previous in _GUARDED:
        members = _GUARDED[previous]
        return members is None or text in members
    if text == "compile" or (text == "path" and has_archives and (previous, before) == ("sys", ".")):
        return False
    if text == "getattr":
        return _is_harmless_getattr(tokens, at)
    if text.startswith("__") and text.endswith("__"):
        return text in _DUNDERS
    return _DENIED.fullmatch(text) is None


def _is_harmless_string(text: str) -> bool:
    prefix = re.match(r"[A-Za-z]*", text)
    if not prefix or not set(prefix[0].lower()) & {"f", "t"}:
        return True
    code, depth, at = "", 0, 0
    while at < len(text):
        if not depth and text[at : at + 2] in ("{{", "}}"):
            at += 1
        elif text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
        elif depth > 0:
            code += text[at]
        code += " " if text[at] in "{}" else ""
        at += 1
    if depth:  # a later Python ends the string elsewhere
        return False
    return code.isascii() and all(
        not _DENIED.fullmatch(word)
        and word not in ("getattr", "compile", "import")
        and (word[:2] != "__" or word in _DUNDERS)
        for word in _WORD.findall(code)
    )


def _is_harmless_getattr(tokens: list[tuple[str, str]], at: int) -> bool:
    texts = [text for _, text in tokens[at + 1 : at + 12]]
    if texts[:1] != ["("] or "," not in texts:
        return False
    comma = texts.index(",")
    if not all(_WORD.fullmatch(each) or each == "." for each in texts[1:comma]) or comma + 1 >= len(texts):
        return False
    name = re.fullmatch(r"[\"']([A-Za-z]\w*)[\"']", texts[comma + 1], re.ASCII)
    ends = texts[comma + 2 : comma + 3]
    return name is not None and _DENIED.fullmatch(name[1]) is None and name[1] != "compile" and ends in ([","], [")"])


def _is_harmless_import(tokens: list[tuple[str, str]], at: int, own: Set[str]) -> bool:
    start = at
    while start and tokens[start - 1][1] not in ("\n", "\r", ";", ":"):
        start -= 1
        if at - start > 40:
            return False
    source = [text for _, text in tokens[start:at]]
    if source:
        path = "".join(source[1:])
        if source[0] != "from" or path in _GUARDED:
            return False
        if path in ("xml", "xml.dom", "xml.etree", "concurrent", "urllib", "os", "html", "collections"):
            named = _after(tokens, at)
            return all(
                f"{path}.{each}" in _MODULES or (path in ("os", "collections", "html") and each != "*")
                for each in named
            ) and not _takes_guarded(tokens, at)
        return _is_known(path, own) and not _takes_guarded(tokens, at)
    rest = "".join(f" {text} " if text == "as" else text for _, text in tokens[at + 1 : _line_end(tokens, at)])
    paths = [each.partition(" as ")[0] for each in rest.split(",")]
    return all(_is_known(each, own) and not each.startswith(".") for each in paths) and not _takes_guarded(tokens, at)


def _after(tokens: list[tuple[str, str]], at: int) -> list[str]:
    names, skip = [], False
    for _, text in tokens[at + 1 : _line_end(tokens, at)]:
        if text == "as":
            skip = True
        elif _WORD.fullmatch(text) or text == "*":
            names += [] if skip else [text]
            skip = False
    return names


def _takes_guarded(tokens: list[tuple[str, str]], at: int) -> bool:
    """Say whether what is imported gets the name of a guarded module, or one of these gets another."""
    line = [text for _, text in tokens[at + 1 : _line_end(tokens, at)]]
    return any(
        (text == "as" and (line[number + 1 : number + 2] or [""])[0] in _GUARDED)
        or (text in _GUARDED and line[number + 1 : number + 2] == ["as"])
        for number, text in enumerate(line)
    )


def _line_end(tokens: list[tuple[str, str]], at: int) -> int:
    end, inside = at + 1, False
    while end < len(tokens):
        text = tokens[end][1]
        inside = (inside or text == "(") and text != ")"
        if text == ";" or (text in ("\n", "\r") and not inside):
            break
        end += 1
    return end


def _is_known(path: str, own: Set[str]) -> bool:
    first = path.lstrip(".").partition(".")[0]
    return path in _MODULES or first in _PACKAGES or first in own or (path.startswith(".") and not first)


# Whether what runs can be shown to stay offline; what cannot carries the capability ``network:?``.
# Python and the shells of POSIX are read, each with a list of what is known to be harmless; other languages are
# not, so that nothing is shown of them. What a program writes and something else runs later is not seen.

# What is longer was not written to be read.
_PROGRAM_MAX = 1 << 18
_INTERPRETER = re.compile(
    rb"#![ \t]*/(?:usr/(?:local/)?)?bin/(?:env[ \t]+(?:-S[ \t]+)?)?(python[0-9.]*|(?:ba|da|k|z)?sh)"
    rb"(?:[ \t]+-[A-Za-z]{1,6})?[ \t]*\r?"
)
_SHELL = (".sh", ".bash", ".zsh", ".ksh")
_PYTHON = (".py", ".pyw")
# In a folder of scripts lies also what scripts read.
_READ = (
    ".md",
    ".txt",
    ".json",
    ".yaml",
    ".yml",
    ".toml",
    ".xml",
    ".xsd",
    ".csv",
    ".tsv",
    ".css",
    ".svg",
    ".png",
    ".jpg",
    ".ttf",
)


def is_offline(path: str, data: bytes, run: Mapping[str, bytes], *, is_told: bool, has_archives: bool) -> bool:
    """Say whether it is shown that a file reaches no network when it runs.

    Args:
        path: Its path.
        data: Its bytes.
        run: All files of the skill that run, each of which is judged for itself.
        is_told: Whether it runs for another reason than the folder that it is in.
        has_archives: Whether the skill holds an archive.
    """
    folded, shebang = path.lower(), data.removeprefix(b"\xef\xbb\xbf").startswith(b"#!")
    if not is_told and not shebang and folded.endswith(_READ):
        return True
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if len(data) > _PROGRAM_MAX or names_network(data):
        return False
    line = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    found = _INTERPRETER.fullmatch(line)
    if shebang and not found:
        return False
    by_name = "python" if folded.endswith(_PYTHON) else "sh" if folded.endswith(_SHELL) else None
    by_line = None if found is None else "python" if found[1].startswith(b"python") else "sh"
    if by_name is not None and by_line not in (None, by_name):
        return False
    if (by_name or by_line) == "python":
        return is_offline_python(text, _modules(run), has_archives=has_archives)
    if (by_name or by_line) == "sh":
        return is_offline_shell(text, {each.rpartition("/")[2] for each in run})
    return not text.strip()


def _modules(run: Mapping[str, bytes]) -> set[str]:
    names = (part for path in run if path.lower().endswith(_PYTHON) for part in path.split("/"))
    return {name.removesuffix(".py") for name in names}
