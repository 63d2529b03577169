"""Pictures, drawn with matplotlib (extra ``plots``).

rounds     round duration and utility, strategy beside strategy
testing    participants that a deviation target takes, and what draws of that size do
"""
