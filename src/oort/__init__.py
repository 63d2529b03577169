"""Guided participant selection for federated learning: who trains, and who tests."""

from oort.errors import OortError

__version__ = "0.1.0"
__all__ = ["OortError"]
