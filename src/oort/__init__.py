"""Guided participant selection for federated learning: who trains, and who tests.

>>> import oort
>>> selector = oort.create_training_selector(oort.TrainingConfig(seed=7))
>>> selector.register_client("phone-17", num_samples=120, expected_duration_s=42.0)
>>> selector.select_participant(100)
['phone-17']
>>> feedback = oort.Feedback(num_samples=120, mean_squared_loss=1.9, duration_s=38.5)
>>> selector.update_client_util("phone-17", feedback)
"""

from oort.config import ExplorationConfig, PacerConfig, TestingConfig, TrainingConfig
from oort.errors import (
    BudgetTooSmallError,
    ConfigError,
    ConfigWarning,
    DamagedFileError,
    DamagedStoreError,
    EngineWarning,
    IncompleteClientWarning,
    InfeasibleRequestError,
    InvalidArgumentError,
    InvalidClientIdError,
    InvalidClientInfoError,
    InvalidFeedbackError,
    InvalidRequestError,
    LeaseError,
    MissingExtraError,
    NewerFileError,
    NewerStoreError,
    NotEnoughSamplesError,
    OortError,
    OortWarning,
    OutOfTimeError,
    PrivacyWarning,
    RoundError,
    SaveFileError,
    StaleFeedbackWarning,
    StoreError,
    StoreUnavailableError,
    UnknownCategoryError,
    UnknownClientError,
    WaitTimeoutError,
)
from oort.protocols import TestingSelector, TrainingSelector
from oort.store import (
    DurableSelector,
    DurableTestingSelector,
    StoreConfig,
    open_selector,
    open_testing_selector,
)
from oort.testing import (
    Balanced,
    ClientInformation,
    ClientResult,
    Representative,
    TakeAll,
    TestPlan,
    create_testing_selector,
)
from oort.training.meters import LossMeter, gradient_norm_utility, loss_utility
from oort.training.selector import create_training_selector, load_selector
from oort.training.utility import register_fairness, register_utility
from oort.types import (
    ClientColumns,
    ClientId,
    ClientInfo,
    Feedback,
    Outcome,
    Pick,
    PickTable,
    Rejection,
    RowNumbers,
    Selection,
    UpdateResult,
)

__version__ = "0.1.0"

__all__ = [
    "Balanced",
    "BudgetTooSmallError",
    "ClientColumns",
    "ClientId",
    "ClientInfo",
    "ClientInformation",
    "ClientResult",
    "ConfigError",
    "ConfigWarning",
    "DamagedFileError",
    "DamagedStoreError",
    "DurableSelector",
    "DurableTestingSelector",
    "EngineWarning",
    "ExplorationConfig",
    "Feedback",
    "IncompleteClientWarning",
    "InfeasibleRequestError",
    "InvalidArgumentError",
    "InvalidClientIdError",
    "InvalidClientInfoError",
    "InvalidFeedbackError",
    "InvalidRequestError",
    "LeaseError",
    "LossMeter",
    "MissingExtraError",
    "NewerFileError",
    "NewerStoreError",
    "NotEnoughSamplesError",
    "OortError",
    "OortWarning",
    "OutOfTimeError",
    "Outcome",
    "PacerConfig",
    "Pick",
    "PickTable",
    "PrivacyWarning",
    "Rejection",
    "Representative",
    "RoundError",
    "RowNumbers",
    "SaveFileError",
    "Selection",
    "StaleFeedbackWarning",
    "StoreConfig",
    "StoreError",
    "StoreUnavailableError",
    "TakeAll",
    "TestPlan",
    "TestingConfig",
    "TestingSelector",
    "TrainingConfig",
    "TrainingSelector",
    "UnknownCategoryError",
    "UnknownClientError",
    "UpdateResult",
    "WaitTimeoutError",
    "create_testing_selector",
    "create_training_selector",
    "gradient_norm_utility",
    "load_selector",
    "loss_utility",
    "open_selector",
    "open_testing_selector",
    "register_fairness",
    "register_utility",
]
