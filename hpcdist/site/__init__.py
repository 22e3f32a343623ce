"""The site: the model of a site file, which describes a machine, and its checks.

model fabric affinity dialects    partitions, nodes, the fabric, CPUs next to GPUs, settings of one scheduler
problems provenance    problems of a site file, and the sources of its values
detection survey    which site a machine is, and what its batch system reports
"""
