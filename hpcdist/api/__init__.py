"""What ``import hpcdist`` gives a program: thin values over what the verbs call, which print nothing.

experiments    an experiment, of a file or of keyword arguments
plans runs results follow_up    what becomes of it: a plan, a run, what that recorded, and what may follow it
remote_runs    what is on remotes, which comes here before it is read
pipelines    several experiments that wait for each other
finding    the runs of a runs directory
waiting    until jobs have ended, in a thread or for ``async``
functions called task    a function as the program of a job, its result, and the program on the nodes
values    arguments of a program, checked; values as tables, in a notebook or on a terminal
"""
