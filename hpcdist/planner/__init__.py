"""The planner: pure functions that turn an experiment and a site into a plan.

make_plan job_spec request    the stages in their order
pools placement feasibility alternatives selection    where each task runs, or why the site cannot run it
launcher_choice container_choice job_setup visibility variables origins    how tasks are started
advice launch_advice node_launches script_advice    warnings
"""
