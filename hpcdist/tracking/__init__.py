"""Tracking: what programs recorded while they ran, read from plain files of the run directory.

files    which files there are: one a process, by job, attempt and rank
polyaxon    the files of Polyaxon's own client
written    metrics in files that programs write anyway
pytorch_profile    those of traces of PyTorch's profiler
points    the points of one series
series    the values of each metric, in one line over all attempts
reached    how far each attempt got, by the ends of its files
thinning    fewer points of a long series
trial_params    the params of the trials of a search
comparison    params, last metrics and models of several runs
outputs    the files of the outputs, and whether they are what was recorded
"""
