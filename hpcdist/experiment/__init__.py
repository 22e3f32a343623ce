"""The experiment: the model of an experiment file, and its checks.

model program batch amounts image    the model; its program; amounts of resources; container images
replica    replicas in rank order
node_counts    the nodes, and the replicas of each, that the file asks for
tracking    metrics that are found in the output
batch_specs    arrays, signals and dependencies in Slurm's syntax, parsed once
steps own_commands    steps beside the command, and commands of single replicas
log_files    the job's own log files
restart    after which ends the program is started again
repository    the repository that a job's code is cloned from
problems remarks    errors, keys without effect, and arguments that YAML reads as comments
search    searches over params, and their trials
launch    commands that start processes themselves
writing    an experiment as YAML
"""
