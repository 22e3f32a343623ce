"""Layers add words in front of the user's command, and variables: launcher, container, framework.

protocols    the protocols of launchers, frameworks and container runtimes
launchers frameworks containers    a table and a few lines for each, found by name
variables    Polyaxon's variables; the values of each task's variables before the job
"""
