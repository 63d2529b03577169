"""The loops over clients and their entries, compiled by Numba and cached on disk.

Each has a twin in NumPy or plain Python that gives the same answer to the last bit, and serves
where Numba is missing or the request is small. No ``fastmath``: a duration here is the duration
there.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from oort.kernels.compiling import compiled


@compiled
def samples_within(deadline_s, fixed_s, speed, limit):
    """``problem.samples_within``: time never falls as k grows, so a guess is put right."""
    counts = np.zeros(limit.size, np.int64)
    for n in range(limit.size):
        tau, s, most = fixed_s[n], speed[n], limit[n]
        if most <= 0 or tau + 1.0 / s > deadline_s:
            continue
        guess = (deadline_s - tau) * s
        k = most if guess >= most else np.int64(guess)
        k = k if k > 1 else np.int64(1)
        low, high, step = np.int64(1), most, np.int64(1)
        if tau + k / s <= deadline_s:
            low = k
            while low + step <= high and tau + (low + step) / s <= deadline_s:
                low += step
                step *= 2
            high = min(high, low + step - 1)
        else:
            high = k - 1
            while high - step >= low and tau + (high - step + 1) / s > deadline_s:
                high -= step
                step *= 2
            low = max(low, high - step)
        while low < high:
            middle = high - (high - low) // 2
            if tau + middle / s <= deadline_s:
                low = middle
            else:
                high = middle - 1
        counts[n] = low
    return counts


@compiled
def order_by_rank(indptr, category, rank):
    """``prices.Priced.order``: the entries of each client, those of low rank first."""
    order = np.empty(category.size, np.int32)
    for n in range(indptr.size - 1):
        begin = indptr[n]
        for entry in range(begin, indptr[n + 1]):
            own = rank[category[entry]]
            place = entry
            while place > begin and rank[category[order[place - 1]]] > own:
                order[place] = order[place - 1]
                place -= 1
            order[place] = entry
    return order


@compiled
def values(indptr, category, count, order, prices, room):
    """``prices.Priced.values``: the dearest samples first, as many as there is room for."""
    result = np.zeros(room.size, np.int64)
    for n in range(room.size):
        own, value = room[n], np.int64(0)
        place, end = indptr[n], indptr[n + 1]
        while own > 0 and place < end:
            entry = order[place]
            given = np.int64(count[entry])
            given = given if given < own else own
            value += prices[category[entry]] * given
            own -= given
            place += 1
        result[n] = value
    return result
