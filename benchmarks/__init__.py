"""What is measured, and how.

    selection    time and memory of selection, from thousands to a hundred million clients
    published    the same beside the published Oort, from a checkout of yours
    store        what durability costs: commits, recovery, snapshots, bytes
    categories   time and certified gap of category requests at the size of OpenImage
    population   jobs to measure on, made through the public calls
    simulation   rounds per second of the simulator beside Flower's and pfl-research's
                 (simulation_model: its model in torch; simulation_gpu: on one accelerator)
    demo         what oort demo shows, for five seeds
    flower_example   what examples/flower shows, for six seeds
    machine      the machine that figures were taken on

``make bench`` runs ``selection``, ``make bench-sim`` runs ``simulation``, ``make bench-store``
runs ``store``; all write ``benchmarks/results``. Times are medians of several runs in one process
on one machine; the file names the machine. Nothing here is part of the wheel.
"""
