"""How a client is told what to test on, in a config that both APIs can carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

KEY: Final = "oort-samples"


def told(samples: Mapping[Any, int]) -> dict[str, str]:
    """Config entries that say how many samples of which category to test on.

    >>> told({"cat": 5, 7: 2})
    {'oort-samples': '[["cat", 5], [7, 2]]'}
    """
    return {KEY: json.dumps([[category, int(count)] for category, count in samples.items()])}


def samples_to_test(config: Mapping[str, Any]) -> dict[Any, int] | None:
    """On the client: how many samples of which category to test on; None: on all that it has.

    ``config`` is ``message.content["config"]``, or ``config`` of a classic client's ``evaluate``.

    >>> samples_to_test({"oort-samples": '[["cat", 5]]'})
    {'cat': 5}
    >>> samples_to_test({}) is None
    True
    """
    text = config.get(KEY)
    return None if text is None else dict(json.loads(text))
