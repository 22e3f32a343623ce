"""Reports: one HTML file about runs, which opens in any browser without a network.

collecting    what a report shows of each run
curves    the metrics as plots
search    a search: its metric against its params; how much each param matters
limits    how much is shown of each of so many runs
page text    the file; how values of runs stand in it
"""
