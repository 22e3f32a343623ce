"""Layers add words in front of the user's command, and variables: launcher, container, framework.

protocols    the protocols of launchers, frameworks and container runtimes
launchers frameworks containers    one file each
wiring polyaxon_variables    the values of each task's variables before the job; Polyaxon's variables
"""
