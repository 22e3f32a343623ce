"""The site: the model of a site file, which describes a machine, and its checks.

model nodes fabric charges    the machine, its nodes and partitions, its network, who pays what
settings    the jobs that a value is for, CPUs next to GPUs, settings of one scheduler
problems provenance    problems of a site file, and the sources of its values
published    the settings of the centre's own examples, and bandwidths that jobs measured
detection survey    which site a machine is, and what its batch system reports
"""
