"""Accounts: whether jobs of a site require one, and what its name must look like, of which jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcdist.documents.fields import Model
from hpcdist.site.conditions import Condition, JobFacts


class AccountRule(Condition, frozen=True, kw_only=True):
    """The form of the accounts of some jobs; without conditions that of all.

    ``pattern``: the form (a regular expression). ``hint``: what to write instead of another. ``refuse``:
    false to warn only, where the site may take others.
    """

    pattern: str
    hint: str
    refuse: bool = True


class Account(Model, frozen=True):
    """Whether jobs require an account, and its form.

    ``required``: a job without one is refused. ``pattern``: its form (a regular expression). ``hint``: the
    hint for a missing or invalid account. ``rules``: further forms, each of the accounts of some jobs.
    """

    required: bool = False
    pattern: str | None = None
    hint: str | None = None
    rules: tuple[AccountRule, ...] = ()

    def broken_rules(self, account: str, job: JobFacts) -> Iterator[AccountRule]:
        """Yield the rules for such a job of which the account has not the form."""
        for rule in self.rules:
            if job.satisfies(rule) and not re.fullmatch(rule.pattern, account):
                yield rule
