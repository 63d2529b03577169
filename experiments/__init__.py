"""The paper's tables and figures, measured again: ``oort reproduce NAME``.

    deviation    Fig. 4a and 17: participants for a representative test set, and what draws do
    heterogeneity    Fig. 1, 2, Table 1: how clients differ
    milp         Fig. 18: category requests on real counts, ours beside the paper's two ways
    pacer        where the preferred duration starts in small jobs (not in the paper)
    participations   how often one client may take part (not in the paper)
    scale        Fig. 19: category requests to millions of clients

    workers      many measurements on many cores, for ``milp`` and ``scale``

Each folder has ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> int``, and writes its
numbers to ``results/`` beside it. Real data comes from the folder that ``OORT_DATA`` names.
"""
