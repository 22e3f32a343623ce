"""Searches over params: which trials a sweep has, decided by arithmetic alone.

model    the section ``hptuning``: Polyaxon's keys
spaces    the values that one param may have: lists, ranges and distributions
trials    the trials of a grid, a random search, and a list
adaptive    how many trials each round of hyperband has, and which
problems    what keeps a search from having trials
"""
