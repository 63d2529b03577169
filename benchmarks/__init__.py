"""Measurements; results are written to benchmarks/results."""
