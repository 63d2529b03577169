"""``python -m experiments.scale``: the same as ``oort reproduce scale``."""

from __future__ import annotations

import argparse
import sys

from experiments import scale

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m experiments.scale", description=scale.HELP)
    scale.add_arguments(parser)
    sys.exit(scale.run(parser.parse_args()))
