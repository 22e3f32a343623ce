"""The verbs that take an experiment file, or write one.

init render plan check schema import_    one verb each; `plan` with `explain`, and `plan --when`
script_check    `check` of a job script
new_file    the text of a first experiment; writing output files
"""
