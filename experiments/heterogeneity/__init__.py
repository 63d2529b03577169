"""How heterogeneous clients are: the paper's Figures 1 and 2 and Table 1 beside our data.

    derive      the figures that the simulator ships, derived from the traces     -> src/oort/simulation/figures
    measure     our statistics beside the paper's                                  -> results.json, pictures
"""
