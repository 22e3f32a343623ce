"""Loading: a document becomes an experiment, or another model, with all of its problems at once.

recognition    what a refused file is, where it is no experiment
load    the stages of loading, in order
named_files command_lines    files that a job file names; command lines in place of a file
sites machine    site files, and the choice of the machine
planning    loading and planning in one call, for verbs and Python programs
bash_syntax    commands that bash does not parse
templates sandbox    ``{{ }}`` in files, with limits on time and memory
trials    the trials of a search, which differ in a few texts
inputs preferences    declared inputs, `--set` and `-p`, and the user's config file
schema    the keys of a file as JSON Schema
"""
