"""Running hpcdist on the test grid as its users do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.sge.grid import Grid
from tests.slurm.cluster import CHECKOUT, Completed
from tests.slurm.users import ENVIRONMENT, User

SITE = CHECKOUT / "tests" / "sites" / "sge-like.yaml"


@dataclass(frozen=True)
class GridUser(User):
    """Somebody at the head node of a Grid Engine, in one directory."""

    grid: Grid = field(kw_only=True)

    def hpcdist(
        self, *words: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> Completed:
        """Run hpcdist to its end."""
        return super().hpcdist(*words, env={"HPCDIST_SITE": str(SITE), **(env or {})}, timeout=timeout)

    def state(self, run: str) -> str:
        """Return the word of `hpcdist status` for a run."""
        (record,) = self.json("status", run)
        return str(record["state"])

    def job(self, run: str) -> str:
        """Return the id of a run's job."""
        (record,) = self.json("status", run)
        return str(record["job_id"])

    def with_command(self, name: str, script: str) -> dict[str, str]:
        """Put a command of one's own before Grid Engine's; return the environment that finds it."""
        folder = self.directory / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("#!/bin/bash\n" + textwrap.dedent(script).strip() + "\n")
        (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:{ENVIRONMENT['PATH']}"}

    def jobs(self) -> int:
        """How many jobs of this user live."""
        lines = self.grid.run("qstat", "-u", self.name).stdout.splitlines()
        return sum(re.match(r" *\d", line) is not None for line in lines)
