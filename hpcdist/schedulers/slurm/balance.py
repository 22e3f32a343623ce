"""What Slurm's associations have left: GrpTRESMins of an account, and of its user, less what is used.

``scontrol show assoc_mgr`` writes ``LIMIT(USED)`` in minutes, ``N`` for no limit, and needs neither the
database nor a priority plugin, as sacctmgr and sshare do. Limits of accounts above this one, and of
QOS, are not read.
Sources: scontrol(1), resource_limits.html; answers of a real 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.base import Left
from hpcdist.schedulers.slurm.queries import command

_SECONDS: Final = 5.0
_UNITS: Final = {
    "gres/gpu": "GPU-hours",
    "node": "node-hours",
    "cpu": "CPU-hours",
    "billing": "billing-hours",
}
_LIMIT: Final = re.compile(r"([\w/]+)=([0-9]{1,15})\(([0-9]{1,15})\)")


class Associations:
    """The limits of an account, and of its user in it."""

    def ask(self, account: str) -> Command:
        """Return the scontrol command."""
        argv = ("scontrol", "-o", "show", "assoc_mgr", f"accounts={account}", "flags=assoc")
        return command(*argv, timeout=_SECONDS)

    def read(self, completed: Completed, account: str, user: str) -> Iterator[Left]:
        """Yield the least that is left by the account's own limits and those of this user in it."""
        found: dict[str, Left] = {}
        for line in completed.stdout.splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split())
            own = fields.get("UserName", "").partition("(")[0] in ("", user)
            if fields.get("Account", "").casefold() == account.casefold() and own:
                for left in _lefts(fields.get("GrpTRESMins", "")):
                    if left.unit not in found or left.amount < found[left.unit].amount:
                        found[left.unit] = left
        yield from found.values()


def _lefts(text: str) -> Iterator[Left]:
    for name, limit, used in _LIMIT.findall(text):
        if name in _UNITS:
            yield Left((int(limit) - int(used)) / 60, _UNITS[name], int(limit) / 60)
