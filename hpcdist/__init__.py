"""hpcdist: one experiment file; any supercomputer.

The map, from the ground up (a module imports only from the lines above its own):

    errors units words job           primitives
    fields command registry          what YAML models are made of; commands; the extension mechanism
    experiment site                  the two models: what the user asks, what the machine offers
    plan                             tasks, placement, everything decided with its origin
    layer                            the protocols of launchers and frameworks
    schedulers launchers frameworks containers importers    one file each
    pool placement selection launch polyaxon remarks planner    decisions, pure
    source load resources renderer shell rundir    the edges: YAML, files, templates, processes
    control                          submit, status, logs, cancel, wait
    cli                              one short module per verb
    testing                          FakeShell and the contract that every scheduler keeps
"""

__version__ = "0.1.0"
