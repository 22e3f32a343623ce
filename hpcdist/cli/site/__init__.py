"""The verbs of machines: their site files, and checks of a machine.

sites sites_check sites_init    `sites` and its verbs
doctor doctor_job    checks of a machine, of its variables, and of its nodes by a job
"""
