"""A plan becomes the text that the scheduler gets.

renderer    the script: blocks of templates; the lines of hostfiles; the lines of setup for steps
exports places    the variables of the site, the framework and the user; the places of tasks, and their GPUs
launch    its launch line, and how a task's shell becomes the program
runtime    the files that a submitted script needs, and why
trial_table    the trials of a search, one row for each
explained    every line of it with its origin

Its texts are in ``templates/job``, in this order:

  head setup    directives (of the scheduler: `schedulers`); modules, and the site's and the user's lines
  enter variables    the folder; what the batch system set for others; the exports
  nodes    the nodes of the job, from SLURM_JOB_NODELIST and the like; the address of the rendezvous, its port
  container launcher files    images; what a launcher needs; the hostfile and others that it reads
  gpus task trial    what each task sets and checks: GPUs, ranks, the program; a packed trial
  launch launches erf    the launch: one line, a process for each task, or jsrun's file of resources (ERF)
  shell steps    what shells and steps get
"""
