"""The experiments: how they measure."""
