"""The plan and the site that the command-line options ask for; warnings and notes are printed."""

from __future__ import annotations

from hpcdist.cli.messages import print_problems
from hpcdist.documents.tree import Document
from hpcdist.host import resources
from hpcdist.loading import machine
from hpcdist.loading.machine import Machine
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.loading.preferences import Preferences


def planned(options: ExperimentOptions, document: Document | None = None) -> Planned:
    """Return the plan as `plan_experiment` makes it, and print its warnings.

    Raises:
        HpcdistError: with all errors and the warnings so far.
    """
    made = plan_experiment(options, document=document)
    print_problems(made.problems)
    return made


def machine_of(
    option: str | None, site_path: tuple[str, ...], own: Preferences, *, working: bool = False
) -> Machine:
    """Return the site of the option or of this machine, and print warnings about the choice.

    ``working``: choose a launcher that is installed on this machine.

    Raises:
        ConfigError: as `machine.choose` does.
    """
    chosen = machine.choose(option, resources.site_folders(site_path), own)
    chosen = machine.with_working_launcher(chosen, None) if working else chosen
    print_problems(chosen.problems)
    return chosen
