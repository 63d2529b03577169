"""The tree of errors is what its drawing says."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

import oort
from oort import errors


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """Class -> (parent, builtin) as drawn in the module's docstring."""
    found: dict[str, tuple[str | None, str | None]] = {}
    parents: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│ ]*)(?:[├└]── )?([A-Z]\w+)(?: \((\w+)\))?(?:  |$)", line)
        if match:
            branch = "── " in line
            depth = len(match[1]) // 4 + 1 if branch else 0
            del parents[depth:]
            found[match[2]] = (parents[-1] if parents else None, match[3])
            parents.append(match[2])
    return found


def defined() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }


def test_the_drawing_has_every_class() -> None:
    assert set(drawn()) == set(defined())
    assert len(drawn()) > 12


@pytest.mark.parametrize("name", sorted(drawn()))
def test_each_class_inherits_what_is_drawn(name: str) -> None:
    import builtins

    parent, builtin = drawn()[name]
    bases = {base.__name__ for base in defined()[name].__bases__}
    if parent is not None:
        assert parent in bases
    if builtin is not None:
        assert issubclass(defined()[name], getattr(builtins, builtin))


def test_every_error_is_public_and_can_be_sent_between_processes() -> None:
    for name, cls in defined().items():
        assert getattr(oort, name) is cls
        again = pickle.loads(pickle.dumps(cls("what is wrong")))  # noqa: S301
        assert (type(again), str(again)) == (cls, "what is wrong")


def test_an_unknown_client_reads_as_a_sentence_although_it_is_a_key_error() -> None:
    selector = oort.create_training_selector()
    with pytest.raises(KeyError) as caught:
        selector.rows(["nobody"])
    assert str(caught.value) == "client 'nobody' is not known"
