"""Commands that are a launch already: the user's own mpirun, torchrun or srun line.

bash_words    the words of a command, as bash splits them
options hosts line    what a launcher's options say, the hosts that they name, and the launch that they make
problems    what cannot work
"""
