"""YAML as documents from outside may use it: text, lists and mappings, nothing that surprises a reader.

Every scalar stays the text that was written: ``no`` is not false and ``1.10`` is not 1.1; whoever wants a number or a
truth value asks for one.
"""

from __future__ import annotations

from skillhub.errors import FormatError
from skillhub.model import plain
from skillhub.model.plain import MAX_BYTES, Node
from skillhub.model.text import quote

__all__ = ["MAX_BYTES", "Node", "parse", "truth"]

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse(text: str, where: str, line_offset: int = 0, cap: int = MAX_BYTES) -> Node:
    """Return the one document in ``text``; an empty one is ``""``.

    Args:
        text: YAML, at most ``cap`` bytes of it.
        where: The file, named in errors as ``where:line``.
        line_offset: Lines of the file above ``text``.
        cap: Bytes; 64 kB unless the format is known to be larger.

    Raises:
        FormatError: it is not YAML, or holds an anchor, alias, tag, merge key, duplicate key, key that is
            no scalar, second document, more than 8 levels or more than ``cap`` bytes.
    """
    simple = plain.parse(text)
    if simple is not None:
        return simple
    # Not before it is needed: PyYAML takes 12 ms to import, and most frontmatter does without it.
    from skillhub.model.syntax import yaml_events

    return yaml_events.parse(text, where, line_offset, cap)


def truth(node: Node, default: bool) -> bool:
    """Return the truth value that ``node`` spells, ``default`` where it says nothing.

    Raises:
        FormatError: it is neither ``true`` nor ``false``, nor YAML 1.1's yes, no, on, off.
    """
    word = node.lower() if isinstance(node, str) else None
    if word in ("", "~", "null"):
        return default
    if word not in _TRUTH:
        raise FormatError(f"expected true or false, found {quote(node)}")
    return _TRUTH[word]
