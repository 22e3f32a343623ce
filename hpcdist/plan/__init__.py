"""Everything decided: experiment, site and placement as one frozen value, each part with its origin.

model placement    the plan and its pieces; which task runs where
values    directives, variables, words; where each was decided
placeholders    texts that bash fills in for a job, and `hpcdist plan` before it
trials    how the trials of a search differ
fabric_variables    the variables that the fabric of a site sets for such a job, such as NCCL's
folding    a placement as people read it; which devices a task's GPUs are
"""
