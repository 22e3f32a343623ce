"""Loading: a document becomes an experiment, or another model, with all of its problems at once.

recognition    what a refused file is, where it is no experiment; command lines of other tools
load    the stages of loading, in order
named_files    files that a job file names
sites machine    site files, and the choice of the machine
planning    loading and planning in one call, for verbs and Python programs
commands    commands that bash does not parse, or whose program is not there
templates sandbox    ``{{ }}`` in files, with limits on time and memory
trials    the trials of a search, which differ in a few texts
inputs preferences    declared inputs, `--set` and `-p`, and the user's config file
schema    the keys of a file as JSON Schema
"""
