"""Everything decided: experiment, site and placement as one frozen value, each part with its origin.

placeholders    texts that bash fills in for a job, and `hpcdist plan` before it
model    the plan and its pieces
devices fabric_variables    which devices a task's GPUs are; what the fabric of a site sets for such a job
"""
