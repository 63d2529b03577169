"""Randomness is derived from seed, round and purpose."""

from __future__ import annotations

import numpy as np

from oort.randomness import generator_for


def test_seed_round_and_purpose_each_make_another_generator() -> None:
    keys = [(s, r, p) for s in (0, 1, 2**70) for r in (0, 1, 2) for p in ("select", "uniform")]
    first = {key: generator_for(*key).random() for key in keys}
    assert len(set(first.values())) == len(keys)
    assert first == {key: generator_for(*key).random() for key in keys}


def test_the_numbers_of_one_key_are_fixed_for_ever() -> None:
    drawn = generator_for(7, 3, "select").integers(0, 1000, 5)
    expected = np.random.default_rng(
        np.random.SeedSequence(7, spawn_key=(3, 1274211008))
    ).integers(0, 1000, 5)
    assert drawn.tolist() == expected.tolist()
