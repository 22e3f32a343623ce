"""Rehearsals: a training is ended on purpose, again and again, and what it does then is judged.

small    the run of a rehearsal: the experiment on few nodes, for some minutes
observed    what its script recorded of each attempt
checkpoints    when checkpoints were written, how long that took, and which are written over in place
steps    the steps that its program tracked
resuming    whether an attempt went on where the one before had got to
judging    what all this comes to; the problems that it shows
"""
