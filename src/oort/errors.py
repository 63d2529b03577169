"""Every error that Oort raises, and every warning that it gives.

    OortError
    ├── InvalidArgumentError (ValueError)      an argument of a call is wrong
    │   ├── InvalidClientIdError               not a string or a 64-bit integer
    │   ├── InvalidFeedbackError               a client's report cannot be used
    │   ├── RoundError                         a round that is not open, or not yet
    │   ├── InvalidClientInfoError             what is said of a client cannot be used
    │   └── InvalidRequestError                a request for test data that means nothing
    │       └── UnknownCategoryError           it names a category that nobody was said to have
    ├── InfeasibleRequestError (ValueError)    a request for test data that cannot be met
    │   ├── NotEnoughSamplesError              the clients lack samples
    │   └── BudgetTooSmallError                the budget lacks participants
    ├── OutOfTimeError (TimeoutError)          the time limit passed before any plan was found
    ├── ConfigError (ValueError)               a setting is wrong, or settings disagree
    ├── UnknownClientError (KeyError)          a client that was never seen
    ├── SaveFileError (OSError)                a saved selector cannot be read or written
    │   ├── DamagedFileError                   bytes are missing or changed
    │   └── NewerFileError                     written by a newer version
    ├── WaitTimeoutError (TimeoutError)        waited for an engine's clients in vain
    ├── StoreError (OSError)                   a durable store cannot be used
    │   ├── StoreUnavailableError              not now: full, unreachable, locked; try again
    │   ├── DamagedStoreError                  bytes in it are missing or changed
    │   ├── NewerStoreError                    written by a newer version
    │   └── LeaseError                         another process drives the job
    ├── MissingExtraError (ImportError)        an optional dependency is not installed
    └── MissingDataError (FileNotFoundError)   a dataset's files are not there

    OortWarning (UserWarning)
    ├── StaleFeedbackWarning                   a report that came too late to be used
    ├── IncompleteClientWarning                clients left out: something about them is unknown
    ├── ConfigWarning                          settings that will not do what they promise
    ├── EngineWarning                          an engine, or clients, that do not do their part
    └── PrivacyWarning                         a promise that guided selection does not keep

Each inherits a builtin too, so that ``except ValueError`` works as everywhere else. Messages have
one shape: what is wrong, what it must be, what was given.
"""

from __future__ import annotations

from typing import Any, NoReturn


class OortError(Exception):
    """The root: whatever Oort raises on purpose."""


class InvalidArgumentError(OortError, ValueError):
    """An argument of a call is wrong."""


class InvalidClientIdError(InvalidArgumentError):
    """A client id is neither a string nor an integer from −2⁶³ to 2⁶⁴−1."""


class InvalidFeedbackError(InvalidArgumentError):
    """A client's report cannot be used; the message names client, field and value."""


class RoundError(InvalidArgumentError):
    """A call names a round that is not open or has not happened."""


class InvalidClientInfoError(InvalidArgumentError):
    """What is said of a client cannot be used; the message names client, field and value."""


class InvalidRequestError(InvalidArgumentError):
    """A request for test data is empty or means nothing."""


class UnknownCategoryError(InvalidRequestError):
    """A request names a category that no client was said to have."""


class InfeasibleRequestError(OortError, ValueError):
    """A request for test data that cannot be met."""


class NotEnoughSamplesError(InfeasibleRequestError):
    """The clients that may be asked lack samples.

    Attributes:
        lacking: Samples that are missing of each category.
        together: Whether each category alone would be there, and only caps on clients stand in the
            way.
    """

    def __init__(
        self, message: str, lacking: dict[Any, int] | None = None, *, together: bool = False
    ) -> None:
        super().__init__(message)
        self.lacking = lacking or {}
        self.together = together


class BudgetTooSmallError(InfeasibleRequestError):
    """No plan keeps to the budget, or none was found.

    Attributes:
        budget: The participants allowed.
        least_found: The least budget that is known to work; none where the search found no plan at
            all.
        proven_minimum: The budget below which no plan exists.
    """

    def __init__(
        self,
        message: str,
        *,
        budget: int = 0,
        least_found: int | None = None,
        proven_minimum: int = 0,
    ) -> None:
        super().__init__(message)
        self.budget = budget
        self.least_found = least_found
        self.proven_minimum = proven_minimum


class OutOfTimeError(OortError, TimeoutError):
    """The time limit passed before any plan was found."""


class ConfigError(OortError, ValueError):
    """A setting is wrong, or settings contradict one another."""


class UnknownClientError(OortError, KeyError):
    """A client that was never registered, selected or reported."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SaveFileError(OortError, OSError):
    """A saved selector cannot be read or written."""


class DamagedFileError(SaveFileError):
    """A saved selector whose bytes are missing or changed."""


class NewerFileError(SaveFileError):
    """A saved selector written by a version that this one does not know."""


class WaitTimeoutError(OortError, TimeoutError):
    """Waited for an engine's clients in vain; the message says how long, and what to do."""


class StoreError(OortError, OSError):
    """A durable store cannot be used: a wrong address, no permission, no such job."""


class StoreUnavailableError(StoreError):
    """A durable store cannot be used now: its disk is full, its server away, its file locked.

    The call that raised it has changed nothing, unless the message says that this is not known;
    it may be repeated.
    """


class DamagedStoreError(StoreError):
    """Bytes of a durable store are missing or changed; the message says which."""


class NewerStoreError(StoreError):
    """A durable store written by a version that this one does not know."""


class LeaseError(StoreError):
    """Another process drives the job, or has taken it over from this one."""


class MissingExtraError(OortError, ImportError):
    """An optional dependency is not installed; the message holds the pip line that cures it."""


class MissingDataError(OortError, FileNotFoundError):
    """A dataset's files are not there; the message says how to get them."""


class OortWarning(UserWarning):
    """The root of Oort's warnings."""


class StaleFeedbackWarning(OortWarning):
    """A report for a round so old that Oort no longer knows whether it was counted."""


class IncompleteClientWarning(OortWarning):
    """Clients that are left out of a plan because something about them is unknown."""


class ConfigWarning(OortWarning):
    """Settings that are valid but will not do what they promise."""


class EngineWarning(OortWarning):
    """An engine version, or a client, that does not do what our adapter relies on."""


class PrivacyWarning(OortWarning):
    """A privacy promise that does not hold when participants are picked by utility."""


def require(holds: bool, setting: str, must_be: str, got: object) -> None:
    """Raise the one shape of configuration error unless the condition holds.

    >>> require(False, "PacerConfig.window", "at least one round", 0)
    Traceback (most recent call last):
    oort.errors.ConfigError: PacerConfig.window must be at least one round; got 0
    """
    if not holds:
        message = f"{setting} must be {must_be}; got {got!r}"
        raise ConfigError(message)


def missing_extra(feature: str, package: str, extra: str) -> NoReturn:
    """Say which package a feature needs and how to get it.

    >>> missing_extra("oort.plots", "matplotlib", "plots")
    Traceback (most recent call last):
    oort.errors.MissingExtraError: oort.plots needs 'matplotlib': pip install 'oort-fl[plots]'
    """
    message = f"{feature} needs '{package}': pip install 'oort-fl[{extra}]'"
    raise MissingExtraError(message)
