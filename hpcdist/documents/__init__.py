"""YAML with places: plain data whose every value knows its file, line and column.

source tree yaml_errors    strict reading of YAML, with the place of each value
fields text_checks    models built from such data; checks of names and texts that scripts hold
"""
