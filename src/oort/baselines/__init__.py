"""Other strategies behind the same contract, to compare with.

uniform        everyone evenly: what federated learning does without guidance
round_robin    everyone in turn
"""

from oort.baselines.round_robin import RoundRobinSelector
from oort.baselines.uniform import UniformSelector

__all__ = ["RoundRobinSelector", "UniformSelector"]
