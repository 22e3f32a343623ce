"""Commands that are a launch already: the user's own mpirun, torchrun or srun line.

bash_words    the words of a command, as bash splits them
options line    the options of launchers, the hosts that they name, and the launch of a command
setup_lines    the lines that set the command's shell up, before its program
problems    hosts that no job has
"""
