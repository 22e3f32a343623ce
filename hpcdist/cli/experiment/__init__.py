"""The verbs that take an experiment file, or write one.

init render plan explain check schema import_    one verb each
starter new_file    the first experiment of a machine; files that are written only where none is
"""
