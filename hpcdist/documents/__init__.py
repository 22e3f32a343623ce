"""YAML with places: text becomes plain data whose every value knows its file, line and column.

source compose tree scalars yaml_words    reading YAML, strictly, and where each value stands
fields specs    what the models of experiments and sites are made of; names and texts that scripts can take
"""
