"""The verbs of jobs: from `submit` to `wait`.

submit list status describe logs metrics compare models outputs report cancel wait rm prune    one verb each
runs follow comparing code spans    shared: finding runs; output; the code of a job; times and sizes
"""
