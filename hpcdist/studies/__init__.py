"""Studies: several runs that answer one question, or one run that is put to a test.

scaling_plan    one experiment planned for several numbers of nodes, and what the study may cost
scaling_runs    which runs belong to a scaling study; submitting those that are missing
scaling_results    what the runs have measured: throughput, efficiency and cost of each size, and the laws
scaling_report    that as text, as data, as a plot and as a section of a report
rehearsal    a small run that is ended on purpose, and the verdict on what it did then
rehearsal_record    what a rehearsal recorded: attempts, checkpoints, steps, and where each attempt resumed
pipeline_file    a file with several operations becomes a pipeline
pipeline_plan    a pipeline, what its operations need, and their plans
pipeline_runs    the directory of a pipeline, its state, and which of its runs may be removed
pipeline_submit    submitting all operations, or again those that did not end well
"""
