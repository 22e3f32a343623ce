"""A plan becomes the text that the scheduler gets.

renderer             the script: blocks of templates; the lines of setup for steps
exports places       its variables; the places of tasks, and their GPUs
launch               its launch line, and how a task's shell becomes the program
runtime              the files that a submitted script needs, and why
trial_table          the trials of a search, one row for each
explained            every line of it with its origin
"""
