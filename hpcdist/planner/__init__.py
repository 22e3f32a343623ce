"""The planner: pure functions that turn an experiment and a site into a plan.

make_plan job_spec packing budget request accounts restarts    the stages in their order
pools gpu_types gpu_shares node_sizes placement feasibility alternatives selection    where tasks run
launcher_choice container_choice job_setup steps visibility variables origins    how tasks are started
advice launch_advice node_launches script_advice    warnings
"""
