"""Reports: one HTML file about runs, which opens in any browser without a network.

collecting    what a report shows of each run
timeline nodes code plan_lines    starts and ends; the placement; git; every value with its origin
curves    the metrics as plots
search importance    a search: its metric against its params; how much each param matters
scaling    the scaling studies among the runs
limits    how much is shown of each of so many runs
page text    the file; how values of runs stand in it
"""
