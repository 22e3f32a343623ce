"""Cost: what a job may take and be charged at most, and whether the user allows that.

worst_case    GPU-hours, node-hours and charge of a plan: time limit x nodes x elements x attempts
"""
