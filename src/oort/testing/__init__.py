"""Choosing who tests.

A request for a representative subset flows through these modules in this order:

    arguments    what callers pass in, checked
    request      what is asked, in any unit      -> a question in samples per client
    bounds       how likely a draw deviates      -> participants needed
    sizing       every bound's answer            -> the smallest valid one
    roster       who is known and online         -> ids
    deviation    the plan                        -> participants, guarantee
    confirm      the participants' counts        -> the deviation reached
    results      what clients report             -> columns
    betting      draws without replacement       -> an interval for a ratio
    estimate     the results                     -> the population's metric, overall and per slice
    adaptive     batch after batch               -> the same, stopping when it is precise enough

    selector     keeps who is known, and is the only one that knows this order

A request for samples of categories has a package of its own:

    category     who holds what, how fast        -> a plan, proven to be near the best
"""

from oort.testing.adaptive import AdaptivePlan
from oort.testing.category import Balanced, ClientInformation, Representative, TestPlan
from oort.testing.confirm import Confirmation
from oort.testing.deviation import DeviationPlan
from oort.testing.estimate import Estimate
from oort.testing.request import DeviationRequest, TakeAll
from oort.testing.results import ClientResult
from oort.testing.selector import LocalTestingSelector, create_testing_selector

__all__ = [
    "AdaptivePlan",
    "Balanced",
    "ClientInformation",
    "ClientResult",
    "Confirmation",
    "DeviationPlan",
    "DeviationRequest",
    "Estimate",
    "LocalTestingSelector",
    "Representative",
    "TakeAll",
    "TestPlan",
    "create_testing_selector",
]
