"""The verbs of jobs: from `submit` to `wait`.

submit list status describe logs metrics compare models cancel wait    one verb each
runs follow comparing code    shared: finding runs and printing reports; following output; the code of a job
"""
