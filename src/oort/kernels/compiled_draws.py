"""Drawing without replacement, compiled: what ``draws`` does, to the last bit."""

# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

import math

import numpy as np

from oort.kernels.compiling import compiled
from oort.kernels.draws import FASTEST_S, FEW, FULL_PASS, LN_2, NEVER, ODD, ROOT_HALF
from oort.randomness import FACTORS, STEP

_STEP = np.uint64(STEP)
_FIRST = np.uint64(FACTORS[0])
_SECOND = np.uint64(FACTORS[1])
_ONE = np.uint64(1)
_UNIT = 2.0**-53
_FIRST_BITS = np.uint64(0xFFFF)
_NEVER = np.float32(np.inf)
_LATEST = np.float32(1e38)
_FEW_ENTRANTS = 2048  # so many all run to the end
_FEW_MORE = 64
_MANY = 2048
_EDGE_SHIFT = np.uint32(20)
_EDGES = 1 << 11  # of positive 4-byte floats by their upper bits
_ROUNDED = np.float32(1.00001)  # what is later by this much in 4-byte floats is later in all
_BLOCK = 4096
_SURELY = 1.0 + 1e-9
_BATCH = 128


@compiled
def mixed(key, number):
    """64 random bits for a number."""
    bits = np.uint64(number) * _STEP + key
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@compiled
def uniform(key, number):
    """One number from [0, 1) for a number."""
    return np.float64(mixed(key, number) >> np.uint64(11)) * _UNIT


@compiled
def _chance(key, name):
    """A number from (0, 1] for a name."""
    number = np.uint64(name)
    shared = mixed(key, number >> np.uint64(2))
    first = (shared >> ((number & np.uint64(3)) << np.uint64(4))) & _FIRST_BITS
    others = mixed(~key, number) >> np.uint64(27)
    return np.float64(((first << np.uint64(37)) | others) + _ONE) * _UNIT


@compiled
def _logarithm(value):
    part, exponent = math.frexp(value)
    low = part < ROOT_HALF
    part = part * 2.0 if low else part
    x = (part - 1.0) / (part + 1.0)
    square = x * x
    series = 1.0 / 21.0
    for term in ODD:
        series = series * square + term
    series = series * square + 1.0
    return np.float64(exponent - low) * LN_2 + 2.0 * x * series


@compiled
def kth_smallest(values, place):
    """The value at a place, counted from 0, if values were sorted; they are shuffled."""
    low, high = 0, values.size - 1
    while low < high:
        one, two, three = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(one, two), min(max(one, two), three))
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if place <= right:
            high = right
        elif place >= left:
            low = left
        else:
            return values[place]
    return values[place]


@compiled
def finish_of(key, name, weight):
    """When an entrant of a race finishes."""
    return -_logarithm(_chance(key, name)) / weight


@compiled
def _edge_of(values, count, wanted):
    """At least the ``wanted``-th smallest of some 4-byte floats, and not much more."""
    bits = values[:count].view(np.uint32)
    counts = np.zeros(_EDGES, np.int32)
    for i in range(count):
        counts[bits[i] >> _EDGE_SHIFT] += 1
    place, below = -1, 0
    while below < wanted:
        place += 1
        below += counts[place]
    edge = np.empty(1, np.uint32)
    edge[0] = (np.uint32(place + 1) << _EDGE_SHIFT) - np.uint32(1)
    return edge.view(np.float32)[0]


@compiled
def _tighten(earliest, names, weights, places, count, wanted, key):
    """Drop entrants that cannot be among the first; gives how many are left, and a bar for more.

    Those with the smallest bounds finish by some time: whoever cannot by then, loses to them.
    """
    edge = _edge_of(earliest, count, wanted)
    latest = 0.0
    for i in range(count):
        if earliest[i] <= edge:
            at = finish_of(key, names[i], weights[i])
            latest = at if at > latest else latest
    bar = min(np.float32(latest), _LATEST) * _ROUNDED
    left = 0
    for i in range(count):
        if earliest[i] <= bar:
            earliest[left], names[left] = earliest[i], names[i]
            weights[left], places[left] = weights[i], places[i]
            left += 1
    return left, bar


@compiled
def _taken(values, places):
    taken = np.empty(places.size, values.dtype)
    for i in range(places.size):
        taken[i] = values[places[i]]
    return taken


@compiled
def _is_later(finish, names, one, other):
    if finish[one] != finish[other]:
        return finish[one] > finish[other]
    return names[one] > names[other]


@compiled
def _heap_sorted(finish, names, places):
    """The same for very many."""
    count = finish.size
    order = np.arange(count)
    for step in range(count // 2 + count):
        if step < count // 2:  # build the heap, the latest on top
            at, end = count // 2 - 1 - step, count
        else:  # take the latest off
            end = count - 1 - (step - count // 2)
            order[0], order[end] = order[end], order[0]
            at = 0
        while 2 * at + 1 < end:
            child = 2 * at + 1
            if child + 1 < end and _is_later(finish, names, order[child + 1], order[child]):
                child += 1
            if not _is_later(finish, names, order[child], order[at]):
                break
            order[at], order[child] = order[child], order[at]
            at = child
    return _taken(places, order)


@compiled
def _ordered(finish, names, places):
    """Places in the order of arrival; of two that arrive together, the lower name first."""
    count = finish.size
    if count > _MANY:
        return _heap_sorted(finish, names, places)
    low, high = finish[0], finish[0]
    for i in range(count):
        low = finish[i] if finish[i] < low else low
        high = finish[i] if finish[i] > high else high
    scale = (count - 1) / (high - low) if high > low else 0.0
    starts = np.zeros(count + 1, np.int64)
    for i in range(count):
        starts[np.int64((finish[i] - low) * scale) + 1] += 1
    for i in range(count):
        starts[i + 1] += starts[i]
    order = np.empty(count, np.int64)
    for i in range(count):
        bucket = np.int64((finish[i] - low) * scale)
        order[starts[bucket]] = i
        starts[bucket] += 1
    for i in range(1, count):
        mover = order[i]
        at = i
        while at > 0:
            other = order[at - 1]
            if finish[other] < finish[mover] or (
                finish[other] == finish[mover] and names[other] < names[mover]
            ):
                break
            order[at] = other
            at -= 1
        order[at] = mover
    return _taken(places, order)


@compiled
def _winners(names, weights, places, count, wanted, key):
    """Places of the first of these entrants, in the order of their arrival."""
    finish = np.empty(count, np.float64)
    for i in range(count):
        finish[i] = finish_of(key, names[i], weights[i])
    return _first(finish, names, places, count, wanted)


@compiled
def _first(finish, names, places, count, wanted):
    """The same, given when they finish."""
    if count == 0:
        return places[:0]
    if count > 2 * wanted + _FEW_MORE:  # if not, sorting all of them takes no longer
        last = kth_smallest(finish[:count].copy(), wanted - 1)
        kept = 0
        for i in range(count):
            if finish[i] <= last:  # more than wanted, where some arrive together
                finish[kept], names[kept], places[kept] = finish[i], names[i], places[i]
                kept += 1
        count = kept
    return _ordered(finish[:count], names, places)[:wanted]


@compiled
def race(names, weights, wanted, key):
    """Places of the winners, in the order of their arrival.

    Where entrants are many, most are passed over without a logarithm: −ln x ≥ 1 − x, and the bar
    falls as better ones come in.
    """
    wanted = min(wanted, names.size)
    if wanted == 0:
        return np.empty(0, np.int64)
    full = max(4 * wanted, _FEW_ENTRANTS)
    room = min(names.size, full)
    earliest = np.empty(room, np.float32)
    called = np.empty(room, np.int64)
    weighed = np.empty(room, np.float64)
    places = np.empty(room, np.int64)
    count = 0
    bar = _LATEST
    for i in range(names.size):
        weight = np.float64(weights[i])
        weight = weight if weight > NEVER else NEVER
        if names.size > full:
            soonest = min((1.0 - _chance(key, names[i])) / weight, np.float64(_LATEST))
            if soonest > bar:
                continue
            if count == room:
                count, bar = _tighten(earliest, called, weighed, places, count, wanted, key)
                if count == room:
                    room *= 2
                    earliest = _wider(earliest, room)
                    called = _wider(called, room)
                    weighed = _wider(weighed, room)
                    places = _wider(places, room)
            earliest[count] = soonest
        called[count], weighed[count], places[count] = names[i], weight, i
        count += 1
    if names.size > full:
        count, _ = _tighten(earliest, called, weighed, places, count, wanted, key)
    return _winners(called, weighed, places, count, wanted, key)


@compiled
def _wider(array, size):
    """The same array with room for more."""
    wider = np.empty(size, array.dtype)
    for i in range(array.size):
        wider[i] = array[i]
    return wider


@compiled
def speed(duration, typical):
    """Expected speed: 1/duration, what is typical where nothing is expected."""
    return 1.0 / _expected(duration, typical)


@compiled
def _expected(duration, typical):
    filled = np.float64(typical if np.isnan(duration) else duration)
    return filled if filled > FASTEST_S else FASTEST_S


@compiled
def _earliest(earliest, start, shared, duration_s, flags, allowed, care, state, typical_s, key):
    """When each of a block of rows can finish at the earliest; never, where it does not count.

    From the first 16 bits of their chances alone: −ln x ≥ 1 − x, in 4-byte floats.
    """
    for i in range((earliest.size + 3) // 4):
        shared[i] = mixed(key, start // 4 + i)
    fastest, most, unit = np.float32(FASTEST_S), np.int32(0xFFFF), np.float32(2.0**-16)
    firsts = shared.view(np.uint16)  # four of them, the lowest first: Numba knows no other order
    for i in range(earliest.size):
        first = np.int32(firsts[i])
        duration = duration_s[i]
        duration = typical_s if duration != duration else duration
        duration = duration if duration > fastest else fastest
        at = np.float32(most - first) * unit * duration
        earliest[i] = at if (flags[i] & care) == state else _NEVER
    if allowed.size:
        for i in range(earliest.size):
            earliest[i] = earliest[i] if allowed[i] else _NEVER


@compiled
def marked(places, marks, size):
    """The places of the marks among the first so many; gives how many.

    Marks are looked at 64 at a time: what follows the last, up to 64, is cleared.
    """
    marks[size : size + 64] = 0
    words = marks.view(np.uint64)
    count = 0
    for first in range(0, (size + 7) // 8, 8):
        some = np.uint64(0)
        for word in range(8):
            some |= words[first + word]
        if some:
            for word in range(first, first + 8):
                if words[word]:
                    for i in range(8 * word, 8 * word + 8):
                        places[count] = i
                        count += np.int64(marks[i])
    return count


@compiled
def _mark_in_time(marks, firsts, duration_s, flags, allowed, care, state, typical_s, latest):
    """Mark the rows of a block that can finish by a time, by the first bits of their chances."""
    fastest, most, unit = np.float32(FASTEST_S), np.int32(0xFFFF), np.float32(2.0**-16)
    for i in range(marks.size):
        duration = duration_s[i]
        duration = typical_s if duration != duration else duration
        duration = duration if duration > fastest else fastest
        at = np.float32(most - np.int32(firsts[i])) * unit * duration
        marks[i] = np.uint8(at <= latest) & np.uint8((flags[i] & care) == state)
    if allowed.size:
        for i in range(marks.size):
            marks[i] = marks[i] & np.uint8(allowed[i] != 0)


@compiled
def _race_to(latest, duration_s, flags, allowed, care, state, typical_s, wanted, key):
    """The rows that win among all in a state, where enough finish by a time; nobody, if not."""
    room = 4 * wanted + _BLOCK
    names = np.empty(room + _BLOCK + 8, np.int64)
    shared = np.empty(_BLOCK // 4, np.uint64)
    marks = np.empty(_BLOCK + 64, np.uint8)
    count = 0
    for start in range(0, flags.size, _BLOCK):
        size = min(_BLOCK, flags.size - start)
        part = slice(start, start + size)
        for i in range(shared.size):
            shared[i] = mixed(key, start // 4 + i)
        _mark_in_time(
            marks[:size],
            shared.view(np.uint16),
            duration_s[part],
            flags[part],
            allowed[part],
            care,
            state,
            typical_s,
            latest,
        )
        found = marked(names[count:], marks, size)
        for i in range(count, count + found):
            names[i] += start
        count += found
        if count > room:
            return names[:0]
    finish = np.empty(count, np.float64)
    surely = np.float64(latest) / np.float64(_ROUNDED)
    in_time = 0
    for i in range(count):
        finish[i] = finish_of(key, names[i], speed(duration_s[names[i]], typical_s))
        in_time += np.int64(finish[i] <= surely)
    if in_time < wanted:
        return names[:0]
    return _first(finish, names, names, count, wanted)


@compiled
def _count_to(values, bar):
    """How many values do not exceed the bar."""
    count = np.int32(0)
    for i in range(values.size):
        count = np.int32(count + np.int32(values[i] <= bar))
    return count


@compiled
def _race_of_all(duration_s, flags, allowed, care, state, typical_s, seen, taken, wanted, key):
    """The rows that win among all in a state, those seen and taken aside, by blocks of rows."""
    full = max(4 * (wanted + taken), 512)
    soonest = np.empty(full + _BLOCK, np.float32)
    names = np.empty(full + _BLOCK, np.int64)
    weights = np.empty(full + _BLOCK, np.float64)
    count = 0
    bar = _LATEST
    block = np.empty(_BLOCK, np.float32)
    shared = np.empty(_BLOCK // 4, np.uint64)
    for start in range(0, flags.size, _BLOCK):
        earliest = block[: min(_BLOCK, flags.size - start)]
        part = slice(start, start + earliest.size)
        _earliest(
            earliest,
            start,
            shared,
            duration_s[part],
            flags[part],
            allowed[part],
            care,
            state,
            typical_s,
            key,
        )
        for i in range(earliest.size if _count_to(earliest, bar) else 0):
            if earliest[i] <= bar:
                soonest[count] = earliest[i]
                names[count] = start + i
                count += 1
        if count > full or (start + _BLOCK >= flags.size and count > 2 * (wanted + taken)):
            for i in range(count):
                weights[i] = speed(duration_s[names[i]], typical_s)
            count, bar = _tighten(soonest, names, weights, names, count, wanted + taken, key)
            if count > full:
                full = 2 * count
                soonest = _wider(soonest, full + _BLOCK)
                names = _wider(names, full + _BLOCK)
                weights = _wider(weights, full + _BLOCK)
    left = 0
    for i in range(count):
        if seen[_slot(seen, names[i])] < 0:
            names[left] = names[i]
            weights[left] = speed(duration_s[names[i]], typical_s)
            left += 1
    return _winners(names, weights, names.copy(), left, min(wanted, left), key)


@compiled
def _slot(table, row):
    """Where a row stands in a hash table, or would."""
    mask = table.size - 1
    at = np.int64((np.uint64(row) * _STEP) >> np.uint64(33)) & mask
    while table[at] >= 0 and table[at] != row:
        at = (at + 1) & mask
    return at


@compiled
def _propose(
    picked, seen, duration_s, flags, allowed, care, state, typical_s, highest, limit, key
):
    """Fill ``picked`` by proposal and acceptance; gives how many it took before the limit.

    Proposals are looked up a batch at a time, so that the processor waits for memory once, and
    their flags only where they are lucky enough: luck < 1/d is seldom, and luck · d tells most of
    it without a division.
    """
    size = flags.size
    count = 0
    rows = np.empty(_BATCH, np.int64)
    durations = np.empty(_BATCH, np.float32)
    for start in range(0, limit, _BATCH):
        batch = min(_BATCH, limit - start)
        for i in range(batch):
            row = np.int64(uniform(key, 2 * (start + i)) * size)
            rows[i] = row if row < size else size - 1
        for i in range(batch):
            durations[i] = duration_s[rows[i]]
        for i in range(batch):
            luck = uniform(key, 2 * (start + i) + 1) * highest
            if luck * durations[i] > _SURELY or luck >= speed(durations[i], typical_s):
                continue
            if (flags[rows[i]] & care) != state or (allowed.size and not allowed[rows[i]]):
                continue
            slot = _slot(seen, rows[i])
            if seen[slot] < 0:
                seen[slot] = rows[i]
                picked[count] = rows[i]
                count += 1
                if count == picked.size:
                    return count
    return count


@compiled
def explore(
    duration_s, flags, allowed, care, state, typical_s, highest, entrants, wanted, keys, pace
):
    """Rows in a state, drawn in proportion to their expected speed: proposals, then a race.

    The pace is about how long a race takes for each of its winners, 0 where nobody knows: it
    saves time, nothing else.
    """
    if pace > 0 and entrants <= FEW:
        latest = np.float32(min(pace * (1.1 * wanted + 3.0 * np.sqrt(wanted) + 3.0), _LATEST))
        found = _race_to(
            latest, duration_s, flags, allowed, care, state, typical_s, wanted, keys[1]
        )
        if found.size:
            return found
    picked = np.empty(min(wanted, entrants), np.int64)
    room = 16
    while room < 2 * picked.size:
        room *= 2
    seen = np.empty(room, np.int64)
    for i in range(room):
        seen[i] = -1
    count = 0
    if entrants > FEW and 4 * wanted <= entrants:
        limit = flags.size // FULL_PASS
        count = _propose(
            picked,
            seen,
            duration_s,
            flags,
            allowed,
            care,
            state,
            typical_s,
            highest,
            limit,
            keys[0],
        )
    short = picked.size - count
    if short == 0:
        return picked
    rest = _race_of_all(
        duration_s, flags, allowed, care, state, typical_s, seen, count, short, keys[1]
    )
    for i in range(rest.size):
        picked[count + i] = rest[i]
    return picked[: count + rest.size]
