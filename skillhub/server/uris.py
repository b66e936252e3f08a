"""The URI of each file of a skill, and back; its media type, and what is said of where a skill comes from."""

from __future__ import annotations

import re
from mimetypes import MimeTypes
from typing import Any, Final
from urllib.parse import quote as encode
from urllib.parse import unquote as decode

from skillhub.errors import NotFound
from skillhub.formats.text import is_name, quote
from skillhub.model.reference import all_masked
from skillhub.model.tree import SKILL_MD
from skillhub.server.content import ServedSkill

SCHEME: Final = "skill://"
FILES_MAX: Final = 512
SIZE_MAX: Final = 16 * 1024 * 1024
DIRECTORY: Final = "inode/directory"
PREFIX: Final = "io.github.skillhub/"
_MARKDOWN: Final = "text/markdown"
# No skill has a dot in its name, so these are no skill's folder.
_NAMESPACE, _ALIAS = "of.", "as."
_URI_MAX: Final = 8192
_OURS: Final = {
    **{".md": _MARKDOWN, ".markdown": _MARKDOWN, ".json": "application/json", ".yaml": "application/yaml"},
    **{".yml": "application/yaml", ".toml": "application/toml", ".sh": "text/x-shellscript", ".ts": "text/plain"},
}
# Of Python's own table alone: what this machine has of it would differ from others.
_TYPES: Final = MimeTypes(filenames=())


def why_not(served: ServedSkill) -> str | None:
    """Return why a skill is no resource, whose format and limits are stricter; None if it is one."""
    front = served.front
    if front is None:
        return "its frontmatter is not valid YAML"
    name, description = front.get("name"), front.get("description")
    if not (isinstance(name, str) and is_name(name)):
        return "its name is not of small letters, digits and single hyphens"
    if not (isinstance(description, str) and description):
        return "its description is no text"
    if len(served.files) > FILES_MAX:
        return f"it has more than {FILES_MAX} files"
    if sum(file.size for file in served.files) > SIZE_MAX:
        return f"its files have more than {SIZE_MAX} bytes"
    return None


def uri_of(served: ServedSkill, path: str = SKILL_MD) -> str:
    """Return the URI of a file, or of a folder; of the skill itself where ``path`` is empty."""
    skill = served.skill
    name = str((served.front or {}).get("name"))
    parts = [f"{_NAMESPACE}{skill.namespace}"] if skill.namespace else []
    parts += [f"{_ALIAS}{skill.name}"] if skill.name != name else []
    whole = "/".join([*parts, name, *([path] if path else [])])
    return SCHEME + encode(whole, safe="/!$&'()*+,;=:@~", errors="surrogateescape")


def located(uri: str) -> tuple[str, str]:
    """Return the name of the skill and the path in it that a URI is about; ``uri_of`` them is to give it again.

    Raises:
        NotFound: it is no such URI.
    """
    match = re.fullmatch(r"skill://(?:of\.([^/]+)/)?(?:as\.([^/]+)/)?([^/]+)((?:/[^/?#]+)*)", uri[:_URI_MAX])
    if match is None or len(uri) > _URI_MAX:
        raise NotFound(f"no skill is served at {quote(uri[:200])}")
    namespace, alias, name, path = match.groups()
    named = f"{namespace}:{alias or name}" if namespace else alias or name
    return named, decode(path[1:], errors="surrogateescape")


def mime_type_of(path: str, is_text: bool | None = None) -> str:
    """Return the media type of a file by its name; of an unknown one by whether it is text, if that is known."""
    name = path.rpartition("/")[2]
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    found = _OURS.get(ending) or _TYPES.guess_type(f"x{ending}", strict=True)[0]
    return found or ("text/plain" if is_text else "application/octet-stream")


def provenance(served: ServedSkill) -> dict[str, Any]:
    """Return where a skill comes from, who signed it, and what was verified."""
    skill = served.skill
    is_signed = served.is_locked and skill.trust == "signed"
    said = {
        "locked": served.is_locked,
        "source": skill.source,
        "version": skill.version,
        "tree": served.tree,
        "signed_by": [signer.to_json(skill.vouched_by) for signer in skill.signed_by],
        "verified": {"tree": served.is_locked, "consent": served.is_locked, "signature": is_signed},
    }
    return all_masked(said)  # type: ignore[no-any-return]


def meta(served: ServedSkill) -> dict[str, Any]:
    """Return ``provenance`` under the keys of our own prefix, without what is not known."""
    return {PREFIX + key: value for key, value in provenance(served).items() if value is not None}
