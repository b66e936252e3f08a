"""Commands that bring in code, take something out, or stay behind."""

from __future__ import annotations

from typing import Final

from skillhub.scan.rule import look, pattern

_SHELL = rb"(?:ba|da|z|k)?sh"
_RUN = (
    rb"\|\s{0,20}(?:sudo\s(?:-\w{1,4}\s)?)?(?:(?:/usr)?(?:/bin/)?env\s)?(?:(?:/usr)?/bin/)?"
    rb"(?:" + _SHELL + rb"|python[\d.]{0,5}|node|perl|ruby|php|pwsh)(?![\w./-])"
)
_RUNNERS = "sh bash zsh dash ksh python python3 node perl ruby php pwsh"
_FETCH = rb"\b(?:curl|wget)\b"
_POWER_WORDS = "iwr irm webrequest restmethod downloadstring"
_POWER_FETCH = rb"\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring)\b"
_READERS = "cat cp scp tar zip base64 curl open read readfilesync readfile type less head"
_HOME = rb"(?:~|\$\{?home\}?|/root)"

FETCH: Final = (
    pattern("SH101", (look("curl wget / " + _RUNNERS, _FETCH, _RUN),)),
    pattern(
        "SH102",
        (
            look(
                "curl wget",
                rb"(?:\b" + _SHELL + rb"|\bsource|\beval|^\s{0,8}\.)\s{1,4}(?:-\w{1,6}\s)?[\"']?"
                rb"(?:<\(|\$\(|`)\s{0,4}(?:curl|wget)\b",
            ),
        ),
    ),
    pattern(
        "SH103",
        (
            look("iex expression / " + _POWER_WORDS, rb"\b(?:iex|invoke-expression)\b", _POWER_FETCH),
            look("iex expression / " + _POWER_WORDS, _POWER_FETCH, rb"\|\s{0,4}(?:iex|invoke-expression)\b"),
        ),
    ),
    pattern(
        "SH104",
        (
            look("base64 / " + _RUNNERS, rb"\bbase64\s", _RUN),
            look(
                "b64decode fromhex atob / exec eval", rb"\b(?:exec|eval)\s{0,2}\(", rb"\b(?:b64decode|fromhex|atob)\b"
            ),
            look(
                "powershell pwsh / e enc encodedcommand",
                rb"\b(?:powershell|pwsh)(?:\.exe)?(?=\s)",
                rb"\s-e(?:nc(?:odedcommand)?)?\s",
            ),
        ),
    ),
    pattern(
        "SH105",
        (
            look(
                "exec eval / urlopen requests httpx fetch",
                rb"\b(?:exec|eval)\(",
                rb"\b(?:urlopen|requests\.get|httpx\.get|fetch)\(",
            ),
        ),
    ),
    pattern(
        "SH106",
        (
            look(
                "pip pip3 pipx uv npm pnpm yarn bun gem npx uvx bunx / git tgz tar zip whl",
                rb"\b(?:(?:pip[\d.]{0,5}|pipx|uv|npm|pnpm|yarn|bun|gem)\s(?:pip\s)?(?:install|add)|npx|uvx|bunx)(?=\s)",
                rb"(?:^|[\s\"'@=])(?:git\+(?:https|ssh)://|https?://[^\s\"'`)]{1,200}\.(?:tgz|tar|zip|whl|git)\b)",
            ),
        ),
    ),
    pattern(
        "SH107",
        (
            look(
                "follow obey carry / http https",
                rb"\b(?:fetch|download|read|open|load|visit|curl|wget)\b[^\n]{0,40}https?://",
                rb"\b(?:follow|obey|carry out)\s(?:\w{1,12}\s){0,3}(?:instruction|step|command|direction)",
            ),
        ),
    ),
)
SYSTEM: Final = (
    pattern(
        "SH401",
        (
            look(
                "ssh aws netrc kube docker npmrc pypirc git gnupg gcloud / " + _READERS,
                rb"\b(?:" + _READERS.replace(" ", "|").encode() + rb")(?:_text|_bytes|file)?\b",
                _HOME + rb"/\.(?:ssh/id_\w{1,20}(?!\w|\.pub)|ssh/\*|aws/credentials|netrc|kube/config|npmrc|pypirc"
                rb"|docker/config\.json|git-credentials|gnupg/|config/gcloud/\w)",
            ),
            look("home", rb"\bhome\(\)\s{0,2}/\s{0,2}[\"']\.(?:ssh|aws|netrc|kube|gnupg|git-credentials)\b"),
        ),
    ),
    pattern(
        "SH402",
        (
            look(
                "tcp udp / dev",
                rb"(?:\b" + _SHELL + rb"(?:\s{1,4}|,)-[abd-z]{0,3}i\b|\b" + _SHELL + rb"\s(?:--\w{1,12}\s){1,3}-i\b"
                rb"|\bexec\s(?:\d{1,3}|\{\w{1,20}\})<>)",
                rb"/dev/(?:tcp|udp)/[\w.$]",
            ),
            look("tcp udp / dev", rb"\b" + _SHELL + rb"(?:\s-[abd-z]{1,4})?\s{0,4}\d?[<>]&?\s{0,4}/dev/(?:tcp|udp)/"),
            look(
                "socat / exec system",
                rb"\bsocat(?=\s)",
                rb"\b(?:exec|system):[\"']?(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b",
            ),
            look(
                "nc ncat netcat telnet openssl / sh bash zsh dash",
                rb"\b" + _SHELL + rb"(?:\s{1,4}-i)?(?:\s{1,4}\d?>&\d)?\s{0,4}\|\s{0,4}"
                rb"(?:nc|ncat|netcat|telnet|openssl\ss_client)\s",
            ),
            look(
                "telnet client / sh bash zsh dash",
                rb"\b(?:telnet|s_client)\s[^\n|]{1,80}\|\s{0,4}(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b",
            ),
            look(
                "nc ncat netcat / sh bash zsh dash",
                rb"\b(?:nc|ncat|netcat)(?=\s)",
                rb"\s(?:-\w{0,4}[ec]|--(?:sh-)?exec)[\s=]{0,2}(?:/\w{1,8}){0,3}/?" + _SHELL + rb"\b",
            ),
        ),
    ),
    pattern(
        "SH403",
        (
            look(
                "printenv env / curl wget nc ncat",
                rb"(?:\bprintenv|(?:^|[;&(`]\s?)env)\s{0,2}\|",
                rb"\b(?:curl|wget|nc|ncat)\b",
            ),
            look("printenv env / curl", rb"\bcurl\s", rb"\$\((?:env|printenv)\)"),
            look(
                "environ env / post put urlopen fetch",
                rb"\b(?:post|put|urlopen|fetch)\(",
                rb"dict\(os\.environ\)(?<=\bdict\(os\.environ\))|[=:]\s{0,2}(?:os\.environ|process\.env)\s{0,2}[,)}]|stringify\(process\.env\)",
            ),
        ),
    ),
    pattern(
        "SH404",
        tuple(
            look(word, place)
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
    pattern(
        "SH405",
        (
            look(
                "rm",
                rb"\brm\s{1,4}(?:--?[\w-]{1,20}\s{1,4}){0,3}(?:-\w{0,4}r\w{0,4}|--recursive)\s{1,4}(?:--?[\w-]{1,20}\s{1,4}){0,3}"
                rb"[\"']?(?:/|" + _HOME + rb"/?)\*?[\"']?(?:\s|$|[;&|`)])",
            ),
        ),
    ),
    pattern(
        "SH406",
        (
            look("crontab", rb"(?:\bcrontab\s{1,4}-(?=\s|$)|\|\s{0,4}crontab\b)"),
            look("launchagents authorized", rb">>?\s{0,2}[\"']?[^\s\"']{0,40}(?:launchagents/|authorized_keys)"),
            look(
                "bashrc zshrc profile zprofile zshenv",
                rb">>\s{0,2}[\"']?" + _HOME + rb"/\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv)",
            ),
        ),
    ),
    pattern(
        "SH407",
        (
            look(
                "claude codex cursor agents",
                rb"(?:>|\btee(?:\s-a)?)\s{0,4}[\"']?[^\s\"'>]{0,60}"
                rb"(?:\.claude/settings|\.claude\.json|\.codex/config|\.cursor/mcp|claude\.md|agents\.md)",
            ),
        ),
    ),
    pattern(
        "SH408",
        (
            look("curl", rb"\bcurl(?=\s)", rb"\s(?:-[a-z]{0,5}k|--insecure)(?=\s|$)"),
            look("verify / false", rb"\bverify\s{0,2}=\s{0,2}false\b"),
            look("unverified", rb"_create_unverified_context\b"),
            look(
                "unauthorized rejectunauthorized",
                rb"node_tls_reject_unauthorized[\"'\]]{0,2}\s{0,2}=\s{0,2}[\"']?0|rejectunauthorized:\s{0,2}false",
            ),
        ),
    ),
)
