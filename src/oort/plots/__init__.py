"""Pictures, drawn with matplotlib (extra ``plots``).

histories    runs of the simulator: accuracy over time, durations, participation, worst decile
page         an HTML page about runs that opens offline
testing      participants that a deviation target takes, and what draws of that size do
"""
