"""Settings that check themselves: what a value must be stands beside the field that holds it.

    Rule              what is allowed, in words, and how a given value is taken in
    number, whole, one_of, flag, text, file_name, maybe ...    the rules in use
    setting           a dataclass field with a default, a rule and one line of documentation
    Settings          base of the sections of a simulation config; checks every field when built
    build             a section from the table of a TOML file, refusing keys that it does not have

Messages name the key as it is written in the file: ``data.alpha must be a number above 0, up to
1e12; got -1``.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from oort.errors import ConfigError, require

MOST = 10**9  #: the largest whole number: the product of two of them fits into 64 bits
LONGEST_NAME = 200  #: bytes; file systems allow 255 for a name
LARGEST = 1e12  #: the largest real number: what is computed from a few of them stays finite

_Section = TypeVar("_Section", bound="Settings")


class Rule(NamedTuple):
    """What a setting must be: in words, and as a function that gives what to keep or raises."""

    allowed: str
    accept: Callable[[Any], Any]


def number(low: float = 0.0, high: float = LARGEST, *, above: bool = False) -> Rule:
    """A real number from ``low`` (or above it) to ``high``.

    >>> number(0, 1).allowed
    'a number from 0 to 1'
    """
    first = f"a number above {low:g}, up to" if above else f"a number from {low:g} to"

    def accept(value: Any) -> float:
        if isinstance(value, (bool, str)):
            raise TypeError
        real = float(value)  # of a whole number beyond all floats: an OverflowError
        if not (math.isfinite(real) and (low < real if above else low <= real) and real <= high):
            raise ValueError
        return real

    return Rule(f"{first} {high:g}".replace("e+", "e"), accept)


def whole(low: int, high: int = MOST) -> Rule:
    """A whole number from ``low`` to ``high``.

    >>> whole(1).allowed
    'a whole number from 1 to 1000000000'
    """

    def accept(value: Any) -> int:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)
        if not low <= count <= high:
            raise ValueError
        return count

    return Rule(f"a whole number from {low} to {high}", accept)


def one_of(*names: str, other: str = "", with_any: str = "") -> Rule:
    """One of these names, or what ``other`` describes: a text with any of these characters.

    >>> one_of("always", "daily").allowed
    "one of 'always', 'daily'"
    >>> one_of("equal", other="a path", with_any="./").accept("sizes.npy")
    'sizes.npy'
    """

    def accept(value: Any) -> str:
        if not isinstance(value, str) or (value not in names and not set(value) & set(with_any)):
            raise ValueError
        return value

    listed = f"one of {', '.join(map(repr, names))}"
    return Rule(f"{listed}, or {other}" if other else listed, accept)


def flag() -> Rule:
    """True or false."""

    def accept(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    return Rule("true or false", accept)


def text(what: str = "text") -> Rule:
    """Any text that is not empty."""

    def accept(value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise TypeError
        return value

    return Rule(what, accept)


def label() -> Rule:
    """Text that fits into a line of a table and, with a number, into the name of a folder.

    >>> label().accept("a b")
    'a b'
    """

    def accept(value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError
        if len(value.encode()) > LONGEST_NAME:
            raise ValueError
        return value

    return Rule(f"a name in one line, {LONGEST_NAME} bytes at most", accept)


def file_name() -> Rule:
    """Text that can be the name of a folder on any system.

    >>> file_name().accept("day 2")
    'day 2'
    """

    def accept(value: Any) -> str:
        allowed = isinstance(value, str) and all(c.isalnum() or c in "-_. " for c in value)
        if not allowed or not value.strip(". ") or len(value.encode()) > LONGEST_NAME:
            raise ValueError
        return str(value)

    words = "a name of letters, digits, spaces, '-', '_' and '.'"
    return Rule(f"{words}, {LONGEST_NAME} bytes at most", accept)


def several(rule: Rule, what: str, *, empty: bool = False) -> Rule:
    """A list of which every entry follows the rule; kept as a tuple.

    >>> several(one_of("a", "b"), "a list of letters").allowed
    "a list of letters, each one of 'a', 'b'"
    """

    def accept(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence) or not (value or empty):
            raise TypeError
        return tuple(rule.accept(v) for v in value)

    return Rule(f"{what}, each {rule.allowed}", accept)


def maybe(rule: Rule) -> Rule:
    """The rule, or nothing (the key left out)."""
    return Rule(rule.allowed, lambda value: None if value is None else rule.accept(value))


def table() -> Rule:
    """A table of free keys, kept as a plain dict."""

    def accept(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        return dict(value)

    return Rule("a table", accept)


def quotas(*names: str, of: str) -> Rule:
    """One of these names, or a table of numbers of labels and how many of each.

    >>> quotas("balanced", of="a table").accept({"3": 100})
    {'3': 100}
    """
    name, count = one_of(*names), whole(1)

    def accept(value: Any) -> str | dict[str, int]:
        if not isinstance(value, Mapping):
            return str(name.accept(value))
        if not value or not all(str(label).isdecimal() for label in value):
            raise ValueError
        return {str(label): int(count.accept(samples)) for label, samples in value.items()}

    return Rule(f"{name.allowed}, or {of}", accept)


def setting(default: Any, rule: Rule, doc: str) -> Any:
    """A field of a section: its default, what it must be, what it means."""
    metadata = {"rule": rule, "doc": doc}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A section of a simulation config: every field is checked against its rule when built."""

    section: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for f in fields(self):
            rule = f.metadata.get("rule")
            if rule is not None:
                object.__setattr__(
                    self, f.name, checked(rule, self.key(f.name), getattr(self, f.name))
                )

    @classmethod
    def key(cls, name: str) -> str:
        """The key as a config file writes it."""
        return f"{cls.section}.{name}" if cls.section else name


def checked(rule: Rule, key: str, value: Any) -> Any:
    """The value to keep, or the one shape of error.

    >>> checked(number(0, 1), "data.corrupt_labels", 2)
    Traceback (most recent call last):
    oort.errors.ConfigError: data.corrupt_labels must be a number from 0 to 1; got 2
    """
    try:
        return rule.accept(value)
    except (TypeError, ValueError, OverflowError):
        require(False, key, rule.allowed, value)


def build(cls: type[_Section], values: Any) -> _Section:
    """A section from a table.

    Raises:
        ConfigError: A key is unknown (the message offers the nearest one or lists all) or a value
        is wrong.
    """
    require(isinstance(values, Mapping), cls.section or "the config", "a table", values)
    names = [f.name for f in fields(cls)]
    for name in values:
        if name not in names:
            refuse_key(str(name), names, cls.section)
    return cls(**values)


def refuse_key(name: str, names: Sequence[str], section: str) -> None:
    """Say that a section has no such key, which one is near, and which there are."""
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    where = f"[{section}]" if section else "the config"
    message = f"{where} has no key {name!r}; {hint}the keys are {', '.join(names)}"
    raise ConfigError(message)
