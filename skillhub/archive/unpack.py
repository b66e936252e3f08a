"""Archive bytes to a tree."""

from __future__ import annotations

from skillhub.archive.entry import Kind, Limits, unsafe
from skillhub.archive.gather import Unpacked, gather
from skillhub.archive.tar import read_tar
from skillhub.archive.zip import read_zip
from skillhub.errors import FormatError, UnsafeArchive

_DEFAULT = Limits()
_OF_NONE = "get the file anew; in place of an archive there may be a web page, or one of another kind"
_OF_UNSAFE = (
    "do not install it; of a folder of your own, skillhub pack FOLDER makes an archive that is accepted"
)


def unpack(data: bytes, kind: Kind, limits: Limits = _DEFAULT, wrapper: bool = True) -> Unpacked:
    """Return the tree that an archive holds, if there is one way to read it and none of it can do harm.

    Args:
        data: The whole archive.
        kind: What it is said to be; nothing is guessed from the bytes.
        limits: How much may come out.
        wrapper: Accept one folder around the skill, with a warning; a registry does not.

    Raises:
        FormatError: the bytes are no zip or gzip at all.
        UnsafeArchive: they are one that no honest tool would make.
    """
    if len(data) > limits.stream:
        raise unsafe("too-large", f"expected at most {limits.stream} bytes of archive, found {len(data)}")
    try:
        entries = read_zip(data, limits) if kind == "zip" else read_tar(data, limits)
        return gather(entries, limits, wrapper)
    except (FormatError, UnsafeArchive) as error:
        error.hint = error.hint or (_OF_NONE if isinstance(error, FormatError) else _OF_UNSAFE)
        raise
