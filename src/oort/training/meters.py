"""What runs on the client: the utility of its data (paper §4.2 and Appendix B)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from oort.errors import InvalidArgumentError
from oort.types import Feedback


def loss_utility(losses: npt.ArrayLike) -> float:
    """``|B| · √(mean loss²)`` over the losses of *all* samples trained on.

    >>> loss_utility([1.0, 1.0, 1.0, 1.0])
    4.0
    """
    return _utility_of(losses, "losses")


def gradient_norm_utility(
    gradient_norms: npt.ArrayLike, *, num_samples: int | None = None
) -> float:
    """``|B| · √(mean ‖g‖²)`` from the gradient norm of every sample or batch (Appendix B).

    With norms of batches, say how many samples they cover; the two agree where the batch size is
    1.

    >>> gradient_norm_utility([3.0, 4.0], num_samples=64)
    226.27...
    """
    per_entry = _utility_of(gradient_norms, "gradient_norms")
    entries = np.asarray(gradient_norms).size
    if num_samples is None or entries == 0:
        return per_entry
    return per_entry / entries * num_samples


class LossMeter:
    """A running utility over every sample trained on, without keeping the losses.

    Samples seen again in a later epoch count again towards the mean but not towards the number of
    samples, if that is given.

    >>> meter = LossMeter()
    >>> for batch in ([1.0, 1.0], [1.0, 1.0]):
    ...     meter.update(batch)
    >>> meter.utility
    4.0
    >>> meter.feedback(duration_s=2.5).num_samples
    4
    """

    def __init__(self, *, num_samples: int | None = None) -> None:
        self._distinct = num_samples
        self._seen = 0
        self._sum_of_squares = 0.0

    def update(self, losses: npt.ArrayLike) -> None:
        """Add the per-sample losses of one batch: any shape, an array, a tensor or a list.

        Raises:
            InvalidArgumentError: A loss is NaN or infinite; nothing is added.
        """
        values = _checked(losses, "losses")
        self._seen += values.size
        self._sum_of_squares += float(np.dot(values, values))

    @property
    def num_samples(self) -> int:
        """Samples trained on: as given, or as many as were seen."""
        return self._seen if self._distinct is None else self._distinct

    @property
    def mean_squared_loss(self) -> float:
        """Mean over all losses seen; 0 before the first."""
        return self._sum_of_squares / self._seen if self._seen else 0.0

    @property
    def utility(self) -> float:
        """``|B| · √(mean loss²)``."""
        return self.num_samples * math.sqrt(self.mean_squared_loss)

    def feedback(self, *, duration_s: float | None = None) -> Feedback:
        """What to send to the selector."""
        return Feedback(
            num_samples=self.num_samples,
            mean_squared_loss=self.mean_squared_loss,
            duration_s=duration_s,
        )


def _utility_of(values: npt.ArrayLike, name: str) -> float:
    flat = _checked(values, name)
    return math.sqrt(flat.size * float(np.dot(flat, flat)))


def _checked(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    flat = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(flat)
    if not finite.all():
        place = int(np.argmin(finite))
        message = f"{name} must be finite numbers; got {flat[place]} at place {place}"
        raise InvalidArgumentError(message)
    return flat
