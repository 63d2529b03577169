"""What is known of every client.

    columns      the schema: name, type, unit and meaning of each column, and the flags' bits
    ids          client id -> row, and back
    id_columns   any collection of ids, as columns
    hashed_ids   the index behind ids when there are many
    hashing      hashes that nobody can prepare collisions for
    statistics   quantiles of columns that change a few rows at a time
    compiled     the same, and participations, compiled by Numba
    table        the columns themselves, growing as clients join
    given        columns as callers give them: arrays, lists with holes, one value for all
    changes      what can happen to clients, as values
    roster       who is there: joining, leaving, being online; ids, masks and row numbers -> rows

A client is a row. Rows are never renumbered or reused while a selector lives: a client that leaves
keeps its row, a client that is forgotten leaves an empty one.
"""
