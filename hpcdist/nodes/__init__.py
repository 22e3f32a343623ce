"""Nodes: which of them failed or were slow, over all runs of a user.

evidence suspicion    one observation against a node, and what all of them come to
ledger taking_up known    where it is kept, how it gets there from runs, and all that counts now
avoiding    a plan that does without suspect nodes
"""
