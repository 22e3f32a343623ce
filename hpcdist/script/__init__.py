"""A plan becomes the text that the scheduler gets.

plain                the script that ``render`` prints: blocks, and what of ours they name
exports places       its variables; the places of tasks, and their GPUs
starting program     its launch line, and how a task's shell becomes the program
renderer             what ``submit`` submits: the job's own part, and the runtime behind it
trial_table          the trials of a search, one row for each
settings lines       what the job's own part holds: entries of a map and rows of a table; lines of shell
explained            every line of it with its origin
bytecode             Jinja's templates in their compiled form, kept for the next start
"""
