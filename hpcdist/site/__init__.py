"""The site: the model of a site file, which describes a machine, and its checks.

model nodes charges    the machine, its nodes and partitions, CPUs next to GPUs, what a job is charged
fabric    settings of the network (NCCL's): which value a job gets; `plan.fabric_variables` keeps them
settings    container runtimes, and settings of one batch system
problems provenance    problems of a site file, and the sources of its values
published    the settings of the centre's own examples, and bandwidths that jobs measured
detection survey    which site a machine is, and what its batch system reports
"""
