"""Sweeps: the trials of a search that was submitted, and the further jobs of any run, which `resume` adds.

claims    which trials of a packed search are to be run again
generations bayes    the next trials of an adaptive search
to_the_end    waiting for runs, of an adaptive search for its last generation
replanning    the plan of a run once more, for further jobs
anew    a new run of the experiment that a run recorded
continuing         further jobs of the same run, for what did not complete or in addition; what it keeps
looking    how far a search is, until its end
spending    what a search has spent of its budget
single    one trial alone: its state, and its end
trials    the state of each trial, and what they come to
"""
