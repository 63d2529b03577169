"""One engine, one adapter: its own strategies, unchanged, with participants picked by Oort.

    flower      Flower: the message API, the classic API, and what runs on clients
    pysyft      PySyft, which does federated learning through Flower (`syft-flwr`)

An adapter knows :mod:`oort.protocols` and :mod:`oort.types` only, so that any selector fits: in
memory, durable, or yours. Nothing here is imported by ``import oort``.
"""
