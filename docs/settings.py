"""Tables of settings, written from the dataclasses so that they cannot disagree with the code."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import oort

CONFIGS = (
    oort.TrainingConfig,
    oort.ExplorationConfig,
    oort.PacerConfig,
    oort.TestingConfig,
)


def write(folder: Path) -> None:
    """One Markdown file per configuration class."""
    for config in CONFIGS:
        (folder / f"{config.__name__}.md").write_text(table(config), encoding="utf-8")


def table(config: Any) -> str:
    """What the class is for, and one row per setting: name, type, default, meaning.

    Raises:
        ValueError: A setting says nothing about itself.
    """
    lines = [
        _summary(config),
        "",
        "| setting | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for field in dataclasses.fields(config):
        if "doc" not in field.metadata:
            message = f"{config.__name__}.{field.name} must have metadata['doc']; got none"
            raise ValueError(message)
        cells = (f"`{field.name}`", f"`{_type(field)}`", f"`{_default(field)}`")
        lines.append(f"| {' | '.join(cells)} | {field.metadata['doc']} |")
    return "\n".join([*lines, ""])


def _summary(config: Any) -> str:
    return (inspect.getdoc(config) or "").split("\n\n")[0].replace("\n", " ")


def _type(field: dataclasses.Field[Any]) -> str:
    text = field.type if isinstance(field.type, str) else field.type.__name__
    return text.replace("|", "or")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{type(field.default_factory()).__name__}()"
    if field.default is dataclasses.MISSING:
        return "required"
    return repr(field.default)
