"""The verbs of jobs: from `submit` to `wait`.

submit rehearse status describe logs resume restart cancel wait rm    one verb each
shell exec_ debug    a shell in an allocation; a command beside a running job; the stacks of its ranks
metrics compare outputs sweep scale report export    verbs of what runs recorded
index    what `status --offline` shows
exit_codes    the exit code of `wait`, and of all verbs that exit with the code of a job
runs element    shared: finding runs, trials and operations of pipelines; their states
pipeline    several runs that depend on each other
used    what jobs cost
"""
