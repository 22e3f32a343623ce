"""The experiment: the model of an experiment file, and its checks.

model amounts image replica    the model; amounts of resources; container images; replicas in rank order
batch_specs    arrays, signals and dependencies in Slurm's syntax, parsed once
problems remarks comments    errors, keys without effect, and arguments that YAML reads as comments
launch    commands that start processes themselves
writing    an experiment as YAML
"""
