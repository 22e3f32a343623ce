"""Usage: what the jobs of a run used of what they had, and advice from it; it imports no models.

samples    the use of GPUs and CPUs that each node sampled
used    all of it
"""
