"""Reads tables of TOML into frozen dataclasses, and checks every key, type and value on the way.

The types of the fields say what is expected; a field without a default must be given. A key that is
a keyword of Python has an underscore in the field's name (`from_`). A field with metadata `REST`
takes every key that no other field has, one with `KEY` gets the name of its table; one of type
`Where` gets the place of the entry. A method `validate(where)` tests what types cannot say.
"""

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from anabranch.scenario import ScenarioError, expected_one_of, toml_value

Entry = TypeVar("Entry")

Values = Mapping[str, Any]
"""Values of a scenario by dotted key, or parameters of a quantity by name."""


@dataclass(frozen=True)
class Where:
    """The place of an entry: a file and a key in it, such as `items[3].measures[1].quantity`."""

    file: str = ""
    key: str = ""
    others: Mapping[str, "Where"] = field(default_factory=dict, compare=False, repr=False)
    """The places of keys that are from other files, by key."""

    def at(self, key: str | int) -> "Where":
        """The place of a key or an index within this place."""
        if isinstance(key, int):
            whole = f"{self.key}[{key}]"
        else:
            word = key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'
            whole = f"{self.key}.{word}".lstrip(".")
        return self.others.get(whole) or Where(self.file, whole, self.others)

    def error(self, message: str) -> ScenarioError:
        """An error of one line that names this place."""
        return ScenarioError(": ".join(filter(None, (self.file, self.key, message))))

    def one_of(self, word: str, known: Sequence[str]) -> None:
        """Raise the error of a word that is not one of `known`."""
        if word not in known:
            wanted = expected_one_of(word, list(known)) if known else "expected none"
            raise self.error(f"unknown {word!r}, {wanted}")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An entry that knows its place, which errors name."""

    where: Where = field(default=Where(), compare=False, repr=False)


@dataclass(frozen=True)
class Tag:
    """Marks a union of dataclasses of which the key `key` chooses one by its `kind`."""

    key: str


@dataclass(frozen=True)
class Some:
    """Marks a list that has at least one entry, such as a `seed`."""

    what: str


REST = {"rest": True}
"""The metadata of a field that takes every key that no other field has."""
KEY = {"key": True}
"""The metadata of a field that gets the name of its table in a table of tables."""


def read_files(kind: type[Entry], folder: Path, *names: str) -> Entry:
    """The files `name.toml` and `name_*.toml` as one: tables are merged, lists at the top joined.

    Raises `ScenarioError`, whose message is one line that names file and key.
    """
    each = ([folder / f"{name}.toml", *sorted(folder.glob(f"{name}_*.toml"))] for name in names)
    whole: dict[str, Any] = {}
    others: dict[str, Where] = {}
    for file in chain(*each):
        where = Where(f"{folder.name}/{file.name}", others=others)
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise where.error(str(reason)) from error
        _merge(whole, data, where, others)
    first = f"{names[0]}.toml" if len(names) == 1 else "*.toml"
    made: Entry = read(kind, whole, Where(f"{folder.name}/{first}", others=others))
    return made


def _merge(
    whole: dict[str, Any], table: Mapping[str, Any], where: Where, others: dict[str, Where]
) -> None:
    """Add a file's table to those of files before it; `others` gets the places of its keys."""
    for key, value in table.items():
        at = Where(where.file, where.at(key).key, others)
        before = whole.get(key)
        if before is None:
            whole[key], others[at.key] = value, at
        elif isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value, at, others)
        elif isinstance(before, list) and isinstance(value, list) and not where.key:
            for i in range(len(value)):
                others[f"{at.key}[{len(before) + i}]"] = Where(at.file, f"{at.key}[{i}]")
            before += value
        else:
            raise at.error("is in another file, too: give it once")


def read(kind: Any, value: Any, where: Where, name: str = "") -> Any:
    """A value of TOML as a `kind`: a dataclass, or a type that a field of one may have.

    `name`: that of the table.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated and isinstance(arguments[1], Tag):
        return _read_tagged(get_args(arguments[0]), arguments[1].key, value, where)
    if origin is Annotated and isinstance(arguments[1], Some):
        if found := read(arguments[0], value, where):
            return found
        raise where.error(f"expected at least one {arguments[1].what}, got []")
    if origin in (Union, UnionType):
        (kind,) = (one for one in arguments if one is not NoneType)
        return read(kind, value, where)
    if origin is Literal:
        where.one_of(read(str, value, where), [one for one in arguments if one])
        return value
    if is_dataclass(kind):
        found = _fields(kind, _table(value, where), where)
        return _made(kind, {**found, **dict.fromkeys(_keys(kind), name)}, where)
    if origin in (tuple, list, Sequence):
        return _read_list(arguments, value, where)
    if origin is Mapping:
        table = _table(value, where)
        return {key: read(arguments[1], one, where.at(key), key) for key, one in table.items()}
    return _read_scalar(kind, value, where)


def check_call(function: Callable[..., object], arguments: Values, kind: Any, where: Where) -> None:
    """Check a function's arguments, the further keys of an entry of type `kind`, by name and type.

    The first parameter is not among them.
    """
    hints = get_type_hints(function)
    _, *parameters = inspect.signature(function).parameters.values()
    known = [one.name for one in parameters]
    for key, value in arguments.items():
        _known(key, [*known, *_named(kind)[0]], where)
        read(hints[key], value, where.at(key))
    for one in parameters:
        if one.default is one.empty and one.name not in arguments:
            raise where.at(one.name).error("missing")


def _fields(kind: Any, table: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The values of a table by the name of their field."""
    hints = get_type_hints(kind, include_extras=True)
    named, rest = _named(kind)
    found, others = {}, {}
    for key, value in table.items():
        if key in named:
            found[named[key]] = read(hints[named[key]], value, where.at(key))
        elif rest:
            others[key] = value
        else:
            _known(key, list(named), where)
    if rest:
        missing = [name for name in _required(kind) if name not in found]
        for key in others:
            if missing and "did you mean" in expected_one_of(key, missing):
                _known(key, list(named), where)
        found[rest] = read(hints[rest], others, where)
    return found


def _named(kind: Any) -> tuple[dict[str, str], str | None]:
    """The fields by their keys in TOML, and the field for all other keys."""
    hints = get_type_hints(kind)
    own = [one for one in in_order(kind) if hints[one.name] is not Where]
    named = {one.name.rstrip("_"): one.name for one in own if not one.metadata}
    return named, next((one.name for one in own if "rest" in one.metadata), None)


def in_order(kind: Any) -> list[Field[Any]]:
    """The fields of a type, those that it has from another one last."""
    return sorted(fields(kind), key=lambda one: one.kw_only is True)


def _keys(kind: Any) -> list[str]:
    """The fields that get the name of the table."""
    return [one.name for one in fields(kind) if "key" in one.metadata]


def _made(kind: Any, found: Mapping[str, Any], where: Where) -> Any:
    """A dataclass of these values, checked."""
    for name in _required(kind):
        if name not in found:
            raise where.at(name.rstrip("_")).error("missing")
    hints = get_type_hints(kind)
    places = {one.name: where for one in fields(kind) if hints[one.name] is Where}
    made = kind(**found, **places)
    if hasattr(made, "validate"):
        made.validate(where)
    return made


def _required(kind: Any) -> list[str]:
    """The names of the fields without a default."""
    return [
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    ]


def _known(key: str, known: Sequence[str], where: Where) -> None:
    """Raise the error of a key that is not one of `known`."""
    if key not in known:
        raise where.at(key).error(f"unknown key, {expected_one_of(key, list(known))}")


def _read_tagged(kinds: Sequence[Any], tag: str, value: Any, where: Where) -> Any:
    by_kind = {kind.kind: kind for kind in kinds}
    table = dict(_table(value, where))
    if tag not in table:
        raise where.at(tag).error(f"missing, expected one of {', '.join(by_kind)}")
    word = table.pop(tag)
    where.at(tag).one_of(read(str, word, where.at(tag)), list(by_kind))
    return read(by_kind[word], table, where)


def _read_list(kinds: Sequence[Any], value: Any, where: Where) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _unexpected("a list", value, where)
    if kinds[-1] is Ellipsis or len(kinds) == 1:
        kinds = [kinds[0]] * len(value)
    if len(kinds) != len(value):
        raise _unexpected(f"a list of {len(kinds)}", value, where)
    pairs = zip(kinds, value, strict=True)
    return tuple(read(kind, one, where.at(i)) for i, (kind, one) in enumerate(pairs))


NAMES = {bool: "true or false", int: "a whole number", float: "a number"}


def _read_scalar(kind: Any, value: Any, where: Where) -> Any:
    wanted = str if issubclass(kind, str) else (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise _unexpected(NAMES.get(kind, "a string"), value, where)
    return value if kind in NAMES else kind(value)


def _table(value: Any, where: Where) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _unexpected("a table", value, where)
    return value


def _unexpected(wanted: str, value: Any, where: Where) -> ScenarioError:
    try:
        got = toml_value(value)
    except ScenarioError:  # such as a date
        got = str(value)
    return where.error(f"expected {wanted}, got {got}")
