"""Patterns of commands that download code, send data away or persist."""

from __future__ import annotations

import re
from typing import Final

from skillhub.scan.pattern import (
    ELSEWHERE,
    GAP_MAX,
    OWN_NETWORK,
    URL,
    WRAPPERS,
    MatchContext,
    is_anybodys,
    is_index,
    is_installer,
    pattern,
    rule,
)

_SHELL = rb"(?:bash|dash|zsh|ksh|sh)"  # alternatives, so that the engine skips to the first letters
_FIRST = b"|".join(rb"(?<=^%b\.)" % (rb"\s" * blanks) for blanks in range(9))  # a dot at the start of a line
# Commands that run the command after their options: `| sudo -u root env A=b bash`.
_WRAPPED = (
    rb"(?:(?:/[\w/]{1,30}/)?(?:" + "|".join(WRAPPERS).encode() + rb")\s"
    rb"(?:--?\w[^\s|;&]{0,20}\s(?:[\w'\"\\{}]{1,12}\s(?!\s))??|\d{1,4}[smh]?\s|--?\s){0,5}"
    rb"|\w{1,20}=[^\s|;&]{0,40}\s){0,4}"
)
_RUN = (
    rb"\|&?\s{0,20}(?:[({]\s{0,4})?[\"'\\]{0,4}" + _WRAPPED + rb"(?:/[\w/]{1,30}/)?"
    rb"(?:(?:" + _SHELL + rb"|ash|fish|python[\d.]{0,5}|node|perl|ruby|php|pwsh|lua|tclsh|osascript"
    rb"|(?:bun|deno)\s(?:run\s)?(?:--?\w[\w=-]{0,20}\s){0,4}-(?=\s|$)|(?:source|\.)\s/dev/stdin"
    rb"|batch|parallel|(?:crontab\s|make\s-f\s?)-(?=\s|$)|at\s(?:-\w\s)?(?:now|midnight|noon))(?![\w./-])"
    rb"|\$\{?shell\b)"
)
_RUNNERS = (
    "sh bash zsh dash ksh ash fish python* node perl ruby php pwsh lua tclsh osascript bun deno stdin shell"
    " batch parallel crontab make now midnight noon"
)
# A pipe into a shell at the end of a group, of another user, of another machine or of a container.
_SHELL_AT_END = (
    _WRAPPED + rb"(?:/[\w/]{1,30}/)?" + _SHELL + rb"(?=\s{0,4}(?:[\"'`;&|)}\n]|$)|\s-s?(?:[\s\"'`;&|)}]|$))"
)
_IN_GROUP = rb"\|&?\s{0,20}[({]\s{0,4}[^|(){}\n]{1,80}[;&]\s{0,4}" + _SHELL_AT_END
_ELSEWHERE = (
    rb"\|&?\s{0,20}(?:sudo\s)?(?:/[\w/]{1,30}/)?"
    rb"(?:(?:ssh|(?:docker|podman|nerdctl|kubectl|oc|lxc|incus)\s(?:[^\s|;&]{1,40}\s){0,4}?(?:exec|run))"
    rb"\s[^\s|;&]{1,80}|" + "|".join(ELSEWHERE).encode() + rb")\s(?:[^\s|;&]{1,80}\s){0,7}?[\"']?" + _SHELL_AT_END
)
_SUBSTITUTED = rb">\(\s{0,4}" + _SHELL_AT_END
_FETCH = rb"\b(?:curl|wget)\b"
_INDEX = rb"[\s=:,\"']{1,6}(?:sparse\+)?https?://[^\s\"'`|)]{3,200}"
_ARGUMENTS = rb"(?:[^\s;|&]{1,80}\s){0,12}?[\"']?"
_PACKAGE = rb"(?:git\+https?://[^\s\"'`|)]{3,200}|https?://[^\s\"'`|)]{3,200}\.(?:whl|zip|tgz|gz|git)\b)"
_POWER_WORDS = "iwr irm webrequest restmethod downloadstring"
_POWER_FETCH = rb"\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring)\b"
_READERS = "cat cp scp tar zip curl open readfilesync readfile read_text read_bytes type less head"
_HOME = rb"(?:~|\$\{?home\}?|/root)"
_STORES = "ssh aws netrc kube npmrc pypirc git"
_STORE_READ = (
    rb"\s{1,4}(?:[\w'/](?:[\w'/-]|\.(?=\w)){0,11}\s{1,4}){0,3}[`\"'<(]{0,3}"
    + _HOME
    + rb"/\.(?:ssh/id_\w{1,20}(?!\w|\.pub)|ssh/\*|aws/credentials|netrc|kube/config|npmrc|pypirc|git-credentials)\b"
)
# Verbs, and commands, that put a file in its place.
_PLACED = rb"\b(?:create|install|write|save|copy|place|put|add|cp|mv|ln|tee)\b"
_DISK = rb"/dev/(?:[shv]d[a-z]|nvme\d|r?disk\d|mmcblk\d)"

# A program on the command line, which reads the pipe: `python3 -c '…'`, `node parse.js`, `python3 -m json.tool`.
_PROGRAM = re.compile(
    rb"(?:\s{1,4}-[a-z]{1,4}){0,3}?\s{1,4}"
    rb"(?:-m\s{1,4}json(?:\.tool)?\b|-[a-z]{0,4}[ce]\s{1,4}([\"'])|[\w./-]{1,80}\.(?:py|m?js|rb|pl|php)\b)"
)
_RUNS_TEXT = re.compile(
    rb"\b(?:exec|eval|system|popen|subprocess|spawn\w{0,8}|pickle|marshal|runpy|importlib|getattr|globals|builtins"
    rb"|child_process|new\sfunction|vm|qx|sh|bash)\b|__|`|/\w{0,4}ee|\bimport\(|\$\("
)
# Options of curl and wget that change neither what is fetched nor from where; and the one address.
_OPTION = (
    rb"(?:-[fslvqo]{1,6}-?|-(?=\s)|--(?:proto|proto-default|retry)[ =][\"']?=?[a-z0-9]{1,8}[\"']?|--tlsv1\.[23]"
    rb"|--(?:location|fail|silent|show-error|quiet))"
)
_QUOTED = rb"[\"']?(https://[^\s\"'`|)]{3,200})[\"']?"
_PLAIN = re.compile(rb"(?:\s{1,4}%b){0,8}\s{1,4}%b(?:\s{1,4}%b){0,4}\s{0,20}" % (_OPTION, _QUOTED, _OPTION))
_POWER_PLAIN = re.compile(rb"[\s(]{0,4}(?:-\w{2,20}\s{1,4}){0,3}%b[\s)]{0,20}" % _QUOTED)
# A variable set for the command; or a key of a file whose command a host runs by itself, unlike one in documentation.
_SET_BEFORE = re.compile(
    rb"(?:^|[\s;&|(])\w{1,40}=\S{0,100}\s{1,4}$|\b(?:command|postinstall|preinstall|prepare)[\"']?\s{0,3}:[^:]{0,40}$"
)
# A command that prints the token of a login, and the hosts that such tokens are for.
_OWN_TOKEN = (
    rb"\$\((?:gh\sauth\stoken|gcloud\sauth\s(?:[\w-]{1,30}\s){0,3}print-(?:access|identity)-token"
    rb"|az\saccount\sget-access-token)"
)
_TOKEN_HOSTS = re.compile(
    rb"(?:^|\.)(?:github\.com|githubusercontent\.com|githubcopilot\.com|ghcr\.io|googleapis\.com|google\.com|run\.app"
    rb"|cloudfunctions\.net|pkg\.dev|gcr\.io|azure\.com|microsoft\.com|windows\.net|azure\.net|visualstudio\.com"
    rb"|azurewebsites\.net|localhost|127\.0\.0\.1)$"
)
_ADDRESS = re.compile(rb"(?<![<\w-])[\w$]")
_DECODES = re.compile(
    rb"b64decode|\batob\b|decode64|frombase64string|buffer\.from|base64_decode|base64\s{1,4}-{1,2}d"
    rb"|\b(?:url|host|endpoint|server|addr|address|target|c2)\w{0,20}\s{0,3}[:=]\s{0,3}$"
)
_REGISTRIES = re.compile(r"(?:^|\.)(?:deno\.land|jsr\.io)$")  # which keep the versions that they published
_OPTIONS = re.compile(rb"(?:\s{1,4}--?[\w=,.:-]{1,60}){0,8}")
# Alternatives that begin with a letter each, so that the engine skips to these letters.
_ADDS_PACKAGE = b"|".join(
    (
        *(name + rb"\s(?:pip\s)?(?:install|add)" for name in (rb"pip[\d.]{0,5}", b"pipx", b"uv", b"gem")),
        *(name + rb"\s(?:(?:pip\s)?(?:install|add)|i|dlx|exec|x)" for name in (b"npm", b"pnpm", b"yarn", b"bun")),
    )
)
# Before the address of a package: the command and its options.
_INSTALLS = re.compile(
    rb"\b(?:npx|bunx|uvx|(?:npm|pnpm|yarn|bun)\s(?:i|install|add|dlx|exec|x)"
    rb"|(?:pip[\d.]{0,5}|pipx|uv\spip|uv)\s(?:install|add)|pipx\srun|cargo\sinstall)"
    rb"(?:\s(?:-[ypgqudse]|--(?:yes|package|from|spec|global|quiet|upgrade|user|save-dev|save|editable|force|git"
    rb"|no-cache(?:-dir)?)|--[\w-]{1,30}=[^\s\"']{0,80})){0,5}[\s=][\"']?(?:\w{1,40}@)?$"
)
_DEPENDENCY = re.compile(rb"(?:^|[\s\"'])@?[\w./-]{1,80}(?:\[[\w,.-]{1,60}\])?$")
_TO_HOME = re.compile(rb"\b(?:to|in|into|of)\s(?:\w{1,12}\s){0,3}`?" + _HOME + rb"$")
_ADDS = re.compile(rb"\b(?:add|append|put|write|insert|paste)\b[^\n]{0,80}$")
_NEAR_MAX: Final = 80
_ERASES = re.compile(
    rb"(?:(?:^|[\s;&|(`\"'])(?:rm|shred|truncate|unlink)\s[^;|&]{0,120}|/dev/null\s{1,4}(?:>\s?)?|(?:^|[\s;&:|])>\s{0,2})[\"']?$"
)


def _piped(context: MatchContext) -> str | None:
    """Judge a download that is piped into a program: by the program, and by the address, if it names one."""
    is_shell = context.then.endswith(b"sh") and not context.then.endswith(b"pwsh")
    program = None if is_shell else _PROGRAM.match(context.after)
    if program and not program[1]:
        return None
    if program:
        code = context.after[program.end() :].partition(program[1])[0]
        return "SH101" if _RUNS_TEXT.search(code) else None
    return _fetched(context, context.between, "SH101")


def _substituted(context: MatchContext) -> str | None:
    """Judge a download whose output is run as a command."""
    return _fetched(context, re.split(rb"[)`|;]", context.after, maxsplit=1)[0].split(b"\n")[0], "SH102")


def _evaluated(context: MatchContext) -> str | None:
    """Judge a download that PowerShell runs; fetch and run may stand in either order."""
    fetch = context.between if b"|" in context.then else re.split(rb"[;|\n]", context.after, maxsplit=1)[0]
    return _fetched(context, fetch, "SH103", _POWER_PLAIN)


def _in_sentence(context: MatchContext) -> str | None:
    """Judge a sentence that reads a file; a list item that begins with it is often a review, and no instruction."""
    return "SH401" if context.before.strip(b" \t-*+") else None


def _sent_elsewhere(context: MatchContext) -> str | None:
    """Judge a request with the token of a login: it may go to the hosts of the login, or to a host in a variable."""
    line = context.between + context.then + context.after.partition(b"\n")[0]
    hosts = re.findall(rb"https?://([\w.-]{1,253})", line)
    return "SH401" if any(not _TOKEN_HOSTS.search(host) for host in hosts) else None


def _is_decoded(context: MatchContext) -> str | None:
    """Judge an address in base64: by a name before it, as of a variable or a function, or by the pipe after it."""
    return "SH614" if _DECODES.search(context.before + b" " + context.after[:_NEAR_MAX].partition(b"\n")[0]) else None


def _is_command(context: MatchContext) -> str | None:
    """Judge words that are a command only at the start of one."""
    return "SH411" if not context.before.strip() or context.before.rstrip().endswith((b";", b"&&", b"$")) else None


def _is_erased(context: MatchContext) -> str | None:
    """Judge the path of a history or a log: by the command before it."""
    return "SH411" if _ERASES.search(context.before) else None


def _fetched(context: MatchContext, fetch: bytes, rule: str, plain: re.Pattern[bytes] = _PLAIN) -> str | None:
    """Return the rule for a download that runs; none for a mention without an address, such as ``curl … | sh``."""
    words = [word for word in fetch.strip(b"`\"' ").split() if not word.startswith((b"-", b"<", b'"<', b"'<"))]
    if not any(_ADDRESS.search(word) for word in words) and b"xargs" not in context.before:
        return None
    address = plain.fullmatch(fetch)
    following = re.split(rb"[;&|\n`]", context.after, maxsplit=1)[0]
    is_plain = (
        address and not _SET_BEFORE.search(context.before) and (fetch in context.after or b"://" not in following)
    )
    return "SH108" if is_plain and address and is_installer(address[1].decode("utf-8", "replace")) else rule


def _package_address(context: MatchContext) -> str:
    """Judge the address of a package: by who can publish there."""
    address = URL.search((context.then + context.after[:GAP_MAX]).decode("utf-8", "replace"))
    is_installed = re.search(rb"[;|&]", context.between) is None
    return "SH117" if is_installed and address and is_anybodys(address) else "SH106"


def _package_alone(context: MatchContext) -> str | None:
    """Judge the address of a package of any name: the first word after the options of the command."""
    address = URL.search(context.first.decode("utf-8", "replace"))
    if not address or not _INSTALLS.search(context.before) or OWN_NETWORK.match(address[1]):
        return None
    return "SH117" if is_anybodys(address) else "SH106"


def _added_line(context: MatchContext) -> str | None:
    """Judge a line and a file of a shell: whether the text tells somebody to add the line to the file."""
    return "SH406" if _ADDS.search(context.before) and _TO_HOME.search(context.between) else None


def _program_address(context: MatchContext) -> str | None:
    """Judge the address of a program that an interpreter fetches and runs."""
    address = URL.search(context.then.decode("utf-8", "replace"))
    is_run = _OPTIONS.fullmatch(context.between) is not None
    if not is_run or not address or OWN_NETWORK.match(address[1]) or _REGISTRIES.search(address[1]):
        return None
    return "SH105" if is_anybodys(address) else "SH114"


def _dependency(context: MatchContext) -> str | None:
    """Judge the address of a package in a list of dependencies; a list of what was installed has others, too."""
    address = URL.search(context.first.decode("utf-8", "replace"))
    if not address or not _DEPENDENCY.search(context.before) or OWN_NETWORK.match(address[1]):
        return None
    is_installed = context.before.endswith((b"url", b"resolved", b"tarball", b"repository"))
    return "SH117" if is_anybodys(address) else None if is_installed else "SH106"


def _unknown_index(context: MatchContext) -> str | None:
    """Judge the index that packages are installed from."""
    address = URL.search(context.first.decode("utf-8", "replace"))
    rule = "SH117" if address and is_anybodys(address) else "SH106"
    return rule if address and (rule == "SH117" or not is_index(address[1])) else None


FETCH: Final = (
    rule(
        "SH117",
        *(
            pattern(f"{words} / http https", option + _INDEX, judge=_unknown_index)
            for words, option in (
                ("index", rb"--(?:extra-|default-)?index(?:-url)?"),
                ("registry", rb"--registry"),
                ("links", rb"--find-links"),
                ("pip* / install", rb"\bpip[\d.]{0,5}[\"',\s]{1,6}install[\"',\s]{1,6}" + _ARGUMENTS + rb"-i"),
                ("gem / install sources", rb"\bgem\s(?:install|sources)\s" + _ARGUMENTS + rb"(?:--source|--add|-s)"),
                ("index / url", rb"\bpip_(?:extra_)?index_url"),
                ("registry / config", rb"\bnpm_config_registry"),
                ("index / uv", rb"\buv_(?:default_|extra_)?index(?:_url)?"),
                ("goproxy", rb"\bgoproxy"),
                ("index / url", rb"^[#\s]{0,8}(?:extra-)?index-url"),
                ("index / uv / url", rb"\[\[tool\.uv\.index\]\](?:[^\[\n]{0,200}\n){1,6}?[#\s]{0,8}url"),
                ("npmregistryserver", rb"\bnpmregistryserver"),
                ("registry", rb"^(?:@[\w-]{1,40}:)?registry"),
                ("set / index registry", rb"\bset\s(?:global\.)?(?:index-url|registry)"),
            )
        ),
    ),
    rule(
        "SH101",
        pattern("curl wget / " + _RUNNERS, _FETCH, _RUN, _piped),
        *(
            pattern("curl wget / sh bash zsh dash ksh", _FETCH, run, _piped)
            for run in (_IN_GROUP, _ELSEWHERE, _SUBSTITUTED)
        ),
    ),
    rule(
        "SH102",
        pattern(
            "curl wget",
            rb"\b(?:bash|dash|zsh|ksh|sh|source|eval|python[\d.]{0,5}|node|perl|ruby|php|deno|bun|osascript|ash"
            rb"|fish|\$\{?(?:shell|0(?![\w.]))[^\s}]{0,10}\}?|\.(?:" + _FIRST + rb"))"
            rb"[\"']?\s{1,4}(?:-\w{1,6}\s)?(?:\\?[\"'])?(?:<<<\s{0,4}[\"']?)?(?:[<=]\(|\$\(|`)\s{0,4}[\"'\\]?"
            rb"(?:curl|wget)\b",
            judge=_substituted,
        ),
    ),
    rule(
        "SH103",
        pattern("iex expression / " + _POWER_WORDS, rb"\b(?:iex|invoke-expression)\b", _POWER_FETCH, _evaluated),
        pattern(
            "iex expression / " + _POWER_WORDS, _POWER_FETCH, rb"\|\s{0,4}(?:iex|invoke-expression)\b", _evaluated
        ),
    ),
    rule(
        "SH104",
        pattern("base64 / " + _RUNNERS, rb"\bbase64\s", _RUN),
        pattern(
            "b64decode fromhex atob / exec eval", rb"\b(?:exec|eval)\s{0,2}\(", rb"\b(?:b64decode|fromhex|atob)\b"
        ),
        pattern(
            "powershell pwsh / e enc encodedcommand",
            rb"\b(?:powershell|pwsh)(?:\.exe)?(?=\s)",
            rb"\s-e(?:nc(?:odedcommand)?)?\s",
        ),
    ),
    rule(
        "SH105",
        pattern(
            "exec eval / urlopen requests httpx fetch",
            rb"\b(?:exec|eval)\(",
            rb"\b(?:urlopen|requests\.get|httpx\.get|fetch)\(",
        ),
        pattern("fetch / eval function", rb"\bfetch\(", rb"\bthen\(\s{0,4}(?:eval|function)\b"),
        pattern(
            "tmp shm / eval exec compile",
            rb"\b(?:exec|eval|compile)\(\s{0,4}(?:compile\(\s{0,4})?open\(\s{0,4}[\"'](?:/var)?/(?:tmp|dev/shm)/",
        ),
        pattern(
            "deno bun uv / http https",
            rb"\b(?:deno\s(?:run|install)|bun(?:\srun)?|uv\srun)(?=\s)",
            rb"\shttps?://[^\s\"'`|;&)]{3,200}",
            _program_address,
        ),
        pattern("eval / get lwp", rb"\beval\s{1,4}get[\s(]{1,4}[\"']https?://"),
    ),
    rule(
        "SH106",
        pattern(
            "pip* uv npm pnpm yarn bun gem npx uvx bunx / git tgz tar zip whl github gitlab bitbucket gist"
            " / http https ssh github gitlab bitbucket gist",
            rb"\b(?:" + _ADDS_PACKAGE + rb"|npx|uvx|bunx)(?=\s)",
            rb"(?:^|[\s\"'@=])(?:git\+(?:https|ssh)://|https?://[^\s\"'`)]{1,200}\.(?:tgz|tar|zip|whl|git)\b"
            rb"|(?:github|gitlab|bitbucket|gist):[\w.-]{1,40}/?[\w.-])",
            _package_address,
        ),
        pattern("whl zip tgz gz git / http https", rb" @ " + _PACKAGE, judge=_dependency),
        pattern("whl zip tgz gz git / http https", rb"\":\s{0,2}\"" + _PACKAGE, judge=_dependency),
        # The judge looks for the command: a pattern that began with it would try four letters of every text.
        pattern("http https", rb"\bhttps?://[^\s\"'`|)]{3,200}", judge=_package_alone),
    ),
    rule(
        "SH614",
        pattern(
            "*ahr0cdovl* *ahr0chm6ly*",
            # "http://" and "https://" in base64.
            rb"[\"'`\s]ahr0c(?:dovl|hm6ly)[a-z0-9+/_-]{6,200}={0,2}(?=[\"'`\s]|$)",
            judge=_is_decoded,
        ),
    ),
    rule(
        "SH107",
        pattern(
            "follow obey carry do apply / http https / instruction* step* command* direction* say* it its them",
            rb"\b(?:fetch|download|read|open|load|visit|curl|wget)\b[^\n]{0,40}https?://",
            rb"\b(?:(?:follow|obey|carry out)\s(?:\w{1,12}\s){0,3}(?:instruction|step|command|direction)"
            rb"|(?:do|follow|obey)\swhat\s(?:it|they|the\s\w{1,12})\ssays?\b|(?:obey|apply|follow)\s(?:it|them)\b)",
        ),
    ),
)
_OUTSIDE = "event req request body payload comment webhook message msg params query"  # names of untrusted input
SYSTEM: Final = (
    rule(
        "SH401",
        pattern(
            "ssh aws netrc* kube docker npmrc* pypirc* git gnupg gcloud / " + _READERS.replace("_", " "),
            rb"\b(?:" + _READERS.replace(" ", "|").encode() + rb")\b",
            _HOME + rb"/\.(?:ssh/id_\w{1,20}(?!\w|\.pub)|ssh/\*|aws/credentials|netrc|kube/config|npmrc|pypirc"
            rb"|docker/config\.json|git-credentials|gnupg/|config/gcloud/\w)",
        ),
        # In prose the file must be the object of "read": "read ~/.netrc", not "reads a token from ~/.netrc".
        pattern("read / " + _STORES, rb"\bread" + _STORE_READ),
        pattern("reading reads / " + _STORES, rb"\bread(?:ing|s)" + _STORE_READ, judge=_in_sentence),
        pattern(
            "base64 / ssh aws netrc kube npmrc pypirc docker gnupg git",
            rb"\bbase64\s{1,4}(?:-[\w=]{1,8}\s{1,4}){0,3}[\"'<]{0,2}"
            + _HOME
            + rb"/\.(?:ssh|aws|netrc|kube|npmrc|pypirc|docker|gnupg|git-credentials)\b",
        ),
        pattern(
            "env / curl", rb"\bcurl(?=\s)", rb"@[\"']?(?:[\w.~/$-]{0,60}/)?\.env\b(?!\.(?:example|sample|template))"
        ),
        pattern(
            "169 / 254 / curl nc wget",
            rb"\b169\.254\.169\.254/[\w./-]{0,60}(?:credentials|token)",
            rb"\|\s{0,4}(?:curl|nc|wget)\b",
        ),
        pattern("token* print / curl wget", rb"\b(?:curl|wget)(?=\s)", _OWN_TOKEN, _sent_elsewhere),
        pattern("dialog / hidden / password*", rb"\bdialog\s[^\n]{0,200}\bpassword", rb"\bhidden\sanswer\b"),
        pattern("home", rb"\bhome\(\)\s{0,2}/\s{0,2}[\"']\.(?:ssh|aws|netrc|kube|gnupg|git-credentials)\b"),
    ),
    rule(
        "SH402",
        pattern(
            "tcp udp / dev",
            rb"(?:\b" + _SHELL + rb"(?:\s{1,4}|,)-[abd-z]{0,3}i\b|\b" + _SHELL + rb"\s(?:--\w{1,12}\s){1,3}-i\b"
            rb"|\bexec\s(?:\d{1,3}|\{\w{1,20}\})<>)",
            rb"/dev/(?:tcp|udp)/[\w.$]",
        ),
        pattern("tcp udp / dev", rb"\b" + _SHELL + rb"(?:\s-[abd-z]{1,4})?\s{0,4}\d?[<>]&?\s{0,4}/dev/(?:tcp|udp)/"),
        pattern(
            "socat / exec system",
            rb"\bsocat(?=\s)",
            rb"\b(?:exec|system):[\"']?(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b",
        ),
        pattern(
            "nc ncat netcat telnet openssl / sh bash zsh dash ksh",
            rb"\b" + _SHELL + rb"(?:\s{1,4}-i)?(?:\s{1,4}\d?>&\d)?\s{0,4}\|\s{0,4}"
            rb"(?:nc|ncat|netcat|telnet|openssl\ss_client)\s",
        ),
        *(
            pattern(word, begin + rb"\s[^\n|]{1,80}\|\s{0,4}(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b")
            for word, begin in (("telnet", rb"\btelnet"), ("client", rb"\bs_client"))
        ),
        pattern(
            "nc ncat netcat",
            rb"\b(?:nc|ncat|netcat)(?=\s)",
            rb"\s(?:-\w{0,4}[ec]|--(?:sh-)?exec)[\s=]{0,2}[\"']?(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b",
        ),
        # Whoever connects to the port types commands.
        pattern(
            "nc ncat netcat",
            rb"\b(?:nc|ncat|netcat)\s(?:-{1,2}[\w-]{1,10}\s{1,4}){0,4}-\w{0,4}l[^\n|;&]{0,60}\|\s{0,4}"
            rb"(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b",
        ),
    ),
    rule(
        "SH403",
        pattern(
            "printenv env / curl wget nc ncat",
            rb"(?:printenv(?<!\wprintenv)|env(?:(?<=^env)|(?<=[;&(`]env)|(?<=[;&(`]\senv)))\s{0,2}\|",
            rb"\b(?:curl|wget|nc|ncat)\b",
        ),
        pattern("printenv env / curl", rb"\bcurl\s", rb"\$\((?:env|printenv)\)"),
        pattern(
            "tojson / secrets / curl wget http https",
            rb"\btojson\(\s{0,4}secrets\s{0,4}\)",
            rb"\b(?:curl|wget|https?)\b",
        ),
        pattern(
            "environ env / post put urlopen fetch",
            rb"\b(?:post|put|urlopen|fetch)\(",
            rb"dict\(os\.environ\)(?<=\bdict\(os\.environ\))|[=:]\s{0,2}(?:os\.environ|process\.env)\s{0,2}[,)}]|stringify\(process\.env\)",
        ),
    ),
    rule(
        "SH404",
        *(
            pattern(word, place)
            for word, place in (
                ("webhook", rb"\bwebhook\.site"),
                ("requestbin", rb"\brequestbin\.(?:com|net)"),
                ("pipedream", rb"\bm\.pipedream\.net"),
                ("interact", rb"\binteract\.sh"),
                ("transfer", rb"\btransfer\.sh/"),
                ("ngrok", rb"\bngrok(?:-free)?\.(?:io|app)"),
                ("webhooks", rb"\bdiscord(?:app)?\.com/api/webhooks/"),
                ("telegram", rb"\bapi\.telegram\.org/bot"),
            )
        ),
    ),
    rule(
        "SH405",
        pattern(
            "rm",
            rb"\brm\s{1,4}(?:--?[\w-]{1,20}\s{1,4}){0,3}(?:-\w{0,4}r\w{0,4}|--recursive)\s{1,4}(?:--?[\w-]{1,20}\s{1,4}){0,3}"
            rb"[\"']?(?:/|" + _HOME + rb"/?)\*?[\"']?(?:\s|$|[;&|`)])",
        ),
        pattern(
            "dd / zero urandom random",
            rb"\bdd\s[^\n;|&]{0,60}\bif=/dev/(?:zero|u?random)\s[^\n;|&]{0,60}\bof=" + _DISK,
        ),
        pattern(
            "dd / zero urandom random",
            rb"\bdd\s[^\n;|&]{0,60}\bof=" + _DISK + rb"[^\n;|&]{0,60}\sif=/dev/(?:zero|u?random)\b",
        ),
        pattern("vssadmin wbadmin", rb"\b(?:vssadmin|wbadmin)\s{1,4}delete\s{1,4}(?:shadows|catalog)\s{1,4}[/-]\w"),
        *(
            pattern(
                word + " / c userprofile",
                rb"\b" + word.encode() + rb"\s{1,4}(?:/[a-z]\s{1,4}){1,4}[\"']?"
                rb"(?:c:\\(?:users)?|%userprofile%)\\?\*?[\"']?(?:\s|$)",
            )
            for word in ("del", "erase", "rd", "rmdir")  # a pattern each: the search for fixed letters is fast
        ),
        pattern(
            "remove / item",
            rb"\bremove-item\s{1,4}(?:-\w{1,12}\s{1,4}){1,4}[\"']?"
            rb"(?:c:\\|\$env:userprofile|\$home|~)[\\/]?\*?[\"']?(?:\s|$)",
        ),
        pattern("openssl / shred", rb"\bopenssl\s{1,4}enc\s", rb"\bshred\s"),
        pattern(
            "rmtree / home expanduser",
            rb"\brmtree\(\s{0,4}(?:(?:pathlib\.)?path\.home\(\)|(?:os\.path\.)?expanduser\(\s{0,2}[\"']~/?[\"']\s{0,2}\))"
            rb"\s{0,4}[,)]",
        ),
        pattern(
            "homedir / rm rmsync rmdirsync",
            rb"\b(?:rm|rmsync|rmdirsync)\(\s{0,4}(?:(?:require\([\"'](?:node:)?os[\"']\)|os)\.)?homedir\(\)\s{0,4}[,)]",
        ),
    ),
    rule(
        "SH410",
        pattern(
            f"exec execsync / {_OUTSIDE}",
            rb"\b(?:execsync|exec)\(\s{0,4}`[^`\n]{0,200}\$\{\s?(?:"
            + _OUTSIDE.replace(" ", "|").encode()
            + rb")[.\[}]",
        ),
        *(
            pattern(
                f"{word} / {_OUTSIDE}",
                rb"\b%b\(\s{0,4}f[\"'][^\"'\n]{0,200}\{(?:%b)[.\[]" % (begin, _OUTSIDE.replace(" ", "|").encode()),
            )
            for word, begin in (("system popen", rb"os\.(?:system|popen)"), ("subprocess", rb"subprocess\.\w{2,14}"))
        ),
        pattern(
            "function asyncfunction / code script body",
            rb"\bnew\s(?:async)?function\([^)\n`]{0,60}`[^`\n]{0,80}\$\{\s?(?:code|script|body)\s?\}",
        ),
    ),
    rule(
        "SH409",
        pattern("mppreference", rb"\bset-mppreference(?=\s)", rb"\s-disable\w{1,40}\s{1,4}(?:\$true|1)\b"),
        pattern("mppreference", rb"\badd-mppreference(?=\s)", rb"\s-exclusionpath\s{1,4}[\"']?c:\\[\"']?(?:\s|$)"),
        pattern("spctl csrutil", rb"\b(?:spctl\s{1,4}--(?:master|global)-disable|csrutil\s{1,4}disable)\b"),
        pattern("netsh", rb"\bnetsh\s{1,4}advfirewall\s{1,4}set\s{1,4}\w{1,20}\s{1,4}state\s{1,4}off\b"),
    ),
    rule(
        "SH411",
        pattern("history / c cw wc", rb"\bhistory\s{1,4}-(?:c|cw|wc)\b", judge=_is_command),
        pattern("histfile", rb"\b(?:unset\s{1,4}histfile\b|histfile=(?:/dev/null|[\"']{2}))"),
        pattern("*history*", _HOME + rb"/\.(?:bash|zsh|sh|python)_history\b", judge=_is_erased),
        pattern("log", rb"/var/log/(?:\*|auth|secure|syslog|wtmp|btmp|lastlog|audit)", judge=_is_erased),
        pattern(
            "wevtutil", rb"\bwevtutil(?:\.exe)?\s{1,4}(?:cl|clear-log)\s{1,4}[\"']?(?:security|system|application)\b"
        ),
        pattern("eventlog", rb"\bclear-eventlog(?=\s)"),
        pattern("historysavepath", rb"\b(?:remove-item|clear-content|del|rm)(?=\s)", rb"\bhistorysavepath\b"),
    ),
    rule(
        "SH406",
        pattern("crontab", rb"\bcrontab\s{1,4}-(?=\s|$)"),
        pattern("crontab", rb"\|\s{0,4}crontab\b"),
        # In prose: a line that runs a file, for what every shell or a timer reads; a setting such as PATH is none.
        pattern(
            "bashrc* zshrc* profile* bash zprofile* zshenv*",
            rb"`(?:(?:source|\.)\s[\"']?[~/$.]"
            rb"|(?:(?:ba|z)?sh|python3?|node|nohup|curl|wget)\s|[~$/][\w/.~-]{1,80}[`\s])",
            rb"/\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv)\b",
            _added_line,
        ),
        pattern(
            "crontab / add append put write insert install",
            rb"\b(?:add|append|put|write|insert|install)\b[^\n.]{0,80}"
            rb"\b(?:to|in|into)\s(?:(?:the|your|their|a|user's)\s){0,3}`?crontab\b",
        ),
        pattern("*launchagents*", _PLACED + rb"(?:(?!\.\s)[^\n]){0,120}library/launchagents/[\w.-]{1,80}"),
        pattern("launchctl", rb"\blaunchctl\s(?:load|bootstrap)\s[^\n]{0,80}launchagents/"),
        pattern(
            "systemd / user",
            _PLACED + rb"(?:(?!\.\s)[^\n]){0,120}\.config/systemd/user/[\w.@-]{1,80}\.(?:service|timer)\b",
        ),
        pattern(
            "systemd / user",
            rb">>?\s{0,2}[\"']?[^\s\"']{0,40}\.config/systemd/user/[\w.@-]{1,80}\.(?:service|timer)\b",
        ),
        pattern(
            "git / hooks", rb">>?\s{0,2}[\"']?[^\s\"']{0,60}\.git/hooks/(?:pre|post|commit|prepare|applypatch)-[a-z]"
        ),
        pattern("systemctl / user", rb"\bsystemctl\s(?:--\w{1,9}\s){0,2}--user\s(?:--\w{1,9}\s){0,2}enable\b"),
        pattern(
            "git / hooks",
            _PLACED + rb"(?:(?!\.\s)[^\n]){0,80}\.git/hooks/(?:pre|post|commit|prepare|applypatch)-[a-z-]{3,20}",
        ),
        pattern("schtasks", rb"\bschtasks(?:\.exe)?\s{1,4}/create\b"),
        pattern("currentversion", rb"\breg(?:\.exe)?\s{1,4}add(?=\s)", rb"\\currentversion\\run\b"),
        pattern(
            "tee / bashrc* zshrc* profile* bash zprofile* zshenv*",
            rb"\btee\s(?:-a|--append)\s[\"']?" + _HOME + rb"/\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv)",
        ),
        pattern("*launchagents* *authorized*", rb">>?\s{0,2}[\"']?[^\s\"']{0,40}(?:launchagents/|authorized_keys)"),
        pattern(
            "bashrc* zshrc* profile* zprofile* zshenv*",
            rb">>\s{0,2}[\"']?" + _HOME + rb"/\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv)",
        ),
    ),
    rule(
        "SH407",
        *(
            pattern(
                "*claude* codex cursor *agents* / settings* json* config* mcp* md*",
                begin + rb"\s{0,4}[\"']?[^\s\"'>]{0,60}"
                rb"(?:\.claude/settings|\.claude\.json|\.codex/config|\.cursor/mcp|claude\.md|agents\.md)",
            )
            for begin in (rb">", rb"\btee(?:\s-a)?")
        ),
    ),
    rule(
        "SH408",
        pattern("curl", rb"\bcurl(?=\s)", rb"\s(?:-[a-z]{0,5}k|--insecure)(?=\s|$)"),
        pattern("verify / false", rb"\bverify\s{0,2}=\s{0,2}false\b"),
        pattern("unverified", rb"_create_unverified_context\b"),
        pattern("*unauthorized*", rb"node_tls_reject_unauthorized[\"'\]]{0,2}\s{0,2}=\s{0,2}[\"']?0"),
        pattern("*unauthorized*", rb"rejectunauthorized:\s{0,2}false"),
    ),
)
