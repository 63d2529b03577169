"""The figures that ship with Oort: what real devices, datasets and availability look like.

Quantiles and shares derived from published traces (each file names its source);
``experiments/heterogeneity`` derives them again from the traces.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from oort.types import Floats


@cache
def table(name: str) -> dict[str, Any]:
    """One table: "devices", "client_sizes" or "availability".

    >>> table("devices")["source"]
    'FedScale device capacity trace, 51,496 phones, Apache-2.0'
    """
    text = (
        files("oort.simulation")
        .joinpath("figures")
        .joinpath(f"{name}.json")
        .read_text(encoding="utf-8")
    )
    values: dict[str, Any] = json.loads(text)
    return values


def at_quantile(quantiles: Any, u: Floats) -> Floats:
    """The values at these places of a distribution given by evenly spaced quantiles.

    >>> at_quantile([0.0, 10.0, 30.0], np.array([0.25, 0.5, 1.0]))
    array([ 5., 10., 30.])
    """
    levels = np.linspace(0.0, 1.0, len(quantiles))
    return np.interp(u, levels, np.asarray(quantiles, dtype=np.float64))
