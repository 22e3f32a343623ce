"""The verbs of jobs: from `submit` to `wait`.

submit list status describe logs metrics cancel wait    one verb each
runs follow    shared: finding runs and printing reports; following output
"""
