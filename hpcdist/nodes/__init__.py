"""Nodes: which of them failed or were slow, over all runs of a user.

ledger taking_up known    where it is kept, how it gets there from runs, and all that counts now
suspects    a plan that does without suspect nodes; the warnings about them
recorded measures peers    what ranks recorded, what of it can be compared, and who stands out
slow slowness gpus    which rank or node is slower than its peers, by what ranks recorded or the GPUs' use
failures    what nodes showed when tasks failed, and which task was the first
"""
