"""The account that pays for a job: whether the site requires one, and has such ones for such a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.site.conditions import JobFacts
from hpcdist.site.model import Site

_PATH: Final = ("batch", "account")


def account_of(experiment: Experiment, site: Site) -> str | None:
    """Return the account that pays for the job.

    Raises:
        PlanError: where the site wants one, or another.
    """
    account, rule = experiment.batch.account, site.account
    hint = rule.hint or "write `batch: {account: NAME}` or `--set batch.account=NAME`"
    if account is None and rule.required:
        always = f"`sites: {{{site.name}: {{account: NAME}}}}` in ~/.config/hpcdist/config.yml"
        message = f"site {site.name} requires an account"
        raise PlanError(Problem(message, _PATH, f"{hint}; for all experiments {always}"))
    if account is not None and rule.pattern and not re.fullmatch(rule.pattern, account):
        message = f"site {site.name} has no accounts like {account!r} ({rule.pattern})"
        raise PlanError(Problem(message, _PATH, rule.hint or ""))
    return account


def advice(experiment: Experiment, site: Site, job: JobFacts) -> Iterator[Problem]:
    """Yield what the account's name must be for such a job, as errors or warnings."""
    account = experiment.batch.account
    for rule in site.account.broken_rules(account, job) if account else ():
        jobs = f" for {', '.join(rule.words)}" if rule.words else ""
        number = "no" if rule.refuse else "few"
        message = f"site {site.name} has {number} accounts like {account!r}{jobs} ({rule.pattern})"
        yield Problem(message, _PATH, rule.hint, "error" if rule.refuse else "warning")


def must_suit(experiment: Experiment, site: Site, job: JobFacts) -> None:
    """Check the account.

    Raises:
        PlanError: where the site has none of such a name for such a job.
    """
    if errors := [one for one in advice(experiment, site, job) if one.severity == "error"]:
        raise PlanError(*errors)
