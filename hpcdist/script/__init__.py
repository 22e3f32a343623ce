"""A plan becomes the text that the scheduler gets.

renderer bytecode    Jinja's templates and their compiled form, kept for the next start
"""
