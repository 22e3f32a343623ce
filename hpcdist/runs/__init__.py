"""Runs: each is one submission with its directory, record, event log, state and output.

rundir stored_plan events finding    the files of a run, and runs by their names
event_states    what the events of a run mean: ends, attempts, the state of all
submission cancelling removing services    submit, stop, remove; their needs
elements endings job_states starts waiting logs    the state of a job, and its output
accounting attempt_files attempts    what happened to it
awaited search_progress    the jobs of runs that a dependency names; how far an adaptive search is
requests this_machine    a plan becomes a request for `control`; the services of this machine
shells    runs whose job is a shell in this terminal
inside    where to run a command in a job; the stacks of its ranks
address    where a notebook or a TensorBoard is
code_copy git code_record job_code copying    what its program is made of, the files of its jobs, copies
remotes    the same on machines that are reached by ssh
"""
