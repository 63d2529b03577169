"""Pictures, drawn with matplotlib (extra ``plots``).

rounds    round duration and utility, strategy beside strategy
"""
