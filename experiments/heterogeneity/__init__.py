"""How heterogeneous clients are: the paper's Figures 1 and 2 and Table 1 beside our data.

derive     what the simulator ships, derived from the traces
measure    our statistics beside the paper's
draw       pictures of them

``oort reproduce heterogeneity`` runs the last two; it needs the traces (``OORT_DATA``).
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from oort.errors import MissingDataError

HELP = "Figures 1 and 2 and Table 1: how data, devices and availability differ between clients"
RESULTS = Path(__file__).parent / "results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--seed", type=int, default=1, help="of pairs and generated clients")


def run(options: argparse.Namespace) -> int:
    """Measure, write results.json and the pictures, print the table."""
    from experiments.heterogeneity.draw import draw
    from experiments.heterogeneity.measure import lines, measure

    root = os.environ.get("OORT_DATA")
    if not root or not Path(root).is_dir():
        message = "the traces must be in the folder that OORT_DATA names; got none"
        raise MissingDataError(message)
    found = measure(Path(root), seed=options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, options.out)
    for line in lines(found):
        print(line)
    print(f"wrote {options.out / 'results.json'} and pictures beside it")
    return 0
