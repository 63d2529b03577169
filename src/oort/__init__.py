"""Guided participant selection for federated learning: who trains, and who tests."""

from oort.errors import OortError
from oort.testing import ClientResult, TakeAll, create_testing_selector

__version__ = "0.1.0"
__all__ = ["ClientResult", "OortError", "TakeAll", "create_testing_selector"]
