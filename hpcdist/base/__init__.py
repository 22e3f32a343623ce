"""What all rooms stand on: errors, units, quoting, plug-ins; YAML with places; and the edge to this machine.

spelling errors units words registry    misspelt names, errors, quantities, shell quoting, plug-ins
fields tree source text_checks yaml_errors    YAML with places, and what models are made of
command shell alarm locks ownership resources    processes, files, locks, shipped data
"""
