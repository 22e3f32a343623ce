"""Sweeps: the trials of a search that was submitted, how far each of them is, and which is best.

trials    the state of each trial, and what they come to
"""
