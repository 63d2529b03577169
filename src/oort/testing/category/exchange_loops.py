"""The moves of ``exchange``: compiled by Numba where it serves, plain Python where it does not.

Both make the same moves. The plain ones take a hundred times as long, so that ``exchange`` makes
fewer of them.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from oort import kernels

if kernels.backend() == "numba":
    from oort.kernels.compiling import compiled
else:

    def compiled(function: Callable[..., Any]) -> Any:
        """Leave a function as it is."""
        return function


class Board(NamedTuple):
    """What does not change: the clients, what they hold, and who holds a category."""

    indptr: Any
    category: Any
    count: Any
    row: Any  #: the client of each entry
    holders_from: Any  #: where the clients of each category begin
    holders: Any
    quota: Any
    room: Any


class State(NamedTuple):
    """Who is in the set and who does what; a maximum flow before and after each move.

    The entries of the chosen clients are linked, category by category.
    """

    chosen: Any  #: clients, as many as ``size`` says, in no order
    size: Any
    place: Any  #: of each client in ``chosen``; −1: it is not in the set
    given: Any  #: samples of each entry
    used: Any  #: samples of each client
    short: Any  #: samples that each category lacks
    weight: Any  #: of each category: the more, the longer it was short
    first: Any  #: a chosen entry of each category, −1: there is none
    after: Any
    before: Any
    rests_until: Any  #: the step until which a client stays where it is
    moved: Any  #: the step in which it last came or went


class Scratch(NamedTuple):
    """Room for a search through the flow."""

    queue: Any
    reached: Any  #: categories that lack samples, or whose samples could go to one that does
    taken_from: Any  #: the entry that gives up samples of a category that was reached
    given_to: Any  #: the entry of the same client that gives more instead
    seen: Any
    spare: Any
    looked: Any  #: at how many entries searches have looked


@compiled
def enter(board, state, row):
    """Put a client into the set; it gives what is lacking, as far as it goes."""
    size = state.size[0]
    state.chosen[size], state.place[row] = row, size
    state.size[0] = size + 1
    for entry in range(board.indptr[row], board.indptr[row + 1]):
        i = board.category[entry]
        following = state.first[i]
        state.after[entry], state.before[entry] = following, -1
        if following >= 0:
            state.before[following] = entry
        state.first[i] = entry
        more = min(board.count[entry], state.short[i], board.room[row] - state.used[row])
        state.given[entry] = more
        state.used[row] += more
        state.short[i] -= more


@compiled
def enter_all(board, state, rows):
    """Put clients into the set, one after the other."""
    for row in rows:
        enter(board, state, row)


@compiled
def leave(board, state, row):
    """Take a client out of the set, and with it what it gave."""
    last = state.chosen[state.size[0] - 1]
    state.chosen[state.place[row]], state.place[last] = last, state.place[row]
    state.size[0] -= 1
    state.place[row] = -1
    for entry in range(board.indptr[row], board.indptr[row + 1]):
        i = board.category[entry]
        following, preceding = state.after[entry], state.before[entry]
        if following >= 0:
            state.before[following] = preceding
        if preceding >= 0:
            state.after[preceding] = following
        else:
            state.first[i] = following
        state.short[i] += state.given[entry]
        state.given[entry] = 0
    state.used[row] = 0


@compiled
def source(board, state, scratch):
    """An entry of a client with room to spare, from which samples can reach a short category.

    −1 where there is none: then the categories that were reached are a cut.
    """
    begin, end = 0, 0
    for i in range(len(board.quota)):
        scratch.reached[i] = state.short[i] > 0
        if state.short[i] > 0:
            scratch.queue[end], scratch.taken_from[i] = i, -1
            end += 1
    scratch.seen[0] += 1
    looked = 0
    while begin < end:
        entry = state.first[scratch.queue[begin]]
        begin += 1
        while entry >= 0:
            row = board.row[entry]
            looked += 1
            if state.given[entry] < board.count[entry] and board.room[row] > 0:
                if state.used[row] < board.room[row]:
                    scratch.looked[0] += looked
                    return entry
                if scratch.seen[row + 1] < scratch.seen[0]:
                    scratch.seen[row + 1] = scratch.seen[0]
                    looked += board.indptr[row + 1] - board.indptr[row]
                    for other in range(board.indptr[row], board.indptr[row + 1]):
                        i = board.category[other]
                        if state.given[other] > 0 and not scratch.reached[i]:
                            scratch.reached[i] = True
                            scratch.taken_from[i], scratch.given_to[i] = other, entry
                            scratch.queue[end] = i
                            end += 1
            entry = state.after[entry]
    scratch.looked[0] += looked
    return -1


@compiled
def repair(board, state, scratch):
    """Make the flow a maximum again, by augmenting paths; returns what it lacks then."""
    entry = source(board, state, scratch)
    while entry >= 0:
        row, i = board.row[entry], board.category[entry]
        more = min(board.room[row] - state.used[row], board.count[entry] - state.given[entry])
        while scratch.taken_from[i] >= 0:
            giver = scratch.given_to[i]
            more = min(more, state.given[scratch.taken_from[i]])
            more = min(more, board.count[giver] - state.given[giver])
            i = board.category[giver]
        more = min(more, state.short[i])
        state.short[i] -= more
        state.used[row] += more
        state.given[entry] += more
        i = board.category[entry]
        while scratch.taken_from[i] >= 0:
            giver = scratch.given_to[i]
            state.given[scratch.taken_from[i]] -= more
            state.given[giver] += more
            i = board.category[giver]
        entry = source(board, state, scratch)
    lacking = 0
    for i in range(len(board.quota)):
        lacking += state.short[i]
    return lacking


@compiled
def least_missed(board, state, scratch, step):
    """The chosen client whose samples the others can replace best; −1 where all must rest."""
    scratch.spare[:] = 0
    for k in range(state.size[0]):
        row = state.chosen[k]
        room = board.room[row] - state.used[row]
        if room > 0:
            for entry in range(board.indptr[row], board.indptr[row + 1]):
                more = min(room, board.count[entry] - state.given[entry])
                scratch.spare[board.category[entry]] += more
    best, least = -1, 0.0
    for k in range(state.size[0]):
        row = state.chosen[k]
        if state.rests_until[row] >= step:
            continue
        room, loss = board.room[row] - state.used[row], 0.0
        for entry in range(board.indptr[row], board.indptr[row + 1]):
            if state.given[entry] > 0:
                i = board.category[entry]
                own = min(room, board.count[entry] - state.given[entry])
                missed = state.given[entry] - (scratch.spare[i] - own)
                if missed > 0:
                    loss += state.weight[i] * (missed / board.quota[i])
        older = best >= 0 and state.moved[row] < state.moved[best]
        if best < 0 or loss < least or (loss == least and older):
            best, least = row, loss
    return best


@compiled
def most_helpful(board, state, scratch, category, lacking, step):
    """The holder of a category who would provide most of what is lacking; −1: there is none."""
    best, most = -1, 0.0
    for place in range(board.holders_from[category], board.holders_from[category + 1]):
        row = board.holders[place]
        if state.place[row] >= 0 or state.rests_until[row] >= step or board.room[row] == 0:
            continue
        number, worth = 0, 0.0
        for entry in range(board.indptr[row], board.indptr[row + 1]):
            i = board.category[entry]
            if scratch.reached[i]:
                wanted = state.short[i] if state.short[i] > 0 else lacking
                more = min(board.count[entry], wanted)
                number += more
                worth += state.weight[i] * (more / board.quota[i])
        if number > board.room[row]:
            worth *= board.room[row] / number
        older = best >= 0 and state.moved[row] < state.moved[best]
        if best < 0 or worth > most or (worth == most and older):
            best, most = row, worth
    return best


@compiled
def any_short(state, draw):
    """One of the categories that lack samples, by a number from 0 to 1."""
    number = 0
    for i in range(len(state.short)):
        number += state.short[i] > 0
    skipped = min(int(draw * number), number - 1)
    for i in range(len(state.short)):
        if state.short[i] > 0:
            if skipped == 0:
                return i
            skipped -= 1
    return -1


@compiled
def exchange(board, state, scratch, budget, draws, step):
    """Exchange clients until nothing is lacking, once per draw; returns what is, and the step.

    Whoever left rests outside for a few moves, and whoever came rests inside.
    """
    lacking = repair(board, state, scratch)
    for draw in draws:
        if lacking == 0 and state.size[0] <= budget:
            break
        step += 1
        while state.size[0] >= budget:
            row = least_missed(board, state, scratch, step)
            if row < 0:
                break
            leave(board, state, row)
            state.rests_until[row], state.moved[row] = step + 3, step
        lacking = repair(board, state, scratch)
        while lacking > 0 and state.size[0] < budget:
            category = any_short(state, draw)
            row = most_helpful(board, state, scratch, category, lacking, step)
            if row < 0:
                break
            enter(board, state, row)
            state.rests_until[row], state.moved[row] = step + 2, step
            lacking = repair(board, state, scratch)
        for i in range(len(board.quota)):
            if state.short[i] > 0:
                state.weight[i] += 0.1 + state.short[i] / board.quota[i]
    return lacking, step
