"""A plan becomes the text that the scheduler gets: the job's own part, and the runtime behind it.

renderer             both parts, and what templates may use
trial_table          the trials of a search, one row for each
settings lines       what the first part holds: entries of a map and rows of a table; lines of shell
explained            every line of it with its origin
bytecode             Jinja's templates in their compiled form, kept for the next start
"""
