"""JSON as it comes from outside: a size cap first, then strict UTF-8, no duplicate key, no NaN."""

from __future__ import annotations

import json
import math
from collections import Counter

from skillhub.errors import FormatError
from skillhub.model.text import quote


def strict_json(data: bytes, where: str, cap: int) -> object:
    """Return the value that ``data`` spells (RFC 8259), as ``json.loads`` would build it.

    Args:
        data: The document; a byte order mark is not JSON.
        where: The file or URL, for the error.
        cap: The bytes that the document may have at most.

    Raises:
        FormatError: anything else than one JSON value within the cap, an object that has a key twice, a
            number that is none (``NaN``, ``Infinity``), or nesting deeper than the parser goes.
    """
    if len(data) > cap:
        raise FormatError(f"expected at most {cap} bytes of JSON, found {len(data)}", where=where)
    try:
        value: object = _DECODER.decode(data.decode("utf-8"))
        # Half of a surrogate pair would decode, and crash whoever writes it to a file or a terminal.
        # Most documents have no backslash, and one byte is found fast.
        if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8, found another byte at {error.start}", where=where) from error
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise FormatError(f"expected JSON: {error.msg}", where=place) from error
    except RecursionError as error:
        raise FormatError("expected JSON, found nesting too deep", where=where) from error
    except UnicodeEncodeError as error:
        raise FormatError("expected strict JSON, found half of a surrogate pair", where=where) from error
    except ValueError as error:
        raise FormatError("expected strict JSON, found an integer too long to be one", where=where) from error
    except FormatError as error:
        error.where = where
        raise


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise FormatError(f"expected strict JSON: the key {quote(twice)} is there twice")
    return found


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise FormatError(f"expected strict JSON: {text[:20]} is no JSON number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_number, parse_float=_number)
