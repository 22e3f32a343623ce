"""The verbs of jobs: from `submit` to `wait`.

submit list status describe logs cancel wait    one verb each
runs follow    what they share: the runs that are meant; output as it comes
"""
