"""Checks: problems of a machine, what jobs used, and which nodes failed (why: `runs.failures`).

finding    what a check reports; the records that the tasks of the doctor's job write
host login    checks of any host; checks of a login node, which run all of them
host_info connectivity allreduce    the programs that tasks run: they need no hpcdist
job bandwidth    findings from their records; comparisons of settings
nodes    nodes that failed in all runs, and plans without them
usage    what the jobs of a run cost and used, and advice from it
"""
