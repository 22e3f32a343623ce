"""The verbs of jobs: from `submit` to `wait`.

submit list status describe logs cancel wait rm prune    one verb each
metrics compare models outputs sweep report export    verbs of what runs recorded
runs follow comparing code spans    shared: finding runs; output; the code of a job; times and sizes
"""
