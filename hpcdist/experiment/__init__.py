"""The experiment: the model of an experiment file, and its checks.

model batch amounts image replica    the model; amounts of resources; container images; replicas in rank order
node_counts    the nodes, and the replicas of each, that the file asks for
batch_specs    arrays, signals and dependencies in Slurm's syntax, parsed once
problems remarks comments    errors, keys without effect, and arguments that YAML reads as comments
launch    commands that start processes themselves
writing    an experiment as YAML
"""
