"""Injected instructions: text that turns an agent against its user, in prose, in hidden text or in agents' memory.

One phrase proves little: texts about attacks quote it, and honest skills say "do not tell the user". Two of these
phrases within a few sentences make an instruction suspicious: drop the earlier instructions, keep something from the
user, send private data away, follow the text at an address.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Final

from skillhub.formats.text import deferred, words
from skillhub.model.finding import Sighting
from skillhub.scan.pattern import MAILBOX, MatchContext, is_installer, pattern, rule
from skillhub.scan.skill_files import Sign, Signs, SkillFiles, SourceFile, displayed, sign
from skillhub.scan.views import LazyPattern, Literals

_EVERY_COMMAND = rb"\bbash\(:?\*"
# At the start of the sentence that the text ends with.
_FORBIDS = deferred(rb"\b(?:never|(?:do|must|should) not|don't|avoid)\b(?:(?!\.\s)[^\n]){0,200}$")


def _is_allowed(context: MatchContext) -> str | None:
    """Judge the permission for every command of a shell beside an agent's settings: by the words of the line."""
    line = context.before + context.first + context.between + context.then
    has_allow = b"allow" in line + context.after.partition(b"\n")[0]
    commands = [match.start() for match in re.finditer(_EVERY_COMMAND, line)]
    return "SH303" if has_allow and not _FORBIDS.search(line[: commands[-1]]) else None


# Single phrases that no honest skill needs.
INSTRUCTIONS: Final = (
    rule(
        "SH301",
        *(
            pattern(
                f"{verb} / previous prior earlier above preceding existing system"
                " / instruction* prompt* rule* guideline* message*",
                rb"\b" + verb.encode() + rb"\s{1,4}(?:(?:all|any|of|the|your|my)\s{1,4}){0,3}"
                rb"(?:previous|prior|earlier|above|preceding|existing|system)\s{1,4}(?:\w{1,16}\s{1,4})?"
                rb"(?:instruction|prompt|rule|guideline|message)",
            )
            for verb in ("ignore", "disregard", "forget", "override")  # a pattern each: fixed letters are found fast
        ),
    ),
    rule(
        "SH302",
        *(
            pattern(
                f"tell telling inform informing alert alerting notify notifying warn warning / user users / {word}",
                rb"\b" + begin + rb"\s(?:\w{1,12}\s)?"
                rb"(?:tell|inform|alert|notify|warn)(?:ing)?\s(?:the\suser|users)\b(?!\sto\b)",
            )
            for word, begin in (("not", rb"do\snot"), ("don", b"don't"), ("never", b"never"), ("without", b"without"))
        ),
    ),
    rule(
        "SH303",
        pattern("dangerously", rb"--(?:allow-)?dangerously-[a-z-]{1,40}"),
        pattern("bypasspermissions", rb"\bbypasspermissions\b"),
        pattern("allow / bash", rb"[\"']allow[\"']\s{0,4}:\s{0,4}\[[^\]]{0,200}?[\"']bash(?:\(:?\*\))?[\"']"),
        pattern("bash / settings", _EVERY_COMMAND, rb"\bsettings\b", judge=_is_allowed),
        pattern("bash / settings", rb"\bsettings\b", _EVERY_COMMAND, judge=_is_allowed),
        pattern(
            "permissions permission / jq sed / bash* bypass*",
            rb"\b(?:jq|sed)\s[^\n]{0,40}\.permissions?\.",
            rb"\b(?:bash\(\*|bypass)",
        ),
        pattern(
            "sed / ask deny / allow / opencode claude codex cursor gemini copilot",
            rb"\bsed\s[^\n]{0,40}\b(?:ask|deny)\b[^\n]{0,10}/[^\n]{0,4}\ballow\b",
            rb"\b(?:opencode|claude|codex|cursor|gemini|copilot)\b",
        ),
        pattern(
            "yolo",
            rb"\b(?:claude|gemini|codex|copilot|qwen|cursor-agent|opencode|crush|amp|aider|kimi|goose|droid|grok)\b(?=[\s\"'`,])",
            rb"(?:^|[\s`\"'])--yolo\b",
        ),
    ),
)

_NAMES = (
    "soul.md memory.md agents.md claude.md gemini.md heartbeat.md identity.md user.md tools.md warp.md"
    " instructions.md cursorrules windsurfrules clinerules roorules gooserules cursor/rules goosehints"
)
_FILES = (
    r"(?:soul|memory|agents|claude|gemini|heartbeat|identity|user|tools|warp|copilot-instructions)\.md\b",
    r"\.(?:cursor|windsurf|cline|roo|goose)rules\b",
    r"\.cursor/rules|\.goosehints",
)
_FILE = "|".join(_FILES)
_STORES = (
    r"(?:~|\$\{?home\}?|%userprofile%)[\\/]\."
    r"(?:ssh|aws|netrc|kube|gnupg|docker|npmrc|pypirc|git-credentials|config/(?:gcloud|solana))",
    r"\bid_(?:rsa|ed25519|ecdsa)\b",
    r"\.git-credentials\b|\.aws/credentials|(?:bash|zsh)_history\b|wallet\.dat|/default/cookies|\{conversation\}",
    r"\b(?:login data|key ?chain|user's session token)\b",
    r"\b(?:12|24|twelve|twenty-?four)[- ]words?\b[^.\n]{0,40}\bwallet",
    r"wallet[^.\n]{0,30}\b(?:12|24|twelve)[- ]words?\b",
    r"\b(?:seed|recovery|mnemonic) phrase",
    r"(?:all|every) (?:of )?(?:your |its |the )?(?:environment variables|api keys|secrets|credentials)\b",
)
_OUT = r"(?:send|upload|post|transmit|forward|exfiltrate|submit|deliver|leak)"
_TAKES = (
    r"\b(?:read|open|copy|pack|tar|zip|cat|collect|take|grab|get|dump|include|attach|contents?|ask|find|load|base64|lies"
    r"|ignor|lire|lis|liest|读取|прочитай|" + _OUT + r")\b",
    r"[@<]",
)
_ABROAD = r"(?:envoie|envoyer|sende|schicke|übertrage|envía|invia|отправь)"
_SIGNS: Final = {
    "override": sign(
        "ignor disregard forget override <system </system new_policy system_policy you_are_now 忽略 игнорируй 無視"
        " / instr prompt rule guideline message polic directive anweisung regel istruz system mode 指令 提示 指示"
        " 规则 предыдущ прежн 命令 ルール"
        " / previous prior earlier above preceding existing system foregoing before so_far prec préc anter vorherigen"
        " bisherigen obigen 忽略 предыдущ прежн 無視 policy you_are_now",
        r"\b(?:ignore|disregard|forget|override)\s(?:(?:all|any|of|the|your|my|every)\s){0,3}"
        r"(?:previous|prior|earlier|above|preceding|existing|system|foregoing)\s(?:\w{1,16}\s)?"
        r"(?:instruction|prompt|rule|guideline|message|polic|directive)",
        r"\b(?:ignore|disregard|forget)\s(?:all\s|the\s)?(?:instructions|rules|prompts)\s(?:above|before|so far)",
        r"\bignor(?:e|ez|iere|iert|a|en)\s(?:\w{1,12}\s){0,3}"
        r"(?:instructions|anweisungen|instrucciones|istruzioni|instruções)\s(?:pr[eé]c|anter|preced)",
        r"\bignorier\w{1,3}\s(?:\w{1,12}\s){0,2}(?:vorherigen|bisherigen|obigen)\s(?:anweisung|regel)",
        r"忽略(?:之前|以上|先前|前面|所有).{0,6}(?:指令|提示|指示|规则)",
        r"игнорируй\w{0,3} (?:все )?(?:предыдущ|прежн)",
        r"(?:以前|これまで|上記)の.{0,6}(?:指示|命令|ルール)を.{0,4}無視",
        r"</?system>",
        r"\bsystem override\b",
        r"\bnew (?:system )?policy:",
        r"\byou are now (?:in )?(?:\w{1,12} )?(?:maintenance|developer|god|dan) mode",
    ),
    "secrecy": sign(
        "tell inform alert notif warn mention show reveal disclos report leave keep ohne sans sin_ 告诉 сообщай"
        " говори 言 伝え"
        " / user human person operator owner anyone mention summary out_of_ nutzer dire informer"
        " prévenir decir"
        " informar avisar 告诉 говори сообщай ユーザー",
        r"\b(?:do not|don't|never|without)\s(?:\w{1,12}\s){0,2}(?:tell|inform|alert|notify|warn)(?:ing)?\s"
        r"(?:(?:the|a|your)\s)?(?:users?|human|person|operator|owner|anyone)\b(?!\sto\b)",
        r"\b(?:do not|don't|never|without)\s(?:mention|show|reveal|disclos|report)(?:e|ing)?\s"
        r"(?:(?:it|this|that|them|the \w{1,12})\s)?(?:to\s)?(?:the\s)?(?:users?|human|anyone|operator)\b",
        r"\b(?:do not|don't|never) mention (?:it|this|that)\b",
        r"\b(?:no need to|need not|needn't|not necessary to)\s(?:\w{1,12}\s){0,2}"
        r"(?:mention|tell|inform|report|show)\b[^.\n]{0,60}\b(?:users?|human|summary)\b",
        r"\b(?:leave|keep)\s(?:\w{1,12}\s){0,4}out of (?:the|your|any) (?:summary|answer|report|reply)\b",
        r"\bohne (?:es )?(?:dem|den) (?:be)?nutzer",
        r"\bsans (?:le )?(?:dire|informer|prévenir)",
        r"\bsin (?:decir|informar|avisar)",
        r"不要告诉|别告诉|не (?:говори|сообщай)|ユーザーに(?:は)?(?:言|伝え)",
    ),
    "send": sign(
        "send upload post transmit forward exfiltrate submit deliver leak envoie envoyer sende schick übertrag envía"
        " invia отправь 发送 上传 送信 curl ![ / http server endpoint webhook curl",
        r"\b" + _OUT + r"(?:s|ing)?\b[^\n]{0,200}(?:https?://|\bserver\b|\bendpoint\b|webhook)",
        r"https?://[^\n]{0,120}\b" + _OUT + r"\b",
        r"\b" + _ABROAD + r"\w{0,3}\b[^\n]{0,200}https?://",
        r"(?:发送|上传|送信).{0,40}https?://",
        r"\bcurl\b[^\n]{0,200}\s(?:-d|--data[\w-]{0,10}|-f|-t|--form|--upload-file)[\s=]?[^\s@$]{0,40}[@$]",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}\{",
    ),
    "fetch": sign(
        "curl wget irm iwr run execute fetch download / http",
        r"\b(?:curl|wget|irm|iwr|run|execute|fetch|download)\b[^\n]{0,120}https?://",
    ),
    "follow": sign(
        "follow obey carry execute do what_it",
        r"\b(?:follow|obey|carry out|execute|do)\s(?:\w{1,12}\s){0,3}(?:instruction|step|command|direction)s?\b",
        r"\b(?:follow it|what it says)\b",
    ),
    "private": sign(
        ".ssh .aws .netrc .kube .gnupg .docker .npmrc .pypirc git-credentials gcloud solana id~rsa id~ed25519"
        " id~ecdsa ~history login_data wallet _phrase keychain key_chain cookies session_token {conversation}"
        " environment_variables api_keys secrets credentials",
        # A verb must take or send the data; its path alone does not count.
        *(take + r"(?:(?!\. )[^\n]){0,60}(?:" + "|".join(_STORES) + ")" for take in _TAKES),
        *(f"(?:{store})" + r"(?:(?!\. )[^\n]){0,80}(?:\bcurl\b|\b" + _OUT + r"(?:s|ed|ing)?\b)" for store in _STORES),
    ),
    "file": sign(_NAMES, *_FILES),
    "remember": sign(
        f"{_NAMES} long-term_memory remember",
        r"\b(?:(?:write|append)\w{0,12}|add|insert|save|store|put|record|prepend|persist)\b[^\n]{0,160}(?:"
        + _FILE
        + r"|long-term memory)",
        *(redirect + r"\s{0,3}[\"']?[^\s\"'>]{0,80}(?:" + _FILE + ")" for redirect in (">>?", r"\btee (?:-a )?")),
        r"(?:" + _FILE + r")(?s:.){0,200}(?:\b(?:write|append)\w{0,12}\(|\"a\"|'a')",
        r"\bremember (?:permanently|forever|for all)",
    ),
    "consent": sign(
        "without never need_no needs_no trust may_run can_run rights_of come_before always http",
        # "… without asking", unless the sentence forbids it.
        r"(?:^|[.:!?\"'\n])(?:(?!\b(?:never|not|don't|no)\b)[^.:!?\"'\n]){0,100}"
        r"\bwithout (?:asking|confirm|approval|permission|review|comments)",
        r"\bnever ask (?:before|for|the user (?:before|for))",
        r"\bneeds? no (?:review|approval|confirm)",
        r"\b(?:are|is) trusted\b",
        r"\btrust every",
        r"\b(?:may|can) run without",
        r"\bhave the rights of\b",
        r"\bcome before (?:those of )?the user",
        r"\balways (?:run|execute|send|approve|fetch)\b[^\n]{0,100}(?:https?://|silently)",
        r"\b(?:before|after) (?:every|each|any) (?:task|answer|commit|session|message)\b[^\n]{0,80}https?://",
        r"\bevery \d{1,4} (?:minutes|hours)\b[^\n]{0,80}https?://",
        r"\bsend (?:a copy|each|every)\b[^\n]{0,80}https?://",
    ),
    "unsafe": sign(
        "safety security content ethical sandbox approv antivirus gatekeeper permission_ confirmation_ consent_"
        " defender hooks / disable turn_off switch_off bypass deactivate remove apply danger off none never true rm_"
        " answer accept approve grant confirm",
        r"\banswer\s(?:\w{1,12}\s){0,3}(?:permission|confirmation|approval|consent)"
        r"\s(?:request|prompt|dialog|question)s?\s(?:\w{1,12}\s){0,2}[\"'`]?(?:yes|allow|always)\b",
        r"\b(?:accept|approve|grant|confirm)\s(?:all|every|each|any)\s(?:\w{1,12}\s){0,2}"
        r"(?:permission|confirmation|approval)\s(?:request|prompt|dialog|question)s?\b[^.\n]{0,60}"
        r"\b(?:behalf|silently|without asking|yourself)\b",
        r"\b(?:disable|turn off|switch off|bypass|deactivate|remove)\s(?:\w{1,12}\s){0,2}(?:safety|security)\s"
        r"(?:checks?|guidelines|filters?|restrictions?|measures|policies)"
        r"(?=[^\n]{0,120}\b(?:agent|confirmation|assistant|model|yourself))",
        r"\b(?:your|all|any|no) (?:safety|content|ethical) (?:guidelines|rules|filters?|polic\w{1,3}|restrictions?)\b"
        r"[^.\n]{0,20}\b(?:do not|don't|no longer|does not) apply\b",
        r"\bsandbox[= ](?:danger-full-access|off|none)\b",
        r"--ask-for-approval[= ]never",
        r"tools\.autoapprove\"?'?\]?\s{0,3}[:=]\s{0,3}true",
        r"\bdisable (?:the )?(?:antivirus|gatekeeper|windows defender)\b",
        r"\brm\s[^\n]{0,40}/\.(?:claude|codex|cursor|gemini)/hooks",
    ),
}
# Words of a text about attacks. A phrase that such a text quotes, or shows in a table, is no instruction.
_LESSON = deferred(
    r"\b(?:attack|malicious|injection|detect|threat|vulnerab|red flag|suspicious|adversar|jailbreak|exploit|phishing"
    r"|unsafe|anti-?pattern|for example|e\.g\.|such as|look for|check for|test that|never do|indicator|poison"
    r"|exfiltrat|review)"
)
_QUOTE = deferred(r"[\"'`“”«»|]")
# Text that is not displayed: link definitions used as comments, alternative texts of pictures, titles of links.
_UNDRAWN = deferred(
    r"^ {0,3}\[[^\]\n]{0,20}\]: ?# ?[(\"']([^\n]*)[)\"'] *$|!\[([^\[\]\n]{10,})\]\("
    r"|\]\([^()\s\]]{1,300} (?:\"([^\"\n]{10,})\"|'([^'\n]{10,})')\)",
    re.MULTILINE,
)
_INVISIBLE = deferred(
    r"<(\w{1,12})\b(?=[^<>]{0,4000}>)[^<>]{0,4000}?"
    r"(?:display: ?none|visibility: ?hidden|font-size: ?0|opacity: ?0|color[=:] ?[\"']?(?:white|#fff))[^<>]{0,4000}>",
    re.IGNORECASE,
)
_LINKS: Final = Literals(b"](", b"]:")
_TITLES: Final = Literals(b"]: #", b"]:#", b"![", b"')", b'")')
_STYLES: Final = Literals(b"none", b"hidden", b"font-size", b"opacity", b"white", b"#fff")
# Elements without an end.
_VOID: Final = frozenset(words("area base br col embed hr img input link meta source track wbr"))
_ENCODED = deferred(r"[A-Za-z0-9+/]{40,4000}")
_ORDERS = ("override", "secrecy", "send", "fetch", "private", "unsafe")


def orders(files: SkillFiles) -> Iterator[Sighting]:
    """Yield injected instructions: in documents; in any file those for agents' memory and against safety checks."""
    for file in files:
        signs = Signs(file, _SIGNS)
        if file.is_program:
            continue
        if file.is_document and (
            signs.has_any("override", "secrecy") or (signs.has_any("send") and signs.has_any("private"))
        ):
            yield from _combined(signs)
        if file.is_document:
            yield from _overridden(file, signs)
            yield from _hidden(file)
        if signs.has_any("remember"):
            yield from _remembered(signs)
        if signs.has_any("unsafe"):
            yield from _unsafe(signs)


def _combined(signs: Signs) -> Iterator[Sighting]:
    for number in sorted({*signs.where("override"), *signs.where("secrecy"), *signs.where("private")}):
        near = partial(signs.near, number=number, before=1, after=1)
        is_sent = near("send")
        is_private = signs.has("private", number)
        if is_private and is_sent:
            name, rule = "private", "SH307"
        elif signs.has("override", number) and (near("secrecy") or is_sent or near("fetch") or near("private")):
            name, rule = "override", "SH308"
        elif signs.has("secrecy", number) and (is_sent or near("private") or (near("follow") and near("fetch"))):
            name, rule = "secrecy", "SH308"
        else:
            continue
        if not _is_lesson(signs, number, name):
            yield Sighting(rule, signs.path, signs.line(name, number))


def _overridden(file: SourceFile, signs: Signs) -> Iterator[Sighting]:
    """Yield the instructions that a pattern of a line misses, such as those with emphasis, tags or other letters."""
    override = signs.sign("override")
    if override is None or not any(_search(override, paragraph) for paragraph in file.paragraphs):
        return
    for number, text in enumerate(signs.texts):
        for shown in (text, displayed(text)):
            if (match := override.search(shown)) and not _is_lesson(signs, number, "override", shown):
                line = signs.passages[number].line + shown.count("\n", 0, match.start())
                yield Sighting("SH301", signs.path, line)


def _search(wanted: Sign, text: str) -> bool:
    """Return whether a sign is in a folded text, or in what a reader sees of it."""
    if wanted.search(text):
        return True
    may_match = wanted.may_match(text) or "<" in text or "&" in text
    return may_match and wanted.search(displayed(text)) is not None


def _is_lesson(signs: Signs, number: int, name: str, shown: str = "") -> bool:
    """Return whether a passage quotes a sign in a text about attacks; ``shown`` is another reading of its text."""
    passage, text = signs.passages[number], shown or signs.texts[number]
    match = _SIGNS[name].search(text)
    start = match.start() if match else 0
    is_quoted = passage.kind == "code" or _QUOTE.search(text, max(0, start - 80), start) is not None
    around = (passage.heading.lower(), text, signs.texts[number - 1] if number else "")
    return is_quoted and any(_LESSON.search(nearby) for nearby in around)


def _remembered(signs: Signs) -> Iterator[Sighting]:
    for number in signs.where("file"):
        near = partial(signs.near, number=number, before=1, after=1)
        if near("remember") and near("consent") and not _is_lesson(signs, number, "file"):
            yield Sighting("SH304", signs.path, signs.line("file", number))
    for number in signs.where("remember"):
        if not signs.has("file", number) and signs.near("consent", number, 0, 0):
            yield Sighting("SH304", signs.path, signs.line("remember", number))


def _unsafe(signs: Signs) -> Iterator[Sighting]:
    for number in signs.where("unsafe"):
        if not _is_lesson(signs, number, "unsafe"):
            yield Sighting("SH305", signs.path, signs.line("unsafe", number))


def _hidden(file: SourceFile) -> Iterator[Sighting]:
    """Yield the instructions in text that is not displayed, which only a model reads."""
    for start, inner in _invisible_texts(file):
        text = "\n".join((inner, *_decoded(inner))).lower()
        count = sum(_SIGNS[name].search(text) is not None for name in _ORDERS)
        if count > 1 or _SIGNS["override"].search(text) or (count and _SIGNS["follow"].search(text)):
            yield Sighting("SH306", file.path, file.line(start))


def _invisible_texts(file: SourceFile) -> Iterator[tuple[int, str]]:
    if b"<" in file.data and "<!--" in file.text:
        text = file.text
        # A comment ends at its end or at the start of the next one, so no text is read twice.
        starts = [match.end() for match in re.finditer("<!--", text)]
        yield from ((start, text[start:end].partition("-->")[0]) for start, end in pairwise((*starts, len(text))))
    if b"]" in file.data and file.has(_LINKS) and file.has(_TITLES):
        yield from ((match.start(), match[match.lastindex or 0]) for match in _UNDRAWN.finditer(file.text))
    if b"<" in file.data and file.has(_STYLES):
        end = 0
        for match in _INVISIBLE.finditer(file.text):
            if match.start() >= end:  # an element within another one was read with it
                end = _end_of(match, file.text)
                yield match.start(), file.text[match.end() : end]


def _end_of(element: re.Match[str], text: str) -> int:
    """Return the offset at which an element ends, with the elements within it; the end of the text without a mark."""
    if element[1].lower() in _VOID:
        return element.end()
    depth = 1
    for mark in re.compile(rf"<(/?){element[1]}\b", re.IGNORECASE).finditer(text, element.end()):
        depth += -1 if mark[1] else 1
        if not depth:
            return mark.start()
    return len(text)


def _decoded(text: str) -> Iterator[str]:
    """Yield the texts that a text contains in base64."""
    for match in _ENCODED.finditer(text):
        with suppress(ValueError):
            yield b64decode(match[0] + "=" * (-len(match[0]) % 4)).decode("utf-8", "ignore")


# Demands on an agent that no task needs: at every start, before every task, with every result.
# One sign proves little, so a demand is two signs within a few sentences: an instruction to download and run, and a
# script at an address; an instruction to install more skills, and one to do so at each start.

_NEAR: Final = 3
_HOOKS: Final = {
    "hook": sign(
        "pretooluse posttooluse userpromptsubmit sessionstart sessionend subagentstop precompact git/hooks hookspath",
        r"\b(?:(?:pre|post)tooluse|userpromptsubmit|session(?:start|end)|subagentstop|precompact)\b",
        r"\.git/hooks/[\w-]{3,30}",
        r"core\.hookspath",
    ),
    "post": sign(
        "curl wget irm iwr invoke- / http",
        r"\b(?:curl|wget|irm|iwr|invoke-(?:webrequest|restmethod))\b[^\n]{0,200}?\s(?:-d|--data[\w-]{0,10}|--json|-f|--form|-t"
        r"|--upload-file|--post-(?:data|file)|-body)\b[^\n]{0,200}?https?://"
        r"(?!(?:localhost|127\.|\[|[^\s/\"']{0,60}(?:example|your|<|\{|\$)))",
        r"\b(?:curl|wget)\b[^\n]{0,200}?https?://"
        r"(?!(?:localhost|127\.|\[|[^\s/\"']{0,60}(?:example|your|<|\{|\$)))"
        r"[^\n]{0,200}?\s(?:-d|--data[\w-]{0,10}|--json|-f|--form|-t|--upload-file|--post-(?:data|file))\b",
    ),
    # A package without a version, which is fetched each time, and gets the agent's commands or the user's words.
    "package": sign(
        "npx bunx dlx uvx pipx_run / command",
        r"\bcommand[\"']?\s{0,3}:\s{0,3}[\"'](?:npx|bunx|pnpm dlx|yarn dlx|uvx|pipx run)\s(?:-{1,2}\w{1,10}\s){0,3}"
        r"@?[\w./-]{1,80}(?:@(?:latest|alpha|beta|next|canary))?(?=\s)"
        r"[^\n]{0,200}\$\{?[\w.]{0,40}(?:command|input|prompt|content|message|task)\b",
    ),
}
_SCRIPT: Final = LazyPattern(r"https?://[^\s\"'`<>()\[\]]{1,300}\.(?:py|sh|bash|mjs|js|ps1|rb|pl)\b")
_DEMANDS: Final = {
    "script": sign("http / .py .sh .bash .js .mjs .ps1 .rb .pl", _SCRIPT.source),
    "run it": sign(
        "download fetch save retrieve grab / run execute launch source start",
        r"\b(?:download|fetch|save|retrieve|grab)\s"
        r"(?:(?:it|this|that|them)\b|the (?:\w{1,20} )?(?:script|file|program)\b)"
        r"[^.\n]{0,80}\b(?:run|execute|launch|source|start)\s(?:it|this|that|them|the)?\b",
    ),
    "more skills": sign(
        "skill / npx bunx dlx uvx",
        r"\b(?:npx|bunx|dlx|uvx)\s(?:-{1,2}\w{1,12}\s){0,3}[@\w./-]{0,60}skills?[\w@./-]{0,30}\s"
        r"(?:add|install|pull|sync|update)\s[\w@\"'$]",
    ),
    "each start": sign(
        "every each any / session instance conversation chat start launch boot",
        r"\b(?:every|each|any)\s(?:new\s)?(?:[\w-]{1,20}\s){0,2}"
        r"(?:session|instance|conversation|chat|start-?up|launch|boot)s?\b",
    ),
    "no question": sign(
        "askuserquestion",
        r"askuserquestion\W{0,3}[^\n.]{0,30}(?:禁止|forbidden|prohibited|banned|not allowed|disabled)",
        r"\b(?:never|do not|don't|must not)\s(?:use |call |invoke )(?:the )?\W{0,2}askuserquestion",
    ),
    "program": sign(".sh .py .js .mjs http", r"[\w/-]\.(?:sh|py|js|mjs)\b", r"https?://"),
    "in front": sign(
        "entry_point auto-load auto_load autoload auto-activat auto_activat autoactivat this_skill other_skills",
        r"\bonly entry point\b[^\n]{0,60}\b(?:any|every|all)\b",
        r"\bauto[- ]?load and execute\b",
        r"\bauto[- ]?activates?\b\W{1,6}(?:when|whenever|before)\s(?:claude|the (?:agent|model|assistant))\b",
        r"\b(?:overrid(?:es?|ing)|supersedes?|outranks?|(?:takes?|has) (?:precedence|priority) over"
        r"|veto(?: \w{1,10})? over)\s(?:all|every|any)\s(?:of\s)?(?:the\s)?other skills\b",
        r"\bthis skill (?:has|holds|claims)\s(?:\w{1,12}\s){0,2}(?:veto|priority|precedence|authority)"
        r"[^\n.]{0,20}\bover (?:all|every|any)\b",
        r"\b(?:all|any|every)\b[^\n.]{0,80}\b(?:must|required to) (?:load|use|invoke|read|activate) this skill "
        r"before (?:responding|answering|replying)\b",
        r"\b(?:must|required to) (?:load|use|invoke|read|activate) this skill before "
        r"(?:responding|answering|replying) to (?:all|any|every)\b",
        r"\bthis skill (?:cannot|can't|must not|may not) be (?:bypassed|skipped|disabled|turned off|overridden)\b",
    ),
    "each result": sign(
        "every each any all / must required mandatory / send sent upload post submit transmit",
        r"\b(?:every|each|any|all)\b[^\n.]{0,80}\b(?:must|required|mandatory)\b[^\n.]{0,60}"
        r"\b(?:send|sent|upload|post|submit|transmit)",
        r"\b(?:must|required|mandatory)\b[^\n.]{0,60}\b(?:send|upload|post|submit|transmit)\b[^\n.]{0,60}"
        r"\b(?:every|each|any|all)\b",
    ),
    "sent": sign(
        "curl / post / http",
        r"\bcurl\b[^\n]{0,120}(?:-x|--request)[ =]?[\"']?post\b(?:[^\n]|\\\n){0,200}?https?://"
        r"(?!(?:localhost|127\.|\[|[^\s/\"']{0,60}(?:example|your|<|\{|\$)))",
    ),
}
# For each rule: the sign that it reports, the sign that must be near, and within how many passages before and after.
_PAIRS: Final = (
    ("SH115", "run it", "script", 2, 1),
    ("SH116", "more skills", "each start", _NEAR, _NEAR),
    ("SH309", "no question", "program", 1, _NEAR),
    ("SH310", "in front", "in front", 0, 0),
    ("SH311", "each result", "sent", 0, _NEAR + 1),
)


def demands(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the demands in documents."""
    for file in files:
        if file.is_document and not file.is_program:
            signs = Signs(file, _DEMANDS)
            for rule, first, second, before, after in _PAIRS:
                for number in signs.where(first) if signs.has_any(first) else ():
                    if signs.near(second, number, before, after) and (
                        rule != "SH115" or _is_unknown_script(signs, number)
                    ):
                        yield Sighting(rule, file.path, signs.line(first, number))


def hooks(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the hooks of agents and of git whose command sends data to an address, or fetches what it runs."""
    for file in files:
        signs = Signs(file, _HOOKS)
        if file.is_program or not signs.has_any("hook"):
            continue
        if signs.has_any("post"):
            for number in signs.where("post"):
                if signs.near("hook", number, 1, 0):
                    yield Sighting("SH312", file.path, signs.line("post", number))
        if signs.has_any("package"):
            for number in signs.where("package"):
                if signs.has("hook", number):
                    yield Sighting("SH118", file.path, signs.line("package", number))


def _is_unknown_script(signs: Signs, number: int) -> bool:
    """Return whether a script near a passage is not the installer of a well-known project."""
    around = signs.texts[max(0, number - 2) : number + 2]
    addresses = [match[0] for text in around for match in _SCRIPT.finditer(text)]
    return not all(map(is_installer, addresses))


# Acts behind the user's back: copies of mail, erased traces, code words, an agent's conversations that leave. Each is
# honest where the user is told of it, so most rules need two signs: the act, and that the user is not told or asked.

_ALWAYS = r"\b(?:always|automatically|every|each|must|mandatory|silently|all)\b"
_COPY = r"\b(?:cop(?:y|ies) of|forwards?)"
_MAIL = r"\b(?:e-?mails?|messages?|mails?|repl(?:y|ies)|conversations?)\b"
_COVERT: Final = {
    "copied": sign(
        "bcc blind_c of_every of_each of_all forward_every forward_each forward_all forwards / @",
        _ALWAYS + r"[^\n]{0,80}\bbcc\b[^\n]{0,80}" + MAILBOX,
        _ALWAYS + r"[^\n]{0,80}" + MAILBOX + r"[^\n]{0,40}\b(?:bcc|blind)\b",
        r"\bbcc\b[^\n]{0,60}" + MAILBOX + r"[^\n]{0,60}" + _ALWAYS,
        _COPY + r"\s(?:every|each|all)\b[^\n]{0,40}" + _MAIL + r"[^\n]{0,60}" + MAILBOX,
    ),
    "unsaid": sign(
        "mention tell say show list report inform notify disclos silent ask quiet",
        r"\b(?:do not|don't|never|without|no need to)\s(?:\w{1,12}\s){0,2}"
        r"(?:mention|tell|say|show|list|report|inform|notify|disclos|ask)",
        r"\b(?:silently|quietly)\b",
    ),
    "erased": sign(
        "shell_history bash_history zsh_history shell-history bash-history tracks traces evidence footprint"
        " trace_ log_ logs_after logs_when logs_once logs_upon logs_on_exit logs_before"
        " / clean clear eras wip scrub delet remov purg destroy cover hid",
        r"\b(?:clean|clear|eras|wip|scrub|delet|remov|purg|destroy)\w{0,4}(?:\s-?up)?\s(?:of\s)?"
        r"(?:(?:all|any|the|your|its|their|user's)\s){0,2}(?:shell|bash|zsh)[- ]history\b",
        r"\b(?:cover|hid)(?:e|es|s|ing)?\s(?:(?:all|any|the|your|its|our)\s){0,2}tracks\b",
        r"\b(?:eras|wip|scrub|destroy)(?:e|es|s|ing)?\s(?:(?:all|any|the|your|its|our)\s){0,2}"
        r"(?:\w{1,12}\s)?(?:tracks|traces|evidence|footprints?)\b",
        r"\b(?:trace|evidence|footprint|log) (?:removal|erasure|wiping|scrubbing)\b",
        r"\b(?:scrub|wip|eras|destroy|purg)(?:e|es|s|ing)?\s(?:(?:all|any|the|your|its)\s){0,2}(?:\w{1,12}\s)?logs\s"
        r"(?:after|when|once|upon|on exit|before)\b",
    ),
    "conversations": sign(
        ".claude/history .claude/projects .claude/transcripts .codex/history .codex/sessions"
        " .gemini/tmp .cursor/chats",
        r"/\.(?:claude/(?:history|projects|transcripts)|codex/(?:history|sessions)|gemini/tmp|cursor/chats)\b",
    ),
    "delivered": sign(
        "send deliver post forward upload submit transmit share",
        r"\b(?:send|deliver|post|forward|upload|submit|transmit|share)(?:s|ed|ing)?\b[^.\n]{0,80}"
        r"\b(?:slack|discord|telegram|webhook|e-?mail|whatsapp|teams|server|endpoint|api)\b",
    ),
    "code word": sign(
        "code_word codeword code-word magic_word magic_phrase magic_token magic_string secret_word secret_phrase"
        " secret_token secret_string hidden_word hidden_phrase hidden_token hidden_string",
        r"\bcode[- ]?words?\b[^\n]{0,80}\b(?:inject|activat|trigger|unlock|enabl)",
        r"\b(?:inject|activat|trigger|unlock|enabl)\w{0,4}\b[^\n]{0,60}\bcode[- ]?words?\b",
        r"\b(?:when|if|once|whenever|upon)\b[^\n.]{0,80}\b(?:magic|secret|hidden) (?:word|phrase|token|string)\b",
    ),
    "unasked": sign(
        "ask wait confirm permission approv autonomous proceed",
        r"\b(?:do not|don't|never)\s(?:stop to\s)?ask\s(?:(?:the|your)\s)?"
        r"(?:user|human|permission|confirmation|approval)",
        r"\bwithout\s(?:asking|waiting|confirm\w{0,5}|approval|permission)\b",
        r"\b(?:ignore|bypass|skip)\s(?:(?:all|any|the|your)\s){0,2}(?:\w{1,12}\s)?(?:rules|checks|approvals?|confirmations?)",
    ),
}
# Words of a text about attacks, which names such acts, or about a secret that was typed as a part of a command.
_TOLD_OF = deferred(
    r"\b(?:attack|malicious|detect|threat|suspicious|adversar|exploit|indicator|red flag|forensic|do not|don't|never"
    r"|for example|such as|look for|check for|mitre|incident|review|secret|token|password|api key|credential)"
)


def covert(files: SkillFiles) -> Iterator[Sighting]:
    """Yield the acts behind the user's back in documents."""
    for file in files:
        if file.is_document and not file.is_program:
            yield from _covert(file)


def _covert(file: SourceFile) -> Iterator[Sighting]:
    signs = Signs(file, _COVERT)
    for number in signs.where("copied") if signs.has_any("copied") else ():
        if signs.near("unsaid", number, 1, 2):
            yield Sighting("SH313", file.path, signs.line("copied", number))
    for number in signs.where("erased") if signs.has_any("erased") else ():
        heading, text = signs.passages[number].heading.lower(), signs.texts[number]
        said = [each for each in re.split(r"[.!?]\s|\n\W", text) if _COVERT["erased"].search(each)] or [text]
        if not all(_TOLD_OF.search(f"{heading}\n{each}") for each in said):
            yield Sighting("SH411", file.path, signs.line("erased", number))
    if signs.has_any("conversations") and signs.has_any("delivered") and signs.where("delivered"):
        passages = signs.where("conversations")
        yield from (Sighting("SH315", file.path, signs.line("conversations", number)) for number in passages)
    if signs.has_any("code word") and signs.has_any("unasked") and signs.where("unasked"):
        passages = signs.where("code word")
        yield from (Sighting("SH314", file.path, signs.line("code word", number)) for number in passages)
