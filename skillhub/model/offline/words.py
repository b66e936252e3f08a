"""Words that reach a network, whatever they stand in: a program, an instruction, a comment.

They are a second look beside the readers of programs, and the only one at instructions, which are no program.
"""

from __future__ import annotations

import re

# What hardly stands in a text that reaches nothing.
_STRONG = rb"""(?xi)
    (?<![\w.-])(?:
        curl|wget2?|aria2c|axel|ncat|netcat|socat|scp|sftp|rsync|lftp|tftp|nslookup|rclone|s3cmd|gsutil|ngrok|cloudflared
        |lynx|w3m|elinks|certutil|bitsadmin|invoke-webrequest|invoke-restmethod|start-bitstransfer|npx|uvx|bunx|pipx
        |s_client|xmlhttprequest|webfetch|websearch|paramiko|aiohttp|httpx|urllib3|smtplib|ftplib|imaplib|poplib|telnetlib
        |xmlrpc|socketserver|pycurl
    )(?![\w-])
    |/dev/(?:tcp|udp)\b|net\.(?:webclient|sockets|http)|downloadstring|downloadfile|urlopen|urlretrieve|sendbeacon
    |\bhttp\.client|\burllib2?\.request|\burllib2\b|\brequests\.(?:get|post|put|patch|delete|head|request|session)
    |\b(?:import|from)[ \t]{1,9}(?:requests|socket|urllib|http)\b(?!\.(?:parse|error|status)|[ ]status)
    |\bsocket\.(?:socket|create_connection|connect|gethost|getaddr)|\bopen_connection\b
    |\bnew[ \t]{1,9}(?:websocket|eventsource)\b|(?<![\w.])fetch\(|\baxios\b
    |(?:require\(|from[ \t]{1,9}|import\(?[ \t]{0,9})["'](?:node:)?(?:https?2?|net|tls|dgram|dns)["'/]
    |\bnet::http\b|\bopen-uri\b|\blwp::|\bio::socket|\bhttp::tiny|\bfsockopen|\bcurl_(?:init|exec)|\bnet/http\b|\bnet\.dial
    |\bgit[ \t]{1,9}(?:-\S{1,40}[ \t]{1,9}(?:[^-\s]\S{0,40}[ \t]{1,9})?){0,3}
        (?:clone|push|pull|fetch|ls-remote|submodule|archive[ \t]{1,9}--remote|send-email)\b
    |\b(?:pip[0-9.]{0,5}|conda|mamba|gem|brew|apt|apt-get|yum|dnf|apk|pacman|choco|winget|snap|cpanm?|port)[ \t]{1,9}
        (?:-\S{1,20}[ \t]{1,9}){0,3}(?:install|download|add|update|upgrade|fetch)\b
    |\buv[ \t]{1,9}(?:pip|add|sync|run|tool|lock|python)\b
    |\b(?:npm|pnpm|yarn|bun)[ \t]{1,9}(?:i|ci|install|add|exec|x|dlx|create|init|update|publish|view)\b
    |\b(?:cargo|go|deno|composer|poetry|pdm|rustup|nix|mix|luarocks|stack|cabal|opam)[ \t]{1,9}
        (?:install|add|fetch|update|get|require|mod|build|shell|run)\b
    |\b(?:docker|podman|nerdctl)[ \t]{1,9}(?:pull|push|run|build|compose|login)\b
    |\bgh[ \t]{1,9}(?:api|pr|issue|repo|run|release|auth|gist|search|workflow|secret)\b
"""
# Where a command stands: at the start of a line, behind a prompt, a quote or another command.
_WEAK = rb"""(?xm)
    (?:^|[`$\#>;&|("'])[ \t]{0,9}(?:sudo[ \t]{1,9})?
    (?:
        nc|ssh|ftp|telnet|dig|host|drill|ping6?|traceroute|whois|https?|xh|aws|gcloud|az|kubectl|helm|glab|iwr|irm|mosh
        |mail|sendmail|ssh-copy-id|terraform|ansible|vercel|netlify|fly|heroku|psql|mysql|redis-cli|mongosh?
    )[ \t]{1,9}[\w"'$@./<{\[-]
"""
_STRONG_PATTERN = re.compile(_STRONG)
_WEAK_PATTERN = re.compile(_WEAK)
_JOINT = re.compile(rb"[\\`^]\r?\n")


def names_network(data: bytes) -> bool:
    """Say whether a text has a word that reaches a network."""
    data = data.translate(None, b"\0")
    looked = (data, _JOINT.sub(b"", data)) if _JOINT.search(data) else (data,)
    return any(
        _STRONG_PATTERN.search(each) or _WEAK_PATTERN.search(each.replace(b"\r", b"\n")) for each in looked
    )
