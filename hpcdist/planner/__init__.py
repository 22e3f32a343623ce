"""The planner: pure functions that turn an experiment and a site into a plan.

make_plan job_spec request    the stages in their order
pools gpu_types node_sizes placement feasibility alternatives selection    where tasks run, or why they cannot
launcher_choice container_choice job_setup visibility variables origins    how tasks are started
advice launch_advice node_launches script_advice    warnings
"""
