"""Layers put words in front of a command and variables around it.

protocols    what a launcher, a framework and a container runtime have to answer
launchers frameworks containers    one file each
wiring polyaxon_variables    how tasks learn their values; the variables that Polyaxon gives
"""
