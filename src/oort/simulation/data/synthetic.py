"""FedProx's synthetic(α, β), generated per client when asked for.

Every client has a model of its own and features of its own (Li et al., "Federated Optimization in
Heterogeneous Networks", MLSys 2020, §5.1): W, b ~ N(u, 1) with u ~ N(0, α); v ~ N(B, 1) with B ~
N(0, β); x ~ N(v, Σ) with Σ_jj = j^−1.2; y = argmax(Wx + b). As there, clients' models have nothing
in common, which one model can learn for tens of clients but not for millions:
``data.common_model`` mixes in a shared one. Nothing is held but the number of samples per client:
a million and a half clients take a few megabytes.
"""

from __future__ import annotations

import numpy as np

from oort.errors import require
from oort.randomness import generator_for
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Cohort, Encoding, Samples
from oort.simulation.data.partition import draw_sizes
from oort.simulation.streams import client_generator
from oort.types import Floats, Rows

NUM_FEATURES = 60
NUM_CLASSES = 10
USUAL_CLIENTS = 1000
TEST_CLIENTS = 200
TEST_SAMPLES = 20  #: of each of these clients, not among its own


class SyntheticData:
    """Clients generated when asked for; the same client is the same whenever it is."""

    name = "synthetic"
    num_classes = NUM_CLASSES
    sample_shape = (NUM_FEATURES,)
    encoding = Encoding()

    def __init__(
        self,
        sizes: Rows,
        *,
        model_spread: float,
        feature_spread: float,
        common_model: float = 0.0,
        seed: int,
    ) -> None:
        self.sizes = sizes
        self._model_sd = np.sqrt(model_spread)
        self._feature_sd = np.sqrt(feature_spread)
        self._seed = seed
        self._noise_sd = np.arange(1, NUM_FEATURES + 1) ** -0.6
        self._common_share = common_model
        shape = (NUM_FEATURES + 1, NUM_CLASSES)
        everyones = generator_for(seed, 0, "synthetic model").standard_normal(shape)
        self._common = np.sqrt(common_model) * everyones
        self.test = self._test_samples()

    @property
    def num_clients(self) -> int:
        """How many clients there are."""
        return len(self.sizes)

    def cohort(self, clients: Rows) -> Cohort:
        """The samples of these clients, generated now."""
        drawn = [
            self._client(c, int(n))
            for c, n in zip(clients.tolist(), self.sizes[clients], strict=True)
        ]
        start = np.concatenate([[0], np.cumsum(self.sizes[clients])]).astype(np.int64)
        pool = np.concatenate([x for x, _ in drawn])
        return Cohort(pool, np.arange(start[-1]), np.concatenate([y for _, y in drawn]), start)

    def label_counts(self) -> None:
        """Nothing: counting would take generating every client."""

    def _client(self, client: int, count: int, *, skip: int = 0) -> tuple[Floats, Rows]:
        """Samples of one client; ``skip`` leaves out the first ones."""
        rng = client_generator(self._seed, 0, client, "synthetic client")
        own = rng.normal(rng.normal(0.0, self._model_sd), 1.0, self._common.shape)
        weights = self._common + np.sqrt(1.0 - self._common_share) * own
        centre = rng.normal(rng.normal(0.0, self._feature_sd), 1.0, NUM_FEATURES)
        x = centre + rng.standard_normal((skip + count, NUM_FEATURES))[skip:] * self._noise_sd
        return x.astype(np.float32), np.argmax(x @ weights[:-1] + weights[-1], axis=1)

    def _test_samples(self) -> Samples:
        rng = generator_for(self._seed, 0, "synthetic test")
        chosen = rng.choice(self.num_clients, min(TEST_CLIENTS, self.num_clients), replace=False)
        drawn = [self._client(int(c), TEST_SAMPLES, skip=int(self.sizes[c])) for c in chosen]
        return Samples(
            np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn])
        )


def load(config: DataConfig, *, seed: int) -> SyntheticData:
    """Synthetic clients of the sizes that the settings describe."""
    own = "unset for synthetic, whose clients differ by data.model_spread and data.feature_spread"
    require(config.partition is None, "data.partition", own, config.partition)
    sizes = draw_sizes(config, config.clients or USUAL_CLIENTS, seed=seed)
    return SyntheticData(
        sizes,
        model_spread=config.model_spread,
        feature_spread=config.feature_spread,
        common_model=config.common_model,
        seed=seed,
    )
