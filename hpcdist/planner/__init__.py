"""The planner: pure functions that turn an experiment and a site into a plan.

make_plan job_spec packing budget request accounts restarts    the stages in their order
pools node_parts gpu_types gpu_shares node_sizes own_nodes placement feasibility    where tasks run
alternatives selection    the choice among these places, and what would fit
launcher_choice container_choice job_setup steps visibility variables origins    how tasks are started
advice launch_advice lost_variables node_launches qos_advice script_advice    warnings
"""
