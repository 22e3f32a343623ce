"""Runs: each is one submission with its directory, record, event log, state and output.

rundir stored_plan events finding    the files of a run, and runs by their names
job_states event_states    the state of a run, decided: from the batch system's answers; from its events alone
submission cancelling removing services    submit, stop, remove; their needs
elements endings waiting    array elements; ends on record; waiting for ends
logs failures    the output of a job; why it failed
accounting attempt_files attempts    what happened to it
awaited search_progress    the jobs of runs that a dependency names; how far an adaptive search is
requests this_machine    the request of a submission, with its code; the services of this machine
inside    where to run a command in a job; the stacks of its ranks
address    where a notebook or a TensorBoard is
code_copy git code_record copying    what its program is made of, the files of its jobs, copies
remotes    the same on machines that are reached by ssh
"""
