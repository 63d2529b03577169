"""Pictures, drawn with matplotlib (extra ``plots``).

histories    runs of the simulator: accuracy over time, durations, participation, worst decile
page         an HTML page about runs that opens offline
plans        test plans: who takes how long, and how planners compare
testing      participants that a deviation target takes, and what draws of that size do
"""
