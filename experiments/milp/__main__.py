"""``python -m experiments.milp``: the same as ``oort reproduce milp``."""

from __future__ import annotations

import argparse
import sys

from experiments import milp

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m experiments.milp", description=milp.HELP)
    milp.add_arguments(parser)
    sys.exit(milp.run(parser.parse_args()))
