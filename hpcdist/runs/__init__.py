"""Runs: each is one submission with its directory, record, event log, state and output.

rundir record stored_plan events    the files of a run
control cancelling removing services    submit, cancel and remove, and the services that they need
elements endings deadline querying states waiting logs    the state of a job, and its output
accounting attempts history    what happened to it
code_record    what its program is made of
shareable    its files without values that look like secrets
"""
