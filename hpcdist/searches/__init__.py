"""Searches: the trials of a search that was submitted, and the further jobs of any run.

trials    the state of each trial, and a summary of all; one trial or element alone, and its cancellation
budget    the GPU-hours that a search has spent
replan    the recorded experiment of a run as a plan: for further jobs, or for a new run
resume    further jobs of a run: for what did not complete, or for additional trials
adaptive    the next generation of a search by hyperband or by Optuna
progress    the progress of a search, once and until its end
"""
