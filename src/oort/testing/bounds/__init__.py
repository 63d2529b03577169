"""How many participants are enough: concentration bounds for drawing clients without replacement.

question     what is asked and what is known, in samples per client
tails        the inequalities: the chance of a deviation, given n
catalogue    each of them with its source, its assumptions and the inputs that it needs
size         the smallest n for a bound, and the smallest over the bounds that the inputs allow
"""

from oort.testing.bounds.catalogue import BOUNDS, Bound
from oort.testing.bounds.question import Question
from oort.testing.bounds.size import participants_needed

__all__ = ["BOUNDS", "Bound", "Question", "participants_needed"]
