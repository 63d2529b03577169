"""Choosing who trains.

One round flows through these modules in this order:

    feedback      what clients report          -> checked columns
    eligibility   who may be picked at all     -> rows
    pacer         how patient the round is     -> preferred duration, seconds
    utility       what each row is worth       -> scores
    scoring       the same for the whole table  -> scores, pool
    candidates    who may reach the cut-off     -> rows remembered
    exploit       the known-good share         -> rows
    explore       the never-tried share        -> rows

Beside them:

    at_once       an ordinary round in one call, equal to the steps above
    compiled      that call, compiled by Numba
    purposes      what chance is asked for in a draw
    meters        what runs on the client: utility from losses or gradients
    rounds        what is remembered of recent rounds
    intake        where checked reports reach the columns and the rounds
    changes       everything that can happen to a job, as values
    bookkeeping   registering, reporting, marking, saving: what every in-memory selector does
    selector      Algorithm 1: the only module that knows the order above

A step is a function of arrays and knows no other step.
"""
