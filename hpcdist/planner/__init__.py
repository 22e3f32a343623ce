"""Decisions, all of them pure: an experiment and a site become a plan.

make_plan job_spec request    the stages in their order
pools placement feasibility alternatives selection    where all runs, or why it cannot
launcher_choice container_choice job_setup visibility variables origins    how it is started
advice launch_advice node_launches script_advice    what is odd and yet no error
"""
