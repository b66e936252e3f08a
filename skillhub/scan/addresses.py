"""Kinds of addresses by who can publish there, and the installers of well-known projects."""

from __future__ import annotations

import re
from typing import Final, Literal

from skillhub.formats.text import deferred, words

# "paste": a page that anybody can write; "drop": a file that anybody can upload; "tenant": a site on a subdomain that
# a host gives to anybody; "short": a shortened URL; "odd": a cheap top-level domain, a bare IP address, or punycode.
AddressKind = Literal["paste", "drop", "tenant", "short", "odd", "program", "other"]

ANYBODYS: Final = frozenset[AddressKind]({"paste", "drop", "tenant", "short", "odd"})
_PASTE = words(
    "glot.io rentry.co rentry.org pastebin.com pastebin.pl pastebin.ai paste.ee paste.rs paste.gg"
    " paste.mozilla.org paste.sh paste.debian.net pastes.io pastefs.com hastebin.com hastebin.skyra.pw"
    " dpaste.com dpaste.org bpa.st bpaste.net controlc.com justpaste.it justpaste.me ghostbin.com"
    " ghostbin.co ix.io sprunge.us termbin.com 0x0.st telegra.ph graph.org privatebin.net privatebin.info"
    " textbin.net text.is txt.fyi snippet.host notes.io cl1p.net del.dog katb.in codepad.org ideone.com"
    " nekobin.com spacebin.in sourceb.in zerobin.net write.as friendpaste.com pst.innomi.net pastecode.io"
    " pastecode.dev mystb.in"
)
_DROP = words(
    "mediafire.com mega.nz mega.io mega.co.nz anonfiles.com gofile.io file.io transfer.sh temp.sh"
    " tmpfiles.org sendspace.com wetransfer.com we.tl pixeldrain.com catbox.moe files.catbox.moe"
    " litterbox.catbox.moe bashupload.com cdn.discordapp.com media.discordapp.net upload.ee zippyshare.com"
    " workupload.com krakenfiles.com dropmefiles.com filebin.net uguu.se oshi.at send.cm qiwi.gg"
    " bayfiles.com dosya.co disk.yandex.ru yadi.sk 1fichier.com"
)
# Anybody can store a text or file there, and anybody with the link can fetch it.
PUBLIC_HOSTS: Final = (*_PASTE, *_DROP)
_TENANT = words(
    "vercel.app netlify.app pages.dev workers.dev web.app firebaseapp.com github.io gitlab.io"
    " herokuapp.com onrender.com railway.app up.railway.app replit.app repl.co replit.dev glitch.me"
    " surge.sh ngrok.io ngrok.app ngrok-free.app ngrok-free.dev trycloudflare.com loca.lt serveo.net"
    " wixsite.com weebly.com blogspot.com notion.site webflow.io godaddysites.com framer.website"
    " framer.app carrd.co 000webhostapp.com infinityfreeapp.com deno.dev lovable.app bolt.host base44.app"
    " azurewebsites.net r2.dev neocities.org tiiny.site tiiny.co square.site mystrikingly.com duckdns.org"
    " ddns.net no-ip.org hopto.org zapto.org sytes.net"
)
_SHORT = words(
    "bit.ly tinyurl.com t.co is.gd v.gd cutt.ly rb.gy goo.gl ow.ly shorturl.at rebrand.ly t.ly s.id"
    " tiny.cc buff.ly shrtco.de lnkd.in soo.gd clck.ru dub.sh"
)
_ODD_ENDINGS: Final = frozenset(
    words(
        "forum top xyz click zip mov cfd sbs icu buzz cyou rest gq cf ml ga tk pw lol quest monster bond online site"
        " store shop fun space website live club vip work link help support download stream invalid"
    )
)
_KINDS: Final[dict[str, AddressKind]] = {
    **dict.fromkeys(_PASTE, "paste"),
    **dict.fromkeys(_DROP, "drop"),
    **dict.fromkeys(_TENANT, "tenant"),
    **dict.fromkeys(_SHORT, "short"),
}
MAILBOX: Final = r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,100}"  # the address of a mailbox
URL: Final = re.compile(
    r"https?://(?:[^\s/@\"'<>`\\?#]{0,64}@)?([^\s/\"'<>`\\?#)\]|]{1,253})([^\s\"'<>`)\]|]{0,400})"
)
# The user's own machine or network; a package registry there belongs to the user.
OWN_NETWORK: Final = re.compile(r"localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|\[?::1")
_NUMBER = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|0x[0-9a-f]{6,}|\d{8,}|\[[0-9a-f:.]+\]")
_PROGRAM_SUFFIXES: Final = words(
    ".zip .rar .7z .exe .msi .dmg .pkg .scr .bat .cmd .ps1 .vbs .hta .iso .img .jar .appimage .lnk .tar.gz .tgz .apk"
)
# The exact addresses of installers of well-known projects; only the project can publish there.
_INSTALLERS: Final = deferred(
    "|".join(
        words(
            r"sh\.rustup\.rs/? (?:www\.)?rustup\.rs/?"
            r" (?:www\.)?astral\.sh/(?:uv|ruff|ty)/(?:[\d.]+/)?install\.(?:sh|ps1) get\.docker\.com/?"
            r" brew\.sh/install\.sh raw\.githubusercontent\.com/homebrew/install/(?:head|master|main)/install\.sh"
            r" (?:deb|rpm)\.nodesource\.com/setup_(?:\d+|lts|current)\.x (?:www\.)?bun\.(?:sh|com)/install(?:\.ps1)?"
            r" deno\.land/install\.(?:sh|ps1) deno\.land/x/install/install\.(?:sh|ps1)"
            r" get\.pnpm\.io/install\.(?:sh|ps1) install\.python-poetry\.org/? bootstrap\.pypa\.io/get-pip\.py"
            r" pyenv\.run/? pixi\.sh/install\.(?:sh|ps1)"
            r" raw\.githubusercontent\.com/(?:nvm-sh|creationix)/nvm/v?[\w.]+/install\.sh get\.sdkman\.io/?"
            r" raw\.githubusercontent\.com/helm/helm/(?:main|master)/scripts/get-helm-3"
            r" raw\.githubusercontent\.com/ohmyzsh/ohmyzsh/master/tools/install\.sh"
            r" raw\.githubusercontent\.com/k3d-io/k3d/main/install\.sh"
            r" raw\.githubusercontent\.com/golangci/golangci-lint/(?:head|master)/install\.sh"
            r" raw\.githubusercontent\.com/aquasecurity/trivy/main/contrib/install\.sh"
            r" fnm\.vercel\.app/install get\.volta\.sh/? (?:www\.)?ollama\.(?:com|ai)/install\.sh"
            r" claude\.ai/install\.(?:sh|ps1|cmd) opencode\.ai/install cursor\.com/install sdk\.cloud\.google\.com/?"
            r" aka\.ms/(?:installazureclideb|installazurecli|getvsdbgsh) aka\.ms/install-azd\.(?:sh|ps1)"
            r" aka\.ms/install-artifacts-credprovider\.(?:sh|ps1) aspire\.dev/install\.(?:sh|ps1)"
            r" dot\.net/v1/dotnet-install\.(?:sh|ps1) builds\.dotnet\.microsoft\.com/dotnet-install\.(?:sh|ps1)"
            r" get\.k3s\.io/? (?:www\.)?fly\.io/install\.(?:sh|ps1) starship\.rs/install\.sh mise\.run/?"
            r" mise\.jdx\.dev/install\.sh install\.determinate\.systems/nix (?:www\.)?nixos\.org/nix/install"
            r" tailscale\.com/install\.sh cli\.doppler\.com/install\.sh get\.pulumi\.com/? get\.tur\.so/install\.sh"
            r" just\.systems/install\.sh packagecloud\.io/install/repositories/github/git-lfs/script\.(?:deb|rpm)\.sh"
            r" (?:hf|huggingface)\.co/cli/install\.(?:sh|ps1) get\.scoop\.sh/?"
            r" (?:community\.)?chocolatey\.org/install\.ps1 install\.duckdb\.org/?"
            r" release\.(?:solana\.com|anza\.xyz)/(?:stable|v[\d.]+)/install foundry\.paradigm\.xyz/?"
            r" rclone\.org/install\.sh get\.jetify\.com/devbox/?"
        )
    )
)


def kind_of(host: str, path: str) -> AddressKind:
    """Return the kind of an address, by its host and path in lower case."""
    labels = host.partition(":")[0].strip(".").split(".")
    for first in range(len(labels) - 1):
        if found := _KINDS.get(".".join(labels[first:])):
            return found
    if _NUMBER.match(host) or labels[-1] in _ODD_ENDINGS or any(each.startswith("xn--") for each in labels):
        return "odd"
    if path.partition("?")[0].endswith(_PROGRAM_SUFFIXES) or "/releases/download/" in path:
        return "program"
    return "other"


def is_installer(url: str) -> bool:
    """Return whether an address in lower case is the installer of a well-known project, over https."""
    return url.startswith("https://") and _INSTALLERS.fullmatch(url.removeprefix("https://")) is not None
