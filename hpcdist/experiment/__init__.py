"""What the user asks for: the model of an experiment file, and what belongs to it.

model amounts image replica    the model; amounts of resources; images of containers; what the user counts
batch_specs    arrays, signals and dependencies, as Slurm writes them, parsed once
problems remarks comments    what is wrong with it, means nothing here, or was lost to a comment of YAML
launch    commands that start processes themselves
writing    an experiment as YAML
"""
