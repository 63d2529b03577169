"""Pictures, drawn with matplotlib (extra ``plots``).

rounds     round duration and utility, strategy beside strategy
plans      test plans: who takes how long, and how planners compare
testing    participants that a deviation target takes, and what draws of that size do
"""
