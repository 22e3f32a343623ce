"""Commands that are a launch already: the user's own mpirun, torchrun or srun line.

bash_words    the words of a command, as bash splits them
options hosts line    the options of launchers, the hosts that they name, and the launch of a command
problems    hosts that no job has
"""
