"""A document becomes an experiment, or another model, with every problem of it at once.

load    the stages in their order
sites machine    a site file, and the choice of the machine
planning    all of it, and the plan: what a verb, or a program in Python, calls
templates sandbox    what stands in ``{{ }}``, with limits on its work
inputs overrides preferences    declared inputs, `--set`, and what is the user's in every experiment
schema    what a file may say, as JSON Schema
"""
