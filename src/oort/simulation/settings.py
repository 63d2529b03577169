"""Settings that check themselves: what a value must be stands beside the field that holds it.

    Rule              what is allowed, in words, and how a given value is taken in
    number, whole, one_of, flag, text, numbers, maybe     the rules in use
    setting           a dataclass field with a default, a rule and one line of documentation
    Settings          base of the sections of a simulation config; checks every field when built
    build             a section from the table of a TOML file, refusing keys that it does not have

Messages name the key as it is written in the file: ``data.alpha must be a number above 0; got
-1``.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from oort.errors import ConfigError, require

_Section = TypeVar("_Section", bound="Settings")


class Rule(NamedTuple):
    """What a setting must be: in words, and as a function that gives what to keep or raises."""

    allowed: str
    accept: Callable[[Any], Any]


def number(low: float = 0.0, high: float = math.inf, *, above: bool = False) -> Rule:
    """A real number from ``low`` (or above it) to ``high``.

    >>> number(0, 1).allowed
    'a number from 0 to 1'
    """
    first = f"a number {'above' if above else 'from'} {low:g}"

    def accept(value: Any) -> float:
        if isinstance(value, (bool, str)):
            raise TypeError
        real = float(value)
        if not (math.isfinite(real) and (low < real if above else low <= real) and real <= high):
            raise ValueError
        return real

    return Rule(first if math.isinf(high) else f"{first} to {high:g}", accept)


def whole(low: int) -> Rule:
    """A whole number, ``low`` or more."""

    def accept(value: Any) -> int:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)
        if count < low:
            raise ValueError
        return count

    return Rule(f"a whole number, {low} or more", accept)


def one_of(*names: str, other: str = "") -> Rule:
    """One of these names, or with ``other`` any text that the words describe.

    >>> one_of("always", "daily").allowed
    "one of 'always', 'daily'"
    """

    def accept(value: Any) -> str:
        if not isinstance(value, str) or not value or (value not in names and not other):
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


def file_name() -> Rule:
    """Text that can be the name of a folder on any system.

    >>> file_name().accept("day 2")
    'day 2'
    """

    def accept(value: Any) -> str:
        allowed = isinstance(value, str) and all(c.isalnum() or c in "-_. " for c in value)
        if not allowed or not value.strip(". "):
            raise ValueError
        return str(value)

    return Rule("a name of letters, digits, spaces, '-', '_' and '.'", accept)


def several(rule: Rule, what: str, *, empty: bool = False) -> Rule:
    """A list of which every entry follows the rule; kept as a tuple."""

    def accept(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence) or not (value or empty):
            raise TypeError
        return tuple(rule.accept(v) for v in value)

    return Rule(what, accept)


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
    except (TypeError, ValueError):
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
