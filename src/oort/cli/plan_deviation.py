"""``oort plan --deviation``: how many participants a representative test set takes."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from oort.errors import InvalidArgumentError, MissingExtraError
from oort.testing.deviation import DeviationPlan
from oort.testing.request import UNITS, DeviationRequest, TakeAll
from oort.testing.selector import create_testing_selector
from oort.testing.sizing import all_sizes

ASKED_BY = "--deviation"
_UNIT_NAMES = {
    "samples": "target: deviation of the mean, samples per client",
    "share_of_range": "target: deviation of the mean, share of the range",
    "share_of_mean": "target: deviation of the mean, share of the mean",
    "l1": "target: l1 distance of the distributions",
}
_FLAGS = {
    "dev_target": "--deviation",
    "range_of_capacity": "--range",
    "total_num_clients": "--clients",
    "min_capacity": "--min",
    "mean": "--mean",
    "std": "--std",
    "expected_std": "--expected-std",
    "mean_total": "--mean-total",
    "max_total": "--max-total",
    "take_all": "--take-all",
    "over_commit": "--over-commit",
    "TakeAll.num_clients": "K of --take-all",
    "TakeAll.range_of_rest": "RANGE of --take-all",
    "TakeAll.std_of_rest": "STD of --take-all",
    "range_of_rest": "RANGE of --take-all",
    "std_of_rest": "STD of --take-all",
}
_NAME = re.compile(
    rf"\b({'|'.join(sorted(map(re.escape, _FLAGS), key=len, reverse=True))})\b"
    # "mean" and "std" are words too: only where one is named as an input.
    r"(?:(?<!\bmean)(?<!\bstd)|(?= must be)|(?=[,)])|$)"
)
_NUMBERS = "one number, or one per category with commas between"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group(
        "a representative subset",
        "how many participants keep the data within a target of everyone's",
    )
    group.add_argument("--deviation", metavar="TARGET", help=f"the target; {_NUMBERS}")
    group.add_argument("--unit", default="samples", help=f"{', '.join(UNITS)} (default samples)")
    group.add_argument("--clients", type=int, metavar="N", help="how many clients there are")
    group.add_argument(
        "--range",
        help="largest − smallest number of samples of a client; not needed for share_of_range",
    )
    group.add_argument("--confidence", type=float, default=0.95, help="default 0.95")
    group.add_argument("--categories", type=int, metavar="M", help="categories that hold at once")
    group.add_argument("--mean", help="the population's mean per client, if known")
    group.add_argument("--std", help="the population's standard deviation, if known")
    group.add_argument("--min", help="smallest number of samples of a client, if known")
    group.add_argument("--expected-std", help="a guess at the standard deviation, for planning")
    group.add_argument("--mean-total", type=float, help="mean over all categories, for l1")
    group.add_argument("--max-total", type=float, help="largest client, all categories, for l1")
    group.add_argument(
        "--take-all",
        action="append",
        default=[],
        metavar="K:RANGE[:STD]",
        help="the K largest take part for certain; range (and std) of the rest; may be repeated",
    )
    group.add_argument("--bound", default="auto", help="a bound by name (default: the smallest)")
    group.add_argument("--over-commit", type=float, default=0.0, help="0.3 invites 30 %% more")
    group.add_argument(
        "--picture",
        default="oort-plan.png",
        metavar="FILE",
        help="participants against target for every bound (default oort-plan.png; none for none)",
    )
    group.add_argument("--json", action="store_true", help="print the plan as JSON, draw nothing")


def asked(options: argparse.Namespace) -> bool:
    """Whether this kind of plan was asked for."""
    return options.deviation is not None


def run(options: argparse.Namespace) -> int:
    """Answer in words, in a table and in a picture."""
    try:
        plan = _plan(options)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(in_flags(str(error))) from None
    console = Console(highlight=False)
    if options.json:
        console.print_json(json.dumps(as_json(plan)))
        return 0
    console.print(_answer(plan), markup=False, soft_wrap=True)
    console.print(_table(plan))
    if options.picture != "none":
        console.print(_picture(plan, Path(options.picture)), markup=False, soft_wrap=True)
    return 0


def as_json(plan: DeviationPlan) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "participants": plan.num_participants,
        "invited": plan.num_invited,
        "clients": plan.request.total_num_clients,
        "bound": plan.bound,
        "confidence": plan.confidence,
        "guarantee": plan.guarantee,
        "source": plan.source,
        "assumptions": list(plan.assumptions),
        "every_bound": [
            {"bound": s.name, "participants": s.num_participants, "lacks": list(s.lacks)}
            for s in plan.sizes
        ],
    }


def in_flags(text: str) -> str:
    """The library's names of arguments as the options that were, or were not, typed.

    >>> in_flags("min_capacity must be a number")
    '--min must be a number'
    >>> in_flags("the mean of kl needs mean, std")
    'the mean of kl needs --mean, --std'
    """
    return _NAME.sub(lambda found: _FLAGS[found[1]], text)


def curves(
    request: DeviationRequest, targets: Sequence[float]
) -> dict[str, tuple[list[float], list[int]]]:
    """Participants against target for every bound that the inputs allow.

    >>> from oort.testing.request import deviation_request
    >>> r = deviation_request(dev_target=15, range_of_capacity=300, total_num_clients=14_477)
    >>> curves(r, [15.0, 30.0])["serfling"]
    ([15.0, 30.0], [703, 183])
    """
    found: dict[str, dict[float, int]] = {}
    shape = request.dev_target / np.max(request.dev_target)
    for target in targets:
        for sized in all_sizes(request.with_target(target * shape)):
            if sized.num_participants is not None:
                at = found.setdefault(sized.name, {})
                at[target] = min(at.get(target, sized.num_participants), sized.num_participants)
    return {name: (list(at), list(at.values())) for name, at in found.items()}


def _plan(options: argparse.Namespace) -> DeviationPlan:
    """The plan, from the options as they were typed."""
    return create_testing_selector().select_by_deviation(
        _numbers("--deviation", options.deviation),
        _numbers("--range", options.range),
        options.clients,
        unit=options.unit,
        confidence=options.confidence,
        bound=options.bound,
        categories=options.categories,
        mean=_numbers("--mean", options.mean),
        std=_numbers("--std", options.std),
        min_capacity=_numbers("--min", options.min),
        expected_std=_numbers("--expected-std", options.expected_std),
        mean_total=options.mean_total,
        max_total=options.max_total,
        take_all=[_stratum(text) for text in options.take_all],
        over_commit=options.over_commit,
    )


def _numbers(option: str, text: str | None) -> float | list[float] | None:
    """A number, or several with commas between."""
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        message = f"{option} must be {_NUMBERS}; got {text!r}"
        raise InvalidArgumentError(message) from None
    return values[0] if len(values) == 1 else values


def _stratum(text: str) -> TakeAll:
    """K:RANGE or K:RANGE:STD."""
    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[0].isdigit():
        message = f"--take-all must be K:RANGE or K:RANGE:STD; got {text!r}"
        raise InvalidArgumentError(message)
    return TakeAll(
        num_clients=int(parts[0]),
        range_of_rest=_numbers("--take-all", parts[1]),
        std_of_rest=_numbers("--take-all", parts[2]) if len(parts) == 3 else None,
    )


def _answer(plan: DeviationPlan) -> str:
    """The answer in words."""
    clients = plan.request.total_num_clients
    share = plan.num_participants / clients
    lines = [
        f"{plan.size_in_words} ({share:.2%} of {clients:,} client{'' if clients == 1 else 's'}).",
        in_flags(plan.guarantee),
        f"Bound: {plan.sized.title}. {plan.source}.",
        "It supposes that",
        *(f"  - {in_flags(assumption)}" for assumption in plan.assumptions),
    ]
    if plan.num_invited > plan.num_participants:
        lines.insert(1, f"Invite {plan.num_invited:,}, so that enough answer.")
    return "\n".join(lines)


def _table(plan: DeviationPlan) -> Table:
    """Every bound beside the one chosen."""
    table = Table(title="Every bound on the same question", title_justify="left")
    table.add_column("bound", no_wrap=True)
    table.add_column("participants", justify="right")
    table.add_column("")
    for sized in plan.sizes:
        count = "–" if sized.num_participants is None else f"{sized.num_participants:,}"
        remark = in_flags(f"needs {', '.join(sized.lacks)}") if sized.lacks else ""
        if sized.bound.name == "paper":
            remark = "as printed: one direction only"
        if sized is plan.sized:
            remark = "chosen"
        table.add_row(sized.name, count, remark, style="bold" if sized is plan.sized else None)
    return table


def _picture(plan: DeviationPlan, path: Path) -> str:
    """Draw the picture; says where it is, or why there is none."""
    target = float(np.max(plan.request.dev_target))
    if target <= 0:
        return "no picture: the target is 0, which takes everybody"
    limit = {"share_of_range": 1.0, "l1": 2.0}.get(plan.request.unit, np.inf)
    targets = np.unique(np.append(np.geomspace(target / 10, min(target * 10, limit), 40), target))
    drawn: Mapping[str, tuple[Sequence[float], Sequence[int]]] = curves(
        plan.request, [float(t) for t in targets]
    )
    try:
        from oort.plots.testing import draw_sizes

        draw_sizes(
            drawn,
            path,
            target=target,
            chosen=(plan.bound, plan.num_participants),
            axis=_UNIT_NAMES[plan.request.unit],
            num_clients=plan.request.total_num_clients,
        )
    except MissingExtraError as error:
        return f"no picture: {error}"
    return f"picture: {path}"
