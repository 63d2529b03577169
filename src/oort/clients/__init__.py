"""What is known of every client.

    columns    the schema: name, type, unit and meaning of each column, and the bits of the flags
    ids        client id -> row, and back
    table      the columns themselves, growing as clients join
    given      columns as callers give them: arrays, lists with holes, one value for all
    roster     who is there: joining, leaving, being online; ids, masks and row numbers -> rows

A client is a row. Rows are never renumbered or reused while a selector lives: a client that leaves
keeps its row, a client that is forgotten leaves an empty one.
"""
