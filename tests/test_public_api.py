"""What ``import oort`` offers, and that every package's map is complete."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import oort
from oort.baselines import RoundRobinSelector, UniformSelector

SOURCE = Path(oort.__file__).parent


def packages() -> list[Path]:
    return [path.parent for path in sorted(SOURCE.glob("*/**/__init__.py"))]


def test_all_is_sorted_complete_and_importable() -> None:
    assert oort.__all__ == sorted(oort.__all__)
    assert len(set(oort.__all__)) == len(oort.__all__)
    imported = {
        name
        for name, value in vars(oort).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert imported == set(oort.__all__)


def test_every_public_name_says_what_it_is() -> None:
    for name in oort.__all__:
        value = getattr(oort, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for method, member in vars(value).items():
                if inspect.isfunction(member) and not method.startswith("_"):
                    assert inspect.getdoc(member), f"{name}.{method}"


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+([ab.]\S+)?", oort.__version__)


@pytest.mark.parametrize("package", packages(), ids=lambda path: path.name)
def test_a_packages_map_names_every_module_in_it(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    modules = {info.name for info in pkgutil.iter_modules([str(package)])}
    mapped = {match[1] for match in re.finditer(r"^ *(\w+) {2,}\S", docstring, re.MULTILINE)}
    assert modules - mapped == set(), f"missing from the docstring of {package.name}"


def test_selectors_of_every_strategy_meet_the_protocol() -> None:
    for selector in (oort.create_training_selector(), UniformSelector(), RoundRobinSelector()):
        assert isinstance(selector, oort.TrainingSelector)


def test_the_protocols_signatures_are_those_of_the_selector() -> None:
    for name, member in vars(oort.TrainingSelector).items():
        if name.startswith("_") or not inspect.isfunction(member):
            continue
        ours = inspect.signature(getattr(type(oort.create_training_selector()), name))
        wanted = inspect.signature(member)
        assert [(p.name, p.kind, p.default) for p in ours.parameters.values()] == [
            (p.name, p.kind, p.default) for p in wanted.parameters.values()
        ], name
