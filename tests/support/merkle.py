"""The verification of a consistency proof by RFC 9162, 2.1.4.2."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256


def is_consistent(first: int, old: bytes, second: int, new: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the tree of ``second`` leaves begins with that of ``first``."""
    if first in (0, second):
        return not proof and (first == 0 or old == new)
    path = [old, *proof] if first & (first - 1) == 0 else [*proof]
    if not path:
        return False
    number, last = first - 1, second - 1
    while number & 1:
        number, last = number >> 1, last >> 1
    before = after = path[0]
    for each in path[1:]:
        if last == 0:
            return False
        if number & 1 or number == last:
            before, after = _node(each, before), _node(each, after)
            while number and not number & 1:
                number, last = number >> 1, last >> 1
        else:
            after = _node(after, each)
        number, last = number >> 1, last >> 1
    return (before, after, last) == (old, new, 0)


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()
