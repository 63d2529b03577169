"""Flower: your strategy and your clients, with participants picked by Oort.

On the server, for either API:

    message     the message API: OortStrategy around any flwr.serverapp.strategy
    classic     the classic API: OortClassicStrategy around any flwr.server.strategy

and what they are made of:

    config      how rounds are run
    conductor   pick, wait, report: the only module that talks to selectors
    cohort      one round under way
    roster      which client a node is, across restarts
    reports     what a client says beside its update
    assignment  what a client is told to test on
    inner       what your strategy says of itself
    gridview    what your strategy sees of the grid
    asking      asking nodes who they are
    clients     what your classic strategy sees of the clients
    versions    which versions of Flower were tested

On clients:

    client      the loss of every sample, the duration, and who the client is
"""

from importlib.util import find_spec

from oort.errors import missing_extra

if find_spec("flwr") is None:
    missing_extra("oort.integrations.flower", "flwr", "flower")

from oort.integrations.flower.assignment import samples_to_test
from oort.integrations.flower.classic import OortClassicStrategy
from oort.integrations.flower.client import (
    ClientReport,
    describing_mod,
    introduce,
    keras_losses,
    oort_mod,
)
from oort.integrations.flower.cohort import RoundSummary
from oort.integrations.flower.config import FlowerConfig
from oort.integrations.flower.message import OortStrategy

__all__ = [
    "ClientReport",
    "FlowerConfig",
    "OortClassicStrategy",
    "OortStrategy",
    "RoundSummary",
    "describing_mod",
    "introduce",
    "keras_losses",
    "oort_mod",
    "samples_to_test",
]
