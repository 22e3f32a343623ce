"""Scaling studies: one experiment on several numbers of nodes, what that brings, and what it costs.

sizes    the experiment, planned for each number of nodes; the param that is this number
study    which runs belong together, and which of them are missing
measured results    what one run has measured; throughput, efficiency and cost of each size
fits    laws of scalability, fitted to the throughput of several sizes
plot    throughput by nodes, as marks on a sheet
"""
