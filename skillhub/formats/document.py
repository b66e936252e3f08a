"""Documents as classes: read strictly or leniently, written in one form, each error with the path to the fault.

A ``Document`` has a format of skillhub: unknown keys are refused, nothing is converted. A ``ForeignDocument`` has the
format of another program: unknown keys are kept, text is converted, and an invalid optional value is left out with a
warning. The parts of a ``Document`` that other modules use are standard data classes with the decorator ``part``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    Strict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from skillhub.errors import FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.json import line_of, line_of_fault, strict_json
from skillhub.formats.text import NAME_MAX, RESERVED_ALIASES, clean, is_alias, is_name, packaged, quote

_K = TypeVar("_K", bound=str)
_K2 = TypeVar("_K2")
_T = TypeVar("_T")
_JsonSchema: TypeAlias = dict[str, Any]
# Deferred, so that a command builds only the validators of the documents that it reads.
_STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
# A validator stores an error for every unknown key; a million of them would exhaust memory.
_KEYS_MAX = 1000
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
_NOTHING = ("", "~", "null", "Null", "NULL")  # the null of YAML
_WARNINGS_MAX = 20


class _Fault(ValueError):
    """A ``FormatError`` wrapped for pydantic, which adds the path."""

    def __init__(self, error: FormatError) -> None:
        super().__init__(error.message)
        self.error = error


def _raising_faults(read: Callable[[Any], object]) -> Callable[[object], object]:
    def checked(value: object) -> object:
        try:
            return read(value)
        except FormatError as error:
            raise _Fault(error) from error

    return checked


class Read:
    """An annotation: ``read`` converts the parsed value, or raises a ``FormatError`` if it is invalid.

    Args:
        read: Takes the parsed value and returns the value of the field.
        schema: The JSON Schema of the value; a text by default.
    """

    def __init__(self, read: Callable[[Any], object], **schema: object) -> None:
        self._read = read
        self._schema = schema or {"type": "string"}

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_raising_faults(self._read))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> _JsonSchema:
        return dict(self._schema)


class Before:
    """An annotation: ``read`` converts the parsed value before pydantic reads it, or raises a ``FormatError``.

    Args:
        read: Takes the parsed value and returns the value for pydantic.
        schema: The JSON Schema of a value that ``read`` converts.
    """

    def __init__(self, read: Callable[[Any], object], **schema: object) -> None:
        self._read, self._schema = read, schema

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_raising_faults(self._read), handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> _JsonSchema:
        return {"anyOf": [handler(schema), self._schema]} if self._schema else handler(schema)


class _FailFast:
    """An annotation of a list or an object with many members: validation stops at the first error."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cast("CoreSchema", {**handler(source), "fail_fast": True})


class _NotNull:
    """An annotation of an optional value: its key may be absent, but null is refused."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cast("CoreSchema", cast("dict[str, Any]", handler(source))["schema"])


class Ignored:
    """The substitute for ``found``, an invalid member of a list or an object; ``message`` says what is wrong."""

    def __init__(self, error: ValidationError, found: object = None) -> None:
        self.found = found
        self.message = format_error(error, "").message


def _valid_or_ignored(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError as error:
        return Ignored(error, value)


# A member of a list or an object that may be invalid without the others; `valid` yields the valid ones.
Lenient = Annotated[_T, WrapValidator(_valid_or_ignored)]
# A value that is None if its key is absent.
Absent = Annotated[_T | None, _NotNull()]
# A list that becomes a tuple, which strict pydantic counts as a conversion; its items stay strict.
Items = Annotated[tuple[_T, ...], Strict(False), _FailFast()]
# An object whose keys are data, such as names.
Members = Annotated[dict[_K, _T], _FailFast()]


def valid(members: Iterable[tuple[_K2, _T]]) -> Iterator[tuple[_K2, _T]]:
    """Yield the members, with their keys or numbers, that were not ``Ignored``."""
    return ((key, member) for key, member in members if not isinstance(member, Ignored))


def wrong(expected: str, found: object) -> NoReturn:
    """Raise a ``FormatError`` with ``expected`` and ``found``."""
    raise FormatError(f"expected {expected}, found {quote(found)}")


def text_that(holds: Callable[[str], object], expected: str) -> Callable[[object], str]:
    """Return a reader of strings for which ``holds`` is true; ``expected`` describes them."""

    def read(value: object) -> str:
        return value if isinstance(value, str) and holds(value) else wrong(expected, value)

    return read


def matching(regex: re.Pattern[str], expected: str) -> Read:
    """Return the annotation of texts that match ``regex`` as a whole; JSON Schema must have the same syntax."""
    return Read(text_that(regex.fullmatch, expected), type="string", pattern=f"^(?:{regex.pattern})$")


def one_of(*known: str) -> Read:
    """Return the annotation of these words."""
    words = " or ".join(map(repr, known)) if "" in known else " or ".join(known)
    return Read(text_that(known.__contains__, words), enum=list(known))


def visible(value: object) -> str:
    """Return a text that is not empty and has no hidden character."""
    # `clean` is slow, and plain ASCII does not need it.
    if isinstance(value, str) and value and ((value.isascii() and value.isprintable()) or clean(value) == value):
        return value
    wrong("a text that is not empty" if value == "" else "text without hidden characters", value)


def name_that(holds: Callable[[str], bool], what: str = "name") -> Callable[[object], str]:
    """Return a reader of names for which ``holds`` is true; ``what`` describes the named thing."""

    def read(value: object) -> str:
        name = value if isinstance(value, str) else visible(value)
        if not holds(name):
            raise FormatError(f"{quote(name)} is no {what}")
        return name

    return read


def version_of(what: str, known: int) -> Read:
    """Return the annotation of a format's version, which has to be ``known``; ``what`` is the name of the format."""

    def read(value: object) -> int:
        # The type is compared too: in Python, JSON's true and 1.0 equal 1.
        if type(value) is int and value == known:
            return known
        is_newer = type(value) is int and value > known
        kind = "the text " if isinstance(value, str) else ""
        hint = "a newer skillhub wrote it; upgrade skillhub" if is_newer else None
        raise FormatError(f"expected {what} {known}, found {kind}{quote(value)}", hint=hint)

    return Read(read, type="integer", const=known)


def integer(expected: str, most: int | None = None) -> Read:
    """Return the annotation of whole numbers from 0 to ``most``; ``expected`` describes them."""

    def read(value: object) -> int:
        # The type itself is compared: in Python, true is an instance of int.
        if type(value) is int and value >= 0 and (most is None or value <= most):
            return value
        wrong(f"{expected}, a number without quotes" if isinstance(value, str) else expected, value)

    bounds = {"minimum": 0} if most is None else {"minimum": 0, "maximum": most}
    return Read(read, type="integer", **bounds)


# The JSON Schemas of names and digests. For a key pydantic changes a `pattern`, but not one in `allOf`.
NAME: dict[str, Any] = {
    "type": "string",
    "allOf": [{"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": NAME_MAX, "not": {"pattern": r"\n"}}],
}
DIGEST: dict[str, Any] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "minLength": 71, "maxLength": 71}
ALIAS: dict[str, Any] = {"type": "string", "allOf": [*NAME["allOf"], {"not": {"enum": sorted(RESERVED_ALIASES)}}]}

Visible = Annotated[str, Read(visible, type="string", minLength=1)]
Sha256 = Annotated[Digest, Read(Digest.parse, **DIGEST)]
SkillName = Annotated[str, Read(name_that(is_name), **NAME)]
Alias = Annotated[str, Read(name_that(is_alias, "alias of a source"), **ALIAS)]
ObjectId = Annotated[str, matching(re.compile("[0-9a-f]{40}"), "a full commit")]


def part(cls: type[_T]) -> type[_T]:
    """Make a standard data class a part of documents: read from an object, strictly, without unknown keys.

    If the class has a method ``check``, it raises a ``FormatError`` for fields that contradict each other.
    ``NEEDED`` names fields whose key is required although they have a default; ``UNKNOWN`` is the hint for an unknown
    key, if it differs from the document's; ``SCHEMA`` names a JSON file that is merged into the part's JSON Schema;
    ``CONFIG`` is merged into its configuration for pydantic.
    """
    hint: str | None = getattr(cls, "UNKNOWN", None)
    rules: str | None = getattr(cls, "SCHEMA", None)

    def schema(source: type[_T], handler: GetCoreSchemaHandler) -> CoreSchema:
        core = handler(source)
        _make_part(cast("dict[str, Any]", handler.resolve_ref_schema(core)), getattr(cls, "NEEDED", ()))
        if hasattr(cls, "check"):
            core = core_schema.no_info_after_validator_function(_raising_faults(_check_part), core)
        if hint is not None:
            core = core_schema.no_info_wrap_validator_function(_with_hint(hint), core)
        return core_schema.no_info_before_validator_function(_refuse_many_keys, core)

    def describe(schema: dict[str, Any]) -> None:
        for value in schema["properties"].values():
            if value.get("default", ...) is None:
                del value["default"]  # a value of None is absent, and null is refused
        schema.update(packaged(rules) if rules is not None else {})

    more: dict[str, Any] = getattr(cls, "CONFIG", {})
    cls.__pydantic_config__ = cast("ConfigDict", {**_STRICT, "json_schema_extra": describe, **more})  # type: ignore[attr-defined]
    cls.__get_pydantic_core_schema__ = schema  # type: ignore[attr-defined]
    return cls


def _make_part(schema: dict[str, Any], needed: tuple[str, ...]) -> None:
    # An object becomes the data class, which strict pydantic counts as a conversion; its fields stay strict.
    schema["strict"] = False
    for field in schema["schema"]["fields"]:
        if field["name"] in needed and field["schema"]["type"] == "default":
            field["schema"] = field["schema"]["schema"]


def _check_part(value: Any) -> object:  # noqa: ANN401 - a data class with the method
    value.check()
    return value


def _with_hint(hint: str) -> Callable[[object, ValidatorFunctionWrapHandler], object]:
    def hinted(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError as error:
            first = _details(error)[0]
            if first["type"] not in _UNKNOWN_KEY or len(first["loc"]) > 1:
                raise
            fault = _message(first, "")
            fault.where, fault.hint = _step(first["loc"][0]), hint
            raise _Fault(fault) from error

    return hinted


def _refuse_many_keys(value: object) -> object:
    if isinstance(value, dict) and len(value) > _KEYS_MAX:
        raise _Fault(FormatError(f"expected at most {_KEYS_MAX} keys, found {len(value)}"))
    return value


class _Parsed(BaseModel):
    """The base class of ``Document`` and ``ForeignDocument``.

    Attributes:
        CAP: The most bytes that a document may have.
        OBJECT: The format's word for an object.
        UNKNOWN: The hint for an unknown key.
        NAMES_LINE: Whether an error names the line beside the path.
    """

    CAP: ClassVar[int] = 8 * 1024 * 1024
    OBJECT: ClassVar[str] = "an object"
    UNKNOWN: ClassVar[str | None] = None
    NAMES_LINE: ClassVar[bool] = False
    model_config = ConfigDict(defer_build=True)

    @classmethod
    def parse(cls, data: object, where: str) -> Self:
        """Return the document in ``data``.

        Args:
            data: The bytes or the text of a JSON document, or a value from another parser.
            where: The file or URL, for errors.

        Raises:
            FormatError: ``data`` is not strict JSON within ``CAP``, or has another form; ``where`` then has the path.
        """
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        try:
            value = cls.read_json(raw, where) if isinstance(raw, bytes) else raw
            return cls._read(value, where)
        except FormatError as error:
            if cls.NAMES_LINE and isinstance(raw, bytes):
                error.where = _with_line(error.where or where, raw, where)
            raise

    @classmethod
    def read_json(cls, data: bytes, where: str) -> object:
        """Return the JSON value in ``data``.

        Raises:
            FormatError: ``data`` is not strict JSON within ``CAP``.
        """
        return strict_json(data, where, cls.CAP)

    @classmethod
    def _read(cls, value: object, where: str) -> Self:
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise format_error(error, where, unknown=cls.UNKNOWN, what=cls.OBJECT) from error

    def plain(self) -> dict[str, Any]:
        """Return the document as objects, lists and texts, without values that are None."""
        return self.model_dump(by_alias=True, exclude_none=True)

    def dump(self) -> bytes:
        """Return the document's bytes: indented by two spaces, keys sorted, a line break at the end.

        The same content gives the same bytes.
        """
        return json_bytes(self.plain())


def input_schema(field: _JsonSchema) -> _JsonSchema:
    """Return the JSON Schema of a field for a program that fills it in: an optional field is omitted, never null."""
    options = [option for option in field.get("anyOf", ()) if option != {"type": "null"}]
    kept = {key: value for key, value in field.items() if key not in ("anyOf", "title", "default")}
    return {**options[0], **kept} if options else kept


def json_bytes(value: object) -> bytes:
    """Return the bytes of a document: indented by two spaces, keys sorted, a line break at the end."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


class Document(_Parsed):
    """A document in a format of skillhub: strict and frozen; an unknown key is refused."""

    model_config = _STRICT

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_keys(cls, value: object) -> object:
        return _refuse_many_keys(value)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        try:
            self.check()
        except FormatError as error:
            raise _Fault(error) from error
        return self

    def check(self) -> None:
        """Refuse members that contradict each other.

        Raises:
            FormatError: some do; ``where`` is the path in this document, ``.skills.deploy.url``.
        """


class ExtensibleDocument(Document):
    """A document in a format of skillhub that later versions may extend: strict, but unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class ForeignDocument(_Parsed):
    """A document of another program: unknown keys are kept; text is converted, since YAML is read without types.

    An invalid optional field is left out; ``warnings`` reports it.

    Attributes:
        LENIENT: The optional keys of which that is true; None for all. An invalid value of another key refuses the
            document: without it the document would permit more, such as any commit in place of one.
    """

    LENIENT: ClassVar[Collection[str] | None] = None

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True, defer_build=True)

    _left_out: tuple[tuple[str, str], ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out_invalid(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            fields = {field.alias or name: field for name, field in cls.model_fields.items()}
            lenient = fields if cls.LENIENT is None else cls.LENIENT
            optional = {key for key, field in fields.items() if not field.is_required() and key in lenient}
            faults = [fault for fault in _details(error) if fault["loc"] and fault["loc"][0] in optional]
            if not faults or not isinstance(value, Mapping):
                raise
        invalid = {fault["loc"][0]: fault for fault in reversed(faults)}
        document = handler({key: member for key, member in value.items() if key not in invalid})
        document._left_out = tuple(
            (_path(fault["loc"]), _message(fault, cls.OBJECT).message)
            for key, fault in reversed(invalid.items())
            if value[key] is not None and value[key] not in _NOTHING
        )
        return document

    def ignored(self) -> Iterator[tuple[str, str]]:
        """Yield path and fault of each value that was left out of the document and its parts."""
        return _ignored(self, "")

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each value that was left out of the document and its parts, at most a ``few``."""
        return few([f"{path}: {message}; ignored" for path, message in self.ignored()])


def few(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings, at most as many as a person reads, then the number of the others."""
    more = len(warnings) - _WARNINGS_MAX
    return (*warnings[:_WARNINGS_MAX], f"{more} more are ignored") if more > 0 else tuple(warnings)


def _ignored(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Ignored):
        yield path, value.message
    elif isinstance(value, ForeignDocument):
        start = f"{path}." if path else ""
        yield from ((start + name, message) for name, message in value._left_out)
        for name, field in type(value).model_fields.items():
            yield from _ignored(getattr(value, name), f"{start}{field.alias or name}")
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _ignored(member, f"{path}{_step(key)}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _ignored(item, f"{path}[{number}]")


def format_error(
    error: ValidationError, where: str, *, unknown: str | None = None, what: str = "an object"
) -> FormatError:
    """Return the first fault of a value that pydantic refused, with its path: ``where: skills[1].url``.

    Args:
        error: The error of pydantic.
        where: The document.
        unknown: The hint for an unknown key.
        what: The format's word for an object.
    """
    first = _details(error)[0]
    fault = _message(first, what)
    if first["type"] in _UNKNOWN_KEY:
        fault.hint = unknown
    path = (_path(first["loc"]) + (fault.where or "")).removeprefix(".")
    fault.where = f"{where}: {path}" if path else where
    return fault


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False)


def _message(fault: ErrorDetails, what: str) -> FormatError:
    """Return the error for a fault, without the path."""
    context, value = fault.get("ctx", {}), fault["input"]
    cause = context.get("error")
    if isinstance(cause, _Fault):
        return cause.error
    kind = fault["type"]
    if kind == "missing":
        return FormatError(f"the key {fault['loc'][-1]!r} is missing")
    if kind in _UNKNOWN_KEY:
        return FormatError(f"unknown key {quote(fault['loc'][-1])}")
    actual = len(value) if kind == "string_too_long" else quote(value)
    return FormatError(f"{_expected(fault, what)}, found {actual}")


def faults(error: ValidationError) -> str:
    """Return the faults of a client's request in one line, each with its path and without the value."""
    lines = []
    for item in error.errors(include_url=False, include_input=False):
        is_unknown = item["type"] in _UNKNOWN_KEY
        fault = "unknown" if is_unknown else "missing" if item["type"] == "missing" else _expected(item, "an object")
        lines.append(": ".join(filter(None, (_path(item["loc"]), fault))))
    return clean("; ".join(lines))[:500]


def _expected(fault: ErrorDetails, what: str) -> str:
    """Return what was expected, in fixed words: pydantic's messages change with its versions."""
    context, kind = fault.get("ctx", {}), fault["type"]
    if isinstance(context.get("error"), ValueError):
        return str(context["error"])
    if kind == "literal_error":
        return f"expected {context['expected']}".replace("'", "").replace(", ", " or ")
    expected = what if kind in _OBJECTS else _words_expected().get(kind, "another value")
    return f"expected {expected.format(**context)}"


_OBJECTS = frozenset({"dataclass_type", "dict_type", "mapping_type", "model_attributes_type", "model_type"})


@cache
def _words_expected() -> Mapping[str, str]:
    """Return ``expected.json``: the words for what was expected, by pydantic's type of a fault."""
    return dict(packaged("formats/expected.json"))


def _path(parts: tuple[int | str, ...]) -> str:
    # For a fault in a key itself pydantic adds the part `[key]` after the key.
    return "".join(_step(part) for part in parts if part != "[key]").removeprefix(".")


def _step(key: int | str) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{clean(key[:64])}"


def _with_line(place: str, data: bytes, where: str) -> str:
    """Return the place of an error with its line; a place that has a line stays."""
    inner = place.removeprefix(where)
    if inner and not inner.startswith(": "):
        return place
    line = line_of(data, inner[2:]) if inner else line_of_fault(data)
    return f"{where}:{line}{inner}" if line else place
