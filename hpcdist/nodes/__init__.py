"""Nodes: which of them failed or were slow, over all runs of a user; it imports no models.

evidence    one observation against a node
"""
