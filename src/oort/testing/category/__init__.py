"""Category requests: exact, certified test plans at any scale (the paper's §5.2).

A request flows through these modules in this order:

    information     who holds what, how fast        -> sparse counts, speed, bandwidth
    tables          the same from files             -> information
    request         what is asked                   -> samples of each category
    problem         both as arrays                  -> one problem
    assign          the fastest on a fixed set      -> samples, exactly, by flow and cut
    cover           few clients within a deadline   -> a set, greedily
    compiled        the loops of these, by Numba    -> the same, sooner
    exchange        one client for another          -> a better set
    exchange_loops  the moves of that               -> the same
    relax           the same by linear programme    -> a set, and prices
    prices          what clients can earn           -> values
    certify         what prices prove               -> lower bounds
    budget          all of these, closing in        -> who takes part
    milp            the paper's own ways            -> the same, for comparison
    plan            what the caller gets
    planner         the order of these steps

`information` is the only module that keeps state.
"""

from oort.testing.category.information import Category, ClientInformation
from oort.testing.category.plan import TestPlan
from oort.testing.category.planner import plan_categories
from oort.testing.category.request import Balanced, Representative

__all__ = [
    "Balanced",
    "Category",
    "ClientInformation",
    "Representative",
    "TestPlan",
    "plan_categories",
]
