"""The planner: pure functions that turn an experiment and a site into a plan.

make_plan job_spec budget request    the stages in their order
restarts    restarts after a failure or at the time limit: how another attempt gets nodes
pools gpus placement feasibility    where tasks run; what does not fit, and limits of time
partition_choice alternatives    the choice among these places, and what would fit
launcher_choice container_choice steps    how tasks are started
advice node_launches line_values    warnings; what shell variables in the user's command hold
lint    what the libraries of the fabric do with the variables of a plan
worst_case    what a plan costs at most, what the account has left, and other shapes of the job
"""
