"""The verbs of jobs: from `submit` to `wait`.

submit rehearse list status describe logs resume restart copy cancel wait rm prune    one verb each
shell exec_ debug    a shell in an allocation; a command beside a running job; the stacks of its ranks
metrics compare models outputs sweep scale report export    verbs of what runs recorded
runs element follow comparing    shared: finding runs and their trials; output
anew    shared by restart and copy
pipeline operations    several runs that depend on each other; a verb for each of them
spans used    times and sizes; what jobs cost; slow ranks and first failures
fetched    outputs of runs on remotes
sweep_job    the small job that goes on with a search
"""
