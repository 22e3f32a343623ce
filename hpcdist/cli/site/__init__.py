"""The verbs of machines: their site files, and checks of a machine.

sites sites_check sites_measured sites_init    `sites` and its verbs
nodes    which nodes failed or were slow
doctor doctor_launches doctor_nodes lint_env    checks of a machine and of its environment
"""
