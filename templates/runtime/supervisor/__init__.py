"""The supervisor of a submitted job, on its first node: it runs the job's script, once for each attempt.

For Python 3.6 and newer, with the standard library alone.

main        the course of a job, from the first line of its event log to the last
job start   what the plan says of the job, and what this start of it is
attempt launching causes clock    one attempt: its signals, who failed first, what the time limit asks for
restarts    what follows an attempt that failed or met the time limit: another one, here or in the queue
attempts progress nodes    the files of attempts; whether one left anything new; suspect nodes
batch systems    questions to the batch system
steps       what runs before the program, beside it and after it
trials packed    the trials of a search
node processes faults    what runs on each node next to the program: samples, faults, leftovers
limit       ends a job at its time limit where no batch system does
rehearsal ranks    attempts that are ended on purpose
events      the event log, the same module as hpcdist/runs/events.py
"""
