"""Pipelines: operations, each a run, that the batch system starts one after the other.

model    a pipeline, its operations, and what each needs
reading    files become pipelines; `{{ ops.NAME.outputs.path }}` in them
planning    the operations become plans, with the dependencies of their jobs
store    the directory of a pipeline, and the runs of its operations
submitting resuming    submit all of them, or those that did not end well once more
removing    which of their runs may be removed
looking    how far a pipeline is
"""
