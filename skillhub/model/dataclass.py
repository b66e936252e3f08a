"""Data classes with the names and the meaning of the standard library's, finished when they are first used.

The standard ones compile six methods for each class while its module is imported: half a millisecond a class, a
quarter of what a command takes to start (ADR 22). Here the methods are shared, and ``__init__`` alone is compiled, by
its first call. Left out is what nobody here uses: order, fields without ``init``, inherited fields, pickling.
"""

from __future__ import annotations

from collections.abc import Mapping

MISSING = object()


class Field:
    """A field by name: its default or what makes one, and whether it is shown and compared."""

    __slots__ = ("compare", "default", "default_factory", "name", "repr")

    def __init__(self, *, default=MISSING, default_factory=MISSING, repr=True, compare=True):
        self.default = default
        self.default_factory = default_factory
        self.repr = repr
        self.compare = compare


field = Field


def fields(thing):
    """Return the fields of a data class, or of a value of one."""
    return thing.__fields__


def replace(value, /, **changes):
    """Return a copy of ``value`` that differs in ``changes``."""
    return type(value)(**{each.name: getattr(value, each.name) for each in fields(value)} | changes)


def asdict(value):
    """Return ``value`` as dictionaries, lists and tuples of plain values, all the way down."""
    if hasattr(value, "__fields__"):
        return {each.name: asdict(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: asdict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(asdict(each) for each in value)
    return value


def dataclass(*, frozen=False, slots=False, kw_only=False):
    """Make a data class of a class whose annotations are its fields."""

    def made(cls):
        body = {name: own for name, own in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        own_fields = tuple(_named(name, body.pop(name, MISSING)) for name in cls.__annotations__)
        names = tuple(each.name for each in own_fields)
        body = _shared(own_fields, frozen) | {"__match_args__": () if kw_only else names} | body
        if slots:
            body["__slots__"] = names
        new = type(cls)(cls.__name__, cls.__bases__, body)
        new.__qualname__ = cls.__qualname__

        def __init__(self, *args, **values):
            new.__init__ = _init(new, kw_only)
            new.__init__(self, *args, **values)

        new.__init__ = __init__
        return new

    return made


def _named(name, given):
    found = given if isinstance(given, Field) else Field(default=given)
    found.name = name
    return found


def _shared(own_fields, frozen):
    """Return the methods that need no compiling, by name."""
    shown = [each.name for each in own_fields if each.repr]
    compared = [each.name for each in own_fields if each.compare]

    def values(self):
        return [getattr(self, name) for name in compared]

    def __repr__(self):
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self, other):
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self):
        return hash(tuple(values(self)))

    methods = {"__fields__": own_fields, "__repr__": __repr__, "__eq__": __eq__}
    if not frozen:
        return {**methods, "__hash__": None}
    return {**methods, "__hash__": __hash__, "__setattr__": _refuse, "__delattr__": _refuse}


def _refuse(self, name, *_):
    raise AttributeError(f"{type(self).__qualname__} is frozen: {name} stays as it is")


def _setter(cls, name):
    """Return what sets a field, frozen or not: its slot itself, which is a third faster, where there is one."""
    if "__slots__" in vars(cls):
        return getattr(cls, name).__set__
    return lambda value, given: object.__setattr__(value, name, given)


def _init(cls, kw_only):
    """Compile ``__init__``: the one method that is called often enough to be worth it."""
    known = {"_missing": MISSING}
    taken, lines = ["self", "*"] if kw_only else ["self"], ["pass"]
    for each in cls.__fields__:
        name = value = each.name
        if each.default_factory is not MISSING:
            known[f"_made_{name}"] = each.default_factory
            taken.append(f"{name}=_missing")
            value = f"_made_{name}() if {name} is _missing else {name}"
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
            taken.append(f"{name}=_default_{name}")
        else:
            taken.append(name)
        known[f"_set_{name}"] = _setter(cls, name)
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(taken)}):\n " + "\n ".join(lines), known)
    known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return known["__init__"]
