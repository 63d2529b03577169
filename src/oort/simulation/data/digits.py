"""The 8×8 handwritten digits that come with scikit-learn: 1,797 images, no download.

Every fourth image is kept for testing. The rest is dealt to clients, who share images where there
are more clients than images to go round.
"""

from __future__ import annotations

import numpy as np

from oort.errors import missing_extra
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.partition import deal, label_counts

TEST_EVERY = 4
USUAL_CLIENTS = 200


def load(config: DataConfig, *, seed: int) -> PooledData:
    """Digits spread over clients."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        missing_extra("the digits dataset", "scikit-learn", "demo")
    images, labels = load_digits(return_X_y=True)
    is_test = np.arange(len(labels)) % TEST_EVERY == 0
    x, y = images.astype(np.uint8).reshape(-1, 8, 8), labels.astype(np.int64)
    share = np.bincount(y, minlength=10) / len(y)
    usual = None if config.partition == "counts" else USUAL_CLIENTS
    counts = label_counts(config, share, config.clients or usual, seed=seed)
    pool = Samples(x[~is_test], y[~is_test])
    index, start = deal(pool.y, counts, seed=seed)
    test = Samples(x[is_test], y[is_test])
    return PooledData(
        "digits",
        pool,
        test=test,
        index=index,
        start=start,
        encoding=Encoding(scale=1 / 16),
        num_classes=10,
    )
