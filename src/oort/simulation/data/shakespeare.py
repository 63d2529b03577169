"""Shakespeare's plays, a client per role: predict the next character from the ones before.

The file holds one JSON object per line: ``{"client": "play::ROLE", "text": …}``. The last tenth of
every role's text is kept for testing, so that test and training know the same roles but not the
same lines.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from oort.errors import ConfigError, DamagedFileError, require
from oort.randomness import generator_for
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.missing import missing_data
from oort.simulation.data.partition import by_owner
from oort.simulation.files import UNREADABLE, unpacked
from oort.types import Integers, Rows

FILE = "shakespeare_roles.jsonl.gz"
#: capitals count as small letters; the last stands for the rest
ALPHABET = " abcdefghijklmnopqrstuvwxyz'-,.;:!?&\n"
TEST_SHARE = 0.1
MOST_TEST_SAMPLES = 10_000
CURE = (
    f"set data.path to a folder with {FILE}, a line {{'client': 'play::ROLE', 'text': '…'}} per "
    "role (the plays are in the public domain: gutenberg.org/ebooks/100), or set OORT_DATA to the "
    "folder that holds shakespeare/"
)


def load(config: DataConfig, *, seed: int) -> PooledData:
    """Windows of characters, by role."""
    if config.partition not in (None, "natural"):
        wanted = "data.partition must be 'natural' for shakespeare, whose clients are roles"
        message = f"{wanted}; got {config.partition!r}"
        raise ConfigError(message)
    texts = [encoded(text) for text in _texts(_file(config))]
    longest = int(max(map(len, texts)) * (1 - TEST_SHARE))
    require(config.context < longest, "data.context", f"below {longest}", config.context)
    texts = [
        t for t in texts if len(t) * (1 - TEST_SHARE) >= config.context + config.smallest_size
    ]
    enough = "so small that some role has as many samples to train on"
    require(bool(texts), "data.smallest_size", enough, config.smallest_size)
    cuts = [int(len(t) * (1 - TEST_SHARE)) for t in texts]
    train = [windows(t[:cut], config.context) for t, cut in zip(texts, cuts, strict=True)]
    test = [windows(t[cut:], config.context) for t, cut in zip(texts, cuts, strict=True)]
    owner = np.repeat(np.arange(len(train)), [len(w) for w in train])
    index, start = by_owner(
        owner, smallest_size=config.smallest_size, num_clients=config.clients, seed=seed
    )
    held_out = np.concatenate(test)
    short = f"so small that a tenth of some role's text is longer than data.context ({FILE})"
    require(len(held_out) > 0, "data.context", short, config.context)
    rows = generator_for(seed, 0, "shakespeare test").permutation(len(held_out))[
        :MOST_TEST_SAMPLES
    ]
    return PooledData(
        "shakespeare",
        _split(np.concatenate(train)),
        test=_split(held_out[np.sort(rows)]),
        index=index,
        start=start,
        encoding=Encoding(num_tokens=len(ALPHABET)),
        num_classes=len(ALPHABET),
    )


def encoded(text: str) -> Integers:
    """Characters as their places in the alphabet.

    >>> encoded("Ab!é").tolist()
    [1, 2, 33, 36]
    """
    places = {c: i for i, c in enumerate(ALPHABET)}
    return np.array([places.get(c, len(ALPHABET) - 1) for c in text.lower()], np.uint8)


def windows(tokens: Integers, context: int) -> Integers:
    """Every run of ``context`` characters with the one that follows it.

    >>> windows(np.array([1, 2, 3, 4]), 2).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    if len(tokens) <= context:
        return np.zeros((0, context + 1), tokens.dtype)
    return np.lib.stride_tricks.sliding_window_view(tokens, context + 1)


def _split(window: Integers) -> Samples:
    labels: Rows = window[:, -1].astype(np.int64)
    return Samples(np.ascontiguousarray(window[:, :-1]), labels)


def _file(config: DataConfig) -> Path:
    root = os.environ.get("OORT_DATA")
    folders = (
        [Path(config.path)] if config.path else [Path(root) / "shakespeare"] if root else [Path()]
    )
    path = folders[0] / FILE
    if not path.is_file():
        missing_data("shakespeare", path, CURE)
    return path


def _texts(path: Path) -> list[str]:
    try:
        texts = [str(json.loads(line)["text"]) for line in unpacked(path).splitlines() if line]
    except UNREADABLE as error:
        message = f"{path} must hold a line {{'client': …, 'text': …}} per role; got {error!r}"
        raise DamagedFileError(message) from error
    if not texts:
        message = f"{path} must hold a line {{'client': …, 'text': …}} per role; got none"
        raise DamagedFileError(message)
    return texts
