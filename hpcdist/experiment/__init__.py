"""The experiment: the model of an experiment file, and its checks.

model    the sections of the file; resources; what is recorded
program    the command and its steps, data for each node, restarts
batch    settings of the batch job; arrays, signals and dependencies in Slurm's syntax, parsed once
search trials    a search over params: the values of each one; the trials that they make
replicas    replicas in rank order, on how many nodes, and their own commands
problems remarks    errors; keys without effect
shell_words    the words of a command, as bash splits them; the lines that set its shell up
shell_variables    which variables differ between tasks, and which batch system sets them
launch_options launch_line    commands that start processes themselves: options, the launch, its hosts
sources    images by their names, and the repository of the code
writing    an experiment as YAML
"""
