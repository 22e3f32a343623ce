"""Usage: what the jobs of a run used of what they had, and advice from it; it imports no models.

cost    queue time, elapsed time, GPU-hours, CPU time and memory of each start of a job
"""
