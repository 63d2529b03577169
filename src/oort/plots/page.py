"""A page about some runs that opens offline: one file, pictures and figures inside."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from oort.plots.histories import PANELS, as_svg
from oort.simulation.report import Curve, Line, compare, usual_baseline

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1b1b; background: #fff }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; padding: .4rem 0 }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
td { white-space: nowrap } .wide { overflow-x: auto } small, figcaption { color: #555 }
figcaption { font-size: .85rem; padding: 0 .5rem }
th:first-child, td:first-child { text-align: left }
thead th { border-bottom: 2px solid #888 }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem }
.pictures svg { width: 100%; height: auto } figure { margin: 0 }
pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: .85rem }
"""
HEADINGS = ("strategy", "hours", "rounds", "times sooner")
MORE_HEADINGS = ("accuracy at the end", "mean round", "client time wasted", "seeds")


def page(
    curves: Sequence[Curve], target: float, *, title: str, settings: Sequence[tuple[str, str]] = ()
) -> str:
    """The page, as HTML.

    Args:
        curves: What the runs gave.
        target: The accuracy whose time is compared.
        title: Its heading.
        settings: Name and text of each run's settings, shown at the end.
    """
    pictures = "\n".join(
        f'<figure aria-label="{name}">{as_svg(curves, target, name)}'
        f"<figcaption>{html.escape(draw.__doc__ or '')}</figcaption></figure>"
        for name, draw in PANELS.items()
    )
    baseline = html.escape(usual_baseline(curves))
    unfinished = [f"{c.strategy}, seed {c.seed}" for c in curves if not c.complete]
    note = f"<p>Not through yet: {html.escape('; '.join(unfinished))}.</p>" if unfinished else ""
    given = "\n".join(
        f"<h2>Settings of {html.escape(name)}</h2><pre>{html.escape(text)}</pre>"
        for name, text in settings
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{note}\n{_table(compare(curves, target), target)}\n"
        f"<p>Hours are simulated; “times sooner” is beside {baseline} under the same seed.</p>\n"
        f'<h2>Pictures</h2>\n<div class="pictures">\n{pictures}\n</div>\n'
        "<p>Lines are means over seeds, bands reach from the lowest seed to the highest.</p>\n"
        f"{given}\n</body>\n</html>\n"
    )


def spread(values: Sequence[float], form: str = "{:.2f}") -> str:
    """A mean with its range over seeds; says where some seeds never got there.

    >>> spread([1.0, 2.0]), spread([3.0]), spread([1.0, math.inf]), spread([math.nan])
    ('1.50 (1.00–2.00)', '3.00', '1 of 2 seeds: 1.00', '–')
    """
    there = [v for v in values if math.isfinite(v)]
    if not there:
        return "–"
    mean = form.format(sum(there) / len(there))
    if len(there) < len(values):
        return f"{len(there)} of {len(values)} seeds: {mean}"
    low, high = form.format(min(there)), form.format(max(there))
    return f"{mean} ({low}–{high})" if low != high else mean


def row(line: Line) -> tuple[str, ...]:
    """One strategy's row, in the order of the headings."""
    return (
        line.strategy,
        spread(line.hours_to_target),
        spread(line.rounds_to_target, "{:.0f}"),
        spread(line.speedup, "{:.1f}×"),
        spread(line.final_accuracy, "{:.1%}"),
        spread(line.mean_round_s, "{:.0f} s"),
        spread(line.wasted_share, "{:.0%}"),
        ", ".join(map(str, line.seeds)),
    )


def _table(lines: Sequence[Line], target: float) -> str:
    head = "".join(f"<th>{h}</th>" for h in (*HEADINGS, *MORE_HEADINGS))
    body = "\n".join(
        f"<tr><td>{html.escape(line.strategy)}</td>{''.join(map(_cell, row(line)[1:]))}</tr>"
        for line in lines
    )
    return (
        f'<div class="wide"><table>\n<caption>Until {target:.1%} of the test set is right; means '
        f"over seeds, with the range</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n"
        "</tbody>\n</table></div>"
    )


def _cell(text: str) -> str:
    """A value, and its range in a line of its own."""
    value, opened, spread_over = html.escape(text).partition(" (")
    return f"<td>{value}{f'<br><small>({spread_over}</small>' if opened else ''}</td>"
