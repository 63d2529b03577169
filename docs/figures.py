"""The pictures of the documentation, each drawn from the code that it explains.

``python docs/figures.py FOLDER`` draws them all; the documentation build does it too. Where a
picture shows rounds, a real selector played them in the small made-up world below, so that a
change of the selector changes the picture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import oort
from oort import privacy
from oort.training import utility

Values = npt.NDArray[np.float64]

INK, BLUE, ORANGE, GREEN, GREY = "#333333", "#3266a8", "#d9730d", "#3a8a5f", "#b5b5b5"
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "white",
    "font.size": 9,
    "grid.color": "#e8e8e8",
    "legend.frameon": False,
    "svg.hashsalt": "oort",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class World:
    """Clients with long-tailed data sizes and speeds, and losses that fall over the rounds."""

    num_samples: npt.NDArray[np.int64]
    duration_s: Values
    difficulty: Values

    @classmethod
    def make(cls, clients: int = 2_000, seed: int = 1) -> World:
        """The same world for the same seed."""
        rng = np.random.default_rng(seed)
        num_samples = np.ceil(rng.lognormal(4.0, 0.7, clients)).astype(np.int64)
        per_sample_s = rng.lognormal(-1.2, 0.6, clients)
        transfer_s = rng.lognormal(2.0, 0.8, clients)
        difficulty = rng.lognormal(0.0, 0.35, clients)
        return cls(num_samples, num_samples * per_sample_s + transfer_s, difficulty)

    def utilities(self, round_number: int) -> Values:
        """What every client would report in a round: losses fall towards a floor."""
        loss = self.difficulty * (0.2 + 2.0 * np.exp(-round_number / 60))
        return np.asarray(self.num_samples * loss, np.float64)


def play(
    selector: oort.TrainingSelector,
    world: World,
    *,
    rounds: int,
    k: int = 50,
    report: Callable[[Values, npt.NDArray[np.int64]], Values] = lambda honest, rows: honest,
) -> Iterator[oort.Selection]:
    """Register everyone without hints, then select and report round after round."""
    selector.register_clients(range(world.num_samples.size))
    for number in range(1, rounds + 1):
        selection = selector.select(k)
        rows = _rows(selection.participants)
        honest = world.utilities(number)[rows]
        selector.update_clients(
            rows, utility=report(honest, rows), duration_s=world.duration_s[rows]
        )
        yield selection


def _rows(clients: list[oort.ClientId]) -> npt.NDArray[np.int64]:
    """In this world a client's id is its row."""
    return np.asarray(clients, np.int64)


def utility_of_clients(axes: list[Axes]) -> None:
    """Utility against duration of everyone explored, shaded by score, with those picked."""
    world, selector = World.make(), oort.create_training_selector({"seed": 1})
    for _ in play(selector, world, rounds=35):
        pass
    selection = selector.preview(50)
    known = selector.columns()
    explored = known.last_round > 0
    score = _scores(selector, selection)
    shades = axes[0].scatter(
        known.duration_s[explored], known.utility[explored], c=score[explored], s=9, cmap="viridis"
    )
    picked = np.isin(selector.client_ids(), selection.exploited)
    axes[0].scatter(
        known.duration_s[picked],
        known.utility[picked],
        s=42,
        facecolors="none",
        edgecolors=ORANGE,
        linewidths=1.3,
        label="exploited in round 36",
    )
    axes[0].axvline(selection.preferred_s, color=INK, linestyle="--", linewidth=1)
    axes[0].annotate(
        "T", (selection.preferred_s, 0.06), xycoords=("data", "axes fraction"), xytext=(4, 0),
        textcoords="offset points", va="top",
    )  # fmt: skip
    axes[0].set(xscale="log", yscale="log", xlabel="duration, seconds", ylabel="utility U(i)")
    axes[0].legend(loc="upper left", frameon=True)
    axes[0].figure.colorbar(shades, ax=axes[0], label="score")


def _scores(selector: Any, selection: oort.Selection) -> Values:
    """Every client's score, put together from the steps that the selector uses."""
    known, config = selector.columns(), selector.config
    explored = known.last_round > 0
    worth = known.utility[explored]
    cap = np.quantile(worth, config.clip_quantile, method="lower")
    scaled = utility.scaled_utility(known.utility, utility.Scale.between(worth.min(), cap))
    bonus = utility.staleness_bonus(
        known.last_round, round_number=selection.round_number, weight=config.staleness
    )
    speed = utility.slowness_penalty(
        known.duration_s, preferred_s=selection.preferred_s, alpha=config.alpha
    )
    return np.asarray((scaled + bonus) * speed, np.float64)


def speed_factor(axes: list[Axes]) -> None:
    """The factor on the score against duration, for several α."""
    duration_s = np.linspace(1, 60, 300)
    for alpha, colour in ((0.5, GREY), (1.0, GREEN), (2.0, BLUE), (5.0, ORANGE)):
        factor = utility.slowness_penalty(duration_s, preferred_s=15.0, alpha=alpha)
        label = f"α = {alpha:g}" + (" (default)" if alpha == 2.0 else "")
        axes[0].plot(duration_s, factor, color=colour, label=label)
    axes[0].axvline(15.0, color=INK, linestyle="--", linewidth=1)
    axes[0].annotate("T = 15 s", (15.0, 0.04), xytext=(4, 0), textcoords="offset points")
    axes[0].set(xlabel="duration, seconds", ylabel="factor on the score", ylim=(0, 1.05))
    axes[0].legend()


def clipping(axes: list[Axes]) -> None:
    """Scaled utilities of the same clients: honest ones only, and with one that reports 1e9."""
    world = World.make(200, seed=3)
    honest = np.sort(world.utilities(10)).astype(np.float32)
    lied = np.append(honest[:-1], np.float32(1e9))
    for axis, clip, title in (
        (axes[0], 0.95, "clipped at the 95th percentile, then scaled"),
        (axes[1], 1.0, "not clipped (clip_quantile = 1)"),
    ):
        for values, colour, width, label in (
            (honest, GREY, 4, "all honest"),
            (lied, ORANGE, 1.5, "the highest reports 1e9"),
        ):
            cap = np.quantile(values, clip, method="lower")
            scale = utility.Scale.between(float(values.min()), float(cap))
            scaled = utility.scaled_utility(values, scale)
            axis.plot(np.arange(1, 201), scaled, color=colour, linewidth=width, label=label)
        axis.set(xlabel="clients, by utility", title=title, ylim=(-0.05, 1.1))
    axes[0].set_ylabel("scaled utility")
    axes[0].legend(loc="upper left")


def staleness(axes: list[Axes]) -> None:
    """The bonus against the round that a client was last heard of in."""
    for now, colour in ((50, GREY), (200, BLUE), (1000, ORANGE)):
        last = np.arange(1, now + 1)
        bonus = utility.staleness_bonus(last, round_number=now, weight=0.1)
        axes[0].plot(last, bonus, color=colour, label=f"in round {now}")
    axes[0].set(
        xscale="log", xlabel="round of the last report, L(i)", ylabel="added to the scaled utility"
    )
    axes[0].legend()


def pacer(axes: list[Axes]) -> None:
    """The preferred duration over rounds, above the utility that drives it."""
    world, selector = World.make(10_000), oort.create_training_selector({"seed": 1})
    played = list(play(selector, world, rounds=300))
    rounds = np.array([s.round_number for s in played])
    worth = [world.utilities(s.round_number)[_rows(s.participants)].mean() for s in played]
    axes[0].plot(rounds[1:], [s.preferred_s for s in played][1:], color=BLUE)
    axes[0].set(yscale="log", ylabel="T, seconds", title="preferred duration")
    axes[1].plot(rounds, worth, color=GREY, linewidth=0.8, label="each round")
    means = np.reshape(worth, (-1, 20)).mean(axis=1)
    axes[1].plot(rounds - 0.5, np.repeat(means, 20), color=ORANGE, label="each window, W = 20")
    axes[1].set(xlabel="round", ylabel="utility per report", title="what drives it")
    axes[1].legend()
    for axis in axes:
        axis.set_xticks(range(0, 301, 40))


def exploration(axes: list[Axes]) -> None:
    """How each round is made up, and how many clients are left to try."""
    world, selector = World.make(), oort.create_training_selector({"seed": 1})
    played = list(play(selector, world, rounds=150))
    rounds = [s.round_number for s in played]
    tried = np.array([len(s.explored) for s in played])
    exploited = np.array([len(s.exploited) for s in played])
    axes[0].stackplot(
        rounds, tried, exploited, colors=[GREEN, BLUE], labels=["explored", "exploited"]
    )
    axes[0].plot(rounds, [50 * s.epsilon for s in played], color=INK, linewidth=1, label="ε · k")
    axes[0].set(ylabel="participants", title="who makes up a round of 50")
    axes[0].legend(loc="center right", frameon=True)
    axes[1].plot(rounds, 2_000 - np.cumsum(tried), color=GREEN)
    axes[1].set(xlabel="round", ylabel="clients", title="never tried", ylim=(0, None))


def cutoff(axes: list[Axes]) -> None:
    """Scores in order, the bar, and the clients drawn from above it."""
    world, selector = World.make(), oort.create_training_selector({"seed": 1})
    for _ in play(selector, world, rounds=60):
        pass
    selection = selector.preview(50)
    explored = selector.columns().last_round > 0
    score = np.where(explored, _scores(selector, selection), -1.0)
    order = np.argsort(-score)[:150]
    drawn = np.isin(np.array(selector.client_ids())[order], selection.exploited)
    places = np.arange(1, order.size + 1)
    axes[0].plot(places, score[order], ".", color=GREY, label="explored")
    axes[0].plot(places[drawn], score[order][drawn], "o", color=BLUE, label="picked")
    axes[0].axhline(selection.cutoff, color=ORANGE, label="cut-off")
    axes[0].axvline(
        len(selection.exploited) + 0.5, color=INK, linestyle="--", linewidth=1, label="(1−ε)·k"
    )
    axes[0].set(xlabel="explored clients, best first", ylabel="score")
    axes[0].legend()


def fairness(axes: list[Axes]) -> None:
    """How participations are spread for several weights of fairness."""
    for weight, colour in ((0.0, BLUE), (0.1, GREY), (0.3, GREEN), (1.0, ORANGE)):
        world = World.make(400)
        settings = {"seed": 1, "fairness_weight": weight}
        selector = oort.create_training_selector(settings)
        for _ in play(selector, world, rounds=200, k=20):
            pass
        counts = np.sort(selector.columns().participations)[::-1]
        axes[0].plot(np.arange(1, 401), counts, color=colour, label=f"f = {weight:g}")
    axes[0].set(
        xlabel="clients, by participations", ylabel="participations in 200 rounds", yscale="symlog"
    )
    axes[0].legend()


def adversaries(axes: list[Axes]) -> None:
    """What colluding liars gain and what it costs, against how many they are."""
    shares = np.array([0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10])
    reference = np.nan
    for lie, settings, colour, label in (
        (1.0, {}, GREY, "report the truth"),
        (100.0, {}, ORANGE, "100×, defaults"),
        (100.0, {"max_participations": 10}, BLUE, "100×, max_participations=10"),
        (100.0, {"clip_quantile": 0.8}, GREEN, "100×, clip_quantile=0.8"),
    ):
        runs = np.array([[_lie(s, lie, settings, seed) for seed in range(3)] for s in shares])
        taken, worth = runs.mean(axis=1).T
        reference = worth[0] if lie == 1.0 else reference
        axes[0].plot(100 * shares, 100 * taken, ".-", color=colour, label=label)
        axes[1].plot(100 * shares, 100 * worth / reference, ".-", color=colour)
    for axis in axes:
        axis.axvline(5, color=INK, linestyle="--", linewidth=1)
        axis.set(xlabel="clients that lie, %", ylim=(-4, 108))
    axes[0].set_title("liars' share of exploited picks, %")
    axes[1].set_title("true utility per exploited pick, %")
    axes[0].figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2
    )


def noise(axes: list[Axes]) -> None:
    """What exploited picks are truly worth when every report is noised."""
    seeds = range(8)
    exact = np.array([_noised(seed, lambda honest, rng: honest) for seed in seeds])
    chance = np.array([_chance(seed) for seed in seeds])
    for axis, levels, add in (
        (axes[0], (0.1, 0.3, 1.0, 3.0, 10.0), _paper_noise),
        (axes[1], (0.3, 1.0, 3.0, 10.0, 30.0), _private_noise),
    ):
        runs = np.array([[_noised(seed, partial(add, x)) for seed in seeds] for x in levels])
        share = 100 * runs / exact
        error = share.std(axis=1, ddof=1) / np.sqrt(len(seeds))
        means = share.mean(axis=1)
        axis.errorbar(levels, means, error, fmt=".-", color=BLUE, label="noised reports")
        axis.axhline(100, color=GREEN, label="exact reports")
        axis.axhline(float(np.mean(100 * chance / exact)), color=GREY, label="random picks")
        axis.set(xscale="log", ylim=(0, 115))
    axes[0].set(xlabel="σ, multiples of the mean utility", ylabel="true utility per pick, %")
    axes[0].set_title("the paper's noise")
    axes[1].set(xlabel="ε of each report (δ = 1e-5)", title="GaussianMechanism")
    axes[0].figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3
    )


def _paper_noise(multiple: float, honest: Values, rng: np.random.Generator) -> Values:
    sigma = multiple * float(honest.mean())
    return np.array([privacy.noisy_utility(value, sigma, rng) for value in honest])


def _private_noise(epsilon: float, honest: Values, rng: np.random.Generator) -> Values:
    mechanism = privacy.GaussianMechanism(epsilon=epsilon, delta=1e-5, clip=200.0)
    return np.array([mechanism.privatise(value, rng) for value in honest])


def _noised(seed: int, add: Callable[[Values, np.random.Generator], Values]) -> float:
    """What exploited picks are truly worth, on average."""
    world, rng = World.make(1_000, seed), np.random.default_rng(seed)
    selector = oort.create_training_selector({"seed": seed, "utility": "noised"})
    played = list(
        play(selector, world, rounds=60, k=30, report=lambda honest, _: add(honest, rng))
    )
    worth = [world.utilities(s.round_number)[_rows(s.exploited)] for s in played[1:]]
    return float(np.concatenate(worth).mean())


def _chance(seed: int) -> float:
    """What anyone is worth, weighted as exploited picks are: later rounds have more of them."""
    world, exploration = World.make(1_000, seed), oort.ExplorationConfig()
    numbers = np.arange(2, 61)
    weights = 1 - np.maximum(exploration.minimum, exploration.start * exploration.decay**numbers)
    worth = [world.utilities(int(number)).mean() for number in numbers]
    return float(np.average(worth, weights=weights))


def _lie(share: float, lie: float, settings: Any, seed: int) -> tuple[float, float]:
    """The liars' share of exploited picks, and what an exploited pick was truly worth."""
    world = World.make(1_000, seed)
    liars = np.random.default_rng(seed).random(1_000) < share

    def report(honest: Values, rows: npt.NDArray[np.int64]) -> Values:
        return np.where(liars[rows], lie * honest, honest)

    selector = oort.create_training_selector({"seed": seed, **settings})
    played = list(play(selector, world, rounds=100, k=30, report=report))
    exploited = np.concatenate([_rows(s.exploited) for s in played])
    worth = np.concatenate(
        [world.utilities(s.round_number)[_rows(s.exploited)] for s in played[1:]]
    )
    return float(liars[exploited].mean()), float(worth.mean())


#: file name -> how it is drawn, rows and columns of panels, size in inches
FIGURES: dict[str, tuple[Callable[[list[Axes]], None], int, int, tuple[float, float]]] = {
    "utility": (utility_of_clients, 1, 1, (6.4, 3.8)),
    "speed": (speed_factor, 1, 1, (6.4, 3.0)),
    "clipping": (clipping, 1, 2, (7.2, 3.0)),
    "staleness": (staleness, 1, 1, (6.4, 3.0)),
    "pacer": (pacer, 2, 1, (6.4, 4.6)),
    "exploration": (exploration, 2, 1, (6.4, 4.6)),
    "cutoff": (cutoff, 1, 1, (6.4, 3.2)),
    "fairness": (fairness, 1, 1, (6.4, 3.0)),
    "adversaries": (adversaries, 1, 2, (7.2, 3.7)),
    "noise": (noise, 1, 2, (7.2, 3.4)),
}


def draw(folder: Path, kind: str = "svg") -> None:
    """Draw every picture that is missing or older than the code it comes from."""
    sources = [Path(__file__), *Path(oort.__file__).parent.rglob("*.py")]
    changed = max(path.stat().st_mtime for path in sources)
    for name, (paint, rows, columns, size) in FIGURES.items():
        target = folder / f"{name}.{kind}"
        if target.exists() and target.stat().st_mtime > changed:
            continue
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=size, layout="constrained")
            share_x = rows > 1
            grid = figure.subplots(rows, columns, sharex=share_x, squeeze=False)
            paint(list(grid.flat))
            figure.savefig(target, dpi=130, metadata={"Date": None} if kind == "svg" else None)


if __name__ == "__main__":
    destination = Path(sys.argv[1])
    destination.mkdir(parents=True, exist_ok=True)
    draw(destination, kind=sys.argv[2] if len(sys.argv) > 2 else "svg")
