"""A private MariaDB and slurmdbd, so that sacct answers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.slurm import config
from tests.slurm.config import Settings
from tests.slurm.process import call, until

DATA = Path("/run/mysqld/data")  # the cluster's own /run is memory, so nothing waits for a disk
SOCKET = Path("/run/mysqld/mysqld.sock")
OPTIONS = (
    "--no-defaults",
    "--user=mysql",
    f"--datadir={DATA}",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
)


def saved() -> Path:
    """Where an empty database of this version is kept: making one takes longer than all the rest."""
    version = call("mariadbd", "--version").split()[2]
    return Path.home() / ".cache" / "hpcdist" / f"mariadb-{version}.tar"


def fetch(settings: Settings) -> None:
    if (source := saved()).exists():
        shutil.copyfile(source, settings.database)


def keep(settings: Settings) -> None:
    """Save the empty database that the head has made, whole or not at all; a saved one stays."""
    if not (target := saved()).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            shutil.copyfile(settings.database, file.name)
        Path(file.name).replace(target)
    settings.database.unlink()


def mariadb(settings: Settings) -> None:
    """Start the database server without waiting for it, from the saved empty database where there is one."""
    DATA.mkdir(parents=True)
    for path in (DATA.parent, DATA):
        shutil.chown(path, "mysql", "mysql")
    if settings.database.exists():
        call("tar", "-C", str(DATA), "-xf", str(settings.database))
    else:
        call("mariadb-install-db", *OPTIONS, "--skip-test-db", timeout=120)
        call("tar", "-C", str(DATA), "-cf", str(settings.database), ".")
    private = ("--skip-networking", "--skip-grant-tables", f"--socket={SOCKET}")
    # Slurm warns about a short lock wait; what a crash would lose does not matter here.
    tuning = (
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
    )
    with settings.log("mariadb").open("w") as log:
        subprocess.Popen(["mariadbd", *OPTIONS, *private, *tuning], stdout=log, stderr=log)


def slurmdbd(settings: Settings) -> None:
    """Start slurmdbd, which makes its own tables, and register the cluster with it."""
    conf = Path("/etc/slurm/slurmdbd.conf")
    conf.write_text(config.slurmdbd_conf(settings))
    conf.chmod(0o600)
    shutil.chown(conf, "slurm", "slurm")
    until(SOCKET.exists, "MariaDB to listen", every=0.05)
    call("slurmdbd")
    until(answers, "slurmdbd to answer", every=0.05)
    call("sacctmgr", "-i", "add", "cluster", config.CLUSTER_NAME)


def answers() -> bool:
    asked = subprocess.run(
        ["sacctmgr", "-n", "show", "cluster"], check=False, capture_output=True, timeout=30
    )
    return asked.returncode == 0
