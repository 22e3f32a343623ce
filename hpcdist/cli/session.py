"""From what the user typed to a plan, with its warnings and notes printed."""

from __future__ import annotations

from hpcdist.cli.tell import tell
from hpcdist.documents.tree import Document
from hpcdist.host import resources
from hpcdist.loading import machine
from hpcdist.loading.machine import Machine
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.loading.preferences import Preferences


def planned(options: ExperimentOptions, document: Document | None = None) -> Planned:
    """Return the plan, as `plan_experiment` makes it, and print what it warns of.

    Raises:
        HpcdistError: with what was warned of so far, and all errors.
    """
    made = plan_experiment(options, document=document)
    tell(made.problems)
    return made


def machine_of(
    option: str | None, site_path: tuple[str, ...], own: Preferences, *, working: bool = False
) -> Machine:
    """Return the site that is named, else this machine's, and print what to know of the choice.

    ``working``: with a launcher that this machine has.

    Raises:
        ConfigError: as `machine.choose` does.
    """
    chosen = machine.choose(option, resources.site_folders(site_path), own)
    chosen = machine.with_working_launcher(chosen, None) if working else chosen
    tell(chosen.problems)
    return chosen
