"""How heterogeneous clients are: the paper's Figures 1 and 2 and Table 1 beside our data.

derive      the figures that the simulator ships, derived from the traces
measure     our statistics beside the paper's, as results.json and pictures
"""
