"""One submission and all that belongs to it: directory, record, events, states, logs.

rundir record kept_plan events    what is kept of a run
control cancelling services    submit; cancel; what they take from outside
endings deadline inquiry states waiting logs    what became of it, and what it wrote
"""
