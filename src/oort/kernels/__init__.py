"""The hot loops: one job each, no state, inputs that were checked at the door.

arrays    the NumPy ones: always there, and the oracle for any other
"""
