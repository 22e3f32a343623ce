"""What the machine offers: the model of a site file, and what belongs to it.

model fabric affinity dialects    partitions, nodes, the fabric, CPUs next to GPUs, what one scheduler needs
problems provenance    what is wrong with a site file, and who vouches for its values
detection survey    which site a machine is, and what a batch system says of its nodes
"""
