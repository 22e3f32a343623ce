"""Layers add words in front of the user's command, and variables: launcher, container, framework.

protocols    the protocols of launchers, frameworks and container runtimes
launchers frameworks containers    srun, mpirun; torchrun (``frameworks/torch.py``), Horovod; Apptainer
variables    Polyaxon's variables; the values of each task's variables before the job
"""
