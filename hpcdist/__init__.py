"""hpcdist: one experiment file; any supercomputer.

The map, from the ground up: a module imports only from the lines above its own, and from its left.

    errors units words specs budget job scalars yaml_words hostlist affinity image xdg    primitives
    untrusted ownership    files that others may have made, folders in which others may write
    fields command registry tree bounded sandbox    what YAML models are made of; templates; extension
    bash_words launch_options launch_hosts launch    commands that start processes themselves
    amounts experiment experiment_problems launch_problems    what is asked for
    dialects fabric site site_problems survey    what is offered
    replica plan devices    what the user counts; tasks, placement, everything decided with its origin
    layer    the protocols of launchers, containers and frameworks
    schedulers launchers containers frameworks importers    one file each, or one folder
    pool placement feasibility alternatives selection origins    where all runs: decisions, pure
    detect starting visibility enclosing preparing    how it is started: decisions, pure
    polyaxon remarks meeting launch_advice scripts advice provenance variables lint planner wiring    the sum
    compose source command_text templating inputs overrides load preferences schema native_text    files
    resources bytecode renderer shell locks record events rundir world    other edges: templates, shell, runs
    logs deadline endings inquiry states waiting control    submit, status, logs, cancel, wait
    doctor    what could keep jobs from running well, and the programs that tasks run to find out
    cli    one short module per verb
    testing    FakeShell and the contract that every scheduler keeps
"""

__version__ = "0.1.0"
