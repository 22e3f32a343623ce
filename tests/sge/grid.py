"""A real Grid Engine beside the Slurm of a running test cluster: Debian's 8.1.9, with a cell of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.sge import config
from tests.slurm.cluster import Cluster, Completed
from tests.slurm.process import until

DEBIAN: Final = Path("/var/lib/gridengine")
CELL: Final = "default"
ADMIN: Final = "sgeadmin"


@dataclass(frozen=True)
class Grid:
    """A master on the cluster's head and an execution daemon on each of its nodes.

    Commands find it as on any Debian: /etc/default/gridengine, the cluster's own, names its root.
    """

    cluster: Cluster

    @classmethod
    def boot(cls, cluster: Cluster) -> Grid:
        """Start it, and return when every node takes jobs."""
        grid = cls(cluster)
        grid._make_root()
        grid._administer("/usr/sbin/sge_qmaster")
        until(lambda: grid.run("qconf", "-sconf").returncode == 0, "sge_qmaster to answer")
        grid._configure()
        for node in cluster.nodes:
            cluster.run(["/usr/sbin/sge_execd"], user="root", node=node, check=True)
        until(grid._is_up, "all execution daemons to report", seconds=300)
        return grid

    @property
    def root(self) -> Path:
        return self.cluster.settings.directory / "gridengine"

    @property
    def cell(self) -> Path:
        return self.root / CELL

    def run(self, *argv: str | Path, user: str = "root") -> Completed:
        """Run a command of Grid Engine on the head."""
        return self.cluster.run(argv, user=user, cwd=Path("/"))

    def heal(self) -> None:
        """Make it fit for the next test: no job is left, and no queue is in error."""
        if self.run("qstat", "-u", "*").stdout:
            self._administer("qdel", "-f", "-u", "*")
            until(lambda: not self.run("qstat", "-u", "*").stdout, "all jobs to be gone")
        self._administer("qmod", "-c", "*")

    def _make_root(self) -> None:
        spool = self.root / "spool"
        shell = f"""\
set -e
mkdir -p {self.cell}/common {spool}/qmaster/job_scripts {spool}/execd {spool}/db
for name in bin lib util utilbin; do ln -s {DEBIAN}/$name {self.root}/$name; done
sed -e 's@/var/spool/gridengine/spooldb@{spool}/db@' -e 's@/var/spool/gridengine/qmaster@{spool}/qmaster@' \
  /usr/share/gridengine/default-bootstrap >{self.cell}/common/bootstrap
echo head >{self.cell}/common/act_qmaster
chown -R {ADMIN}: {self.root}
cat >/etc/default/gridengine <<'END'
SGE_ROOT={self.root}
SGE_CELL={CELL}
END
setpriv --reuid={ADMIN} --regid={ADMIN} --clear-groups -- \
  /usr/share/gridengine/scripts/init_cluster {self.root} {CELL} {spool}/db {ADMIN}
"""
        self._administer("bash", "-c", shell)

    def _configure(self) -> None:
        nodes = self.cluster.settings.nodes
        for name in ("head", *self.cluster.nodes):
            self._administer("qconf", "-ah", name)
            self._administer("qconf", "-as", name)
        complexes = self._administer("qconf", "-sc").stdout
        self._give("-Mc", complexes + config.COMPLEXES)
        shown = self._administer("qconf", "-sconf", "global").stdout
        values = {**config.GLOBAL, "execd_spool_dir": str(self.root / "spool" / "execd")}
        self._give("-Mconf", config.changed(shown, values), "global")
        self._give("-Msconf", config.changed(self._administer("qconf", "-ssconf").stdout, config.SCHEDULER))
        for node in nodes:
            self._give("-Ae", config.host(node))
        for name, rule in config.ALLOCATION_RULES.items():
            self._give("-Ap", config.environment(name, rule))
        default = self._administer("qconf", "-sq").stdout
        self._give("-Aq", config.changed(default, config.queue("all.q", nodes)))

    def _give(self, option: str, text: str, name: str = "qconf.txt") -> None:
        """Hand a configuration to qconf, which reads it from a file."""
        file = self.root / name
        file.write_text(text)
        done = self._administer("qconf", option, file)
        assert "denied" not in done.stderr + done.stdout, done

    def _administer(self, *argv: str | Path) -> Completed:
        done = self.run(*argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done

    def _is_up(self) -> bool:
        """Whether each node's queue instance is there and well."""
        rows = [line.split() for line in self.run("qstat", "-f").stdout.splitlines() if "@" in line]
        return len(rows) == len(self.cluster.nodes) and all(
            len(row) == 5 and row[3] != "-NA-" for row in rows
        )
