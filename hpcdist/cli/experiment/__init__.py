"""The verbs that take an experiment file, or write one.

init render plan explain check schema import_    one verb each
script_check    `check` of a job script
when    the starts that `plan --when` shows
new_file    the text of a first experiment; writing output files
"""
