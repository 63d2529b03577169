"""What a cohort of clients does with its data, all at once.

    base          Learner, the interface; Chunk, what it is given; ChunkResult, what it gives back
    plan          which samples a client takes in which step
    network       softmax regression and multi-layer perceptrons in plain NumPy
    modules       any ``torch.nn.Module``, with ``torch.func`` on CPU or CUDA
    convolutions  those of many clients as matrix products
    models        torch models that come with Oort

``create`` gives the learner that a config describes.
"""

from __future__ import annotations

from oort.simulation.config import SimulationConfig
from oort.simulation.data.base import FederatedData
from oort.simulation.learners.base import Chunk, ChunkResult, Learner, Params

__all__ = ["Chunk", "ChunkResult", "Learner", "Params", "create"]


def create(config: SimulationConfig, data: FederatedData) -> Learner:
    """The learner that the settings describe, for this dataset.

    Raises:
        MissingExtraError: The model needs torch, which is not installed.
    """
    if config.learner.needs_torch:
        from oort.simulation.learners.modules import ModuleLearner

        return ModuleLearner.from_config(config, data)
    from oort.simulation.learners.network import NetworkLearner

    hidden = config.learner.hidden if config.learner.model == "mlp" else ()
    widths = (data.encoding.num_features(data.sample_shape), *hidden, data.num_classes)
    return NetworkLearner(
        widths,
        encoding=data.encoding,
        learning_rate=config.learner.learning_rate,
        proximal=config.proximal,
    )
