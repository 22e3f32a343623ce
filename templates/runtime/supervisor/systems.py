"""Slurm, PBS, LSF, Grid Engine and Flux, as a job sees them from inside."""

import itertools
import os
import re
import shlex
import shutil
from typing import Dict, List, Mapping, Optional, Tuple

from .batch import LATE, Answer, System, Words, expand, line_of, lines_of, short
from .start import say

_OPTIONS = re.compile(
    "SLURM_(NTASKS_PER_NODE|(CPUS|TRES|GPUS)_PER_TASK|DISTRIBUTION|(CPU|GPU|MEM)_BIND|HINT|MPI_TYPE|HOSTFILE)"
)
"""Options of the login shell, and of the job, which are none of our steps."""

_SILENCE = re.compile(r"Unable to contact|timed out|Connection refused|ommunication")


def _has_row(text: str, job: str, column: int, states: Words) -> bool:
    """Return whether a table has a row that begins with this job, and has one of these states."""
    rows = [line.split() for line in text.splitlines()]
    return any(len(row) > column and row[0].startswith(job) and row[column] in states for row in rows)


class Slurm(System):
    """Slurm."""

    program = "sbatch"
    canceller = ("scancel",)

    def _identity(self) -> Tuple[str, str, str]:
        name = self.environment.get("SLURM_ARRAY_JOB_ID") or self._given("SLURM_JOB_ID")
        return name, name, self.environment.get("SLURM_ARRAY_TASK_ID", "")

    def _lists(self) -> List[str]:
        """Return the list of hosts of each component."""
        if not self.job.components:
            return [self._given("SLURM_JOB_NODELIST")]
        return [self._given(f"SLURM_JOB_NODELIST_HET_GROUP_{at}") for at in range(len(self.job.components))]

    def _nodes(self) -> List[str]:
        found: List[str] = []
        counts = self.job.components or (int(self._given("SLURM_JOB_NUM_NODES")),)
        for text, count in zip(self._lists(), counts):
            hosts = expand(text)
            found += hosts if len(hosts) == count else self._hostnames(text)
        return found

    def _hostnames(self, text: str) -> List[str]:
        return self.ask(("scontrol", "show", "hostnames", text), 60).words or []

    def live_nodes(self, seconds: float) -> List[str]:
        """Ask squeue: with --no-kill a node that is down leaves its job."""
        found = self.ask(("squeue", "-h", "-j", self.own_id(), "-o", "%N"), seconds).words
        return self._hostnames(",".join(found)) if found else []

    def down(self, nodes: Words = ()) -> List[str]:
        """Ask sinfo."""
        answer = self.ask(("sinfo", "-h", "-N", "-n", ",".join(nodes or self._lists()), "-o", "%N %T"), 60)
        states = re.findall(r"(?m)^(\S+) +(\S+) *$", answer.text) if answer.code == 0 else []
        return list(dict.fromkeys(node for node, state in states if re.search("[*]|down|drain|fail", state)))

    def lost(self, nodes: Words) -> str:
        """Name the nodes that are down."""
        bad = self.down()
        return f"by Slurm's word these nodes are not well: {' '.join(bad)}" if bad else ""

    def _elsewhere(self, node: str, number: int, words: Words) -> List[str]:
        return [*self._step([node]), *words]

    def on_nodes(self, first: int, last: int, nodes: Words, words: Words) -> List[List[str]]:
        """Return one step."""
        line = 'exec "${@:2}" "$(($1 + SLURM_PROCID))"'
        return [[*self._step(nodes[first : last + 1]), "bash", "-c", line, "hpcdist", str(first), *words]]

    def _step(self, nodes: Words) -> List[str]:
        """Return a step that shares the job with the others, and has all variables: else it may lack PATH."""
        cleared = [word for name in self.environment if _OPTIONS.match(name) for word in ("-u", name)]
        size = [f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1"]
        shares = ["--overlap", "--mem=0", "--cpu-bind=none", "--export=ALL"]
        return ["env", *cleared, "srun", *shares, *size, f"--nodelist={','.join(nodes)}"]

    def own_id(self) -> str:
        """Return ``7`` or, of an element, ``7_3``."""
        return f"{self.name}_{self.element}" if self.element else self.name

    def lives(self, job_id: str) -> Optional[bool]:
        """Ask squeue."""
        answer = self.ask(("squeue", "-h", "-j", job_id, "-o", "%T"), 60)
        lives = re.search("RUNNING|COMPLETING|SUSPENDED", answer.text) is not None
        return lives if answer.code == 0 or "Invalid job id" in answer.text else None

    def requeue(self, late: bool) -> str:
        """Ask scontrol.

        With Incomplete it passes over a job that was cancelled meanwhile, which it would run again, too, and
        over one that met its limit, and says nothing.
        """
        answer = self.ask(("scontrol", "requeue", *([] if late else ["Incomplete"]), self.own_id()), 60)
        if answer.code == 0 or "pending execution" in answer.text:  # TERM came before the first answer
            return "queued"
        say(f"scontrol: {answer.text.strip()}")
        return "silent" if answer.code == LATE or _SILENCE.search(answer.text) else "refused"

    def exclude(self, nodes: Words, keep: str, follower: str = "") -> None:
        """Ask scontrol, which takes this of jobs in the queue alone."""
        job = follower or self.own_id()
        own = self._at_first(keep, nodes, lambda: self.ask(("squeue", "-h", "-j", job, "-o", "%x"), 60).words)
        if own is None:
            return
        names = ",".join(filter(None, [*nodes, own]))
        answer = self.ask(("scontrol", "update", f"JobId={job}", f"ExcNodeList={names}"), 60)
        if answer.code and not follower:  # one may have ended
            say(f"scontrol: {answer.text.strip()}")

    def end(self) -> Optional[float]:
        """Ask squeue."""
        words = ("env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-j", self.own_id(), "-o", "%e")
        found = self.ask(words, 60).words or []
        return min((float(text) for text in found if re.match("[1-9][0-9]*$", text)), default=None)

    def ending(self) -> str:
        """Ask scontrol: tasks get TERM before this script does, or alone when the grace time begins.

        A job that is to make room runs until that is over; one that was cancelled does not. Each component of
        a heterogeneous job has a record of its own.
        """
        records: List[Dict[str, str]] = []
        answer = self.ask(("scontrol", "show", "job", self.own_id()), 60)
        if answer.code:
            say(f"scontrol: {answer.text.strip()}")
        for name, _, value in (word.partition("=") for word in answer.text.split()):
            if name == "JobId":
                records.append({})
            if records:
                records[-1][name] = value
        if any(map(_is_preempted, records)):
            return "preempt"
        if all(record.get("JobState", "RUNNING") == "RUNNING" for record in records):
            return ""
        return "timeout" if any(record.get("Reason") == "TimeLimit" for record in records) else "terminated"

    def signal_tasks(self, name: str) -> bool:
        """Ask scancel, which signals the steps of a job: what srun started."""
        by_srun = self.job.launcher == "srun" and self.job.mode == "tasks"
        return by_srun and self.ask(("scancel", "-s", name, self.own_id()), 60).code == 0


def _is_preempted(record: Mapping[str, str]) -> bool:
    at = record.get("PreemptTime", "")
    return record.get("JobState") == "RUNNING" and at[:1].isdigit() and at >= record.get("StartTime", "")


_AGENT = """\
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
libraries=
[[ ! ${LD_LIBRARY_PATH:-} ]] || printf -v libraries 'export LD_LIBRARY_PATH=%%q; ' "$LD_LIBRARY_PATH"
exec %s "$1" /bin/bash -c "$libraries${*:2}"
"""
"""It gets LD_LIBRARY_PATH as it is when mpirun calls it, after the lines of setup."""


def agent_variables(environment: Mapping[str, str], agent: str) -> Dict[str, str]:
    """Return the variables by which MPIs use an agent, where their user has not chosen another way."""
    names = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
    found = {name: environment.get(name) or agent for name in names}
    if not (environment.get("HYDRA_LAUNCHER") or environment.get("HYDRA_BOOTSTRAP")):
        found.update(HYDRA_LAUNCHER="ssh", HYDRA_LAUNCHER_EXEC=agent)
    if not environment.get("I_MPI_HYDRA_BOOTSTRAP"):
        found.update(I_MPI_HYDRA_BOOTSTRAP="ssh", I_MPI_HYDRA_BOOTSTRAP_EXEC=agent)
    return found


class Pbs(System):
    """PBS Professional and OpenPBS."""

    program = "qsub"
    settings = "/etc/pbs.conf"
    signals_all = True  # seen of OpenPBS 23.06 (MoM: kill_session); at a second TERM mpirun leaves its ranks

    def _identity(self) -> Tuple[str, str, str]:
        name, array = self._given("PBS_JOBID"), self.job.array
        number = re.split("[^0-9]", name)[0]
        if array and not array.isdigit():
            return self._given("PBS_ARRAY_ID"), number, self._given("PBS_ARRAY_INDEX")
        return name, number, array  # of one element there is no array in PBS

    @property
    def folder(self) -> str:
        """PBS begins at home."""
        return self._given("PBS_O_WORKDIR")

    def _nodes(self) -> List[str]:
        return list(dict.fromkeys(lines_of(self._given("PBS_NODEFILE"))))  # in the order of the chunks

    def prepare(self, folder: str) -> Dict[str, str]:
        """Have mpirun start its daemons on other nodes through PBS.

        Many centres have no ssh between nodes, and PBS neither accounts for nor ends what ssh starts. An MPI
        that was built with PBS's library does so by itself.
        """
        starts = self.job.nodes > 1 and (self.job.mode == "once" or self.job.remote_shell == "agent")
        program = self._where("pbs_tmrsh") if starts else None
        if not program:
            return {}
        path = os.path.join(folder, "remote.sh")
        with open(path + ".part", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(_AGENT % shlex.quote(program))
        os.chmod(path + ".part", 0o700)
        os.rename(path + ".part", path)
        self.agent = path
        return agent_variables(self.environment, path)

    def _where(self, name: str) -> Optional[str]:
        """Find a program of PBS, whose profile may not have put it into PATH."""
        found = shutil.which(name, path=self.environment.get("PATH"))
        if found or not os.path.exists(self.settings):
            return found
        lines = [line.partition("=") for line in lines_of(self.settings)]
        folder = next((value.strip("\"' ") for name, _, value in lines if name == "PBS_EXEC"), "")
        return shutil.which(f"{folder}/bin/{name}")

    def lost(self, nodes: Words) -> str:
        """Name at most three nodes on which nothing can be started: they are down, or refuse logins."""
        if self.job.remote_shell != "agent":
            return ""
        starts = [
            [self.agent, node, "true"] if self.agent else self.by_ssh(node, ["true"], 5) for node in nodes
        ]
        bad = (node for node, words in zip(nodes[1:], starts[1:]) if self.ask(words, 10).code)
        found = " ".join(itertools.islice(bad, 3))
        by = "by PBS's pbs_tmrsh: it was lost" if self.agent else (
            f"by ssh, by which {self.job.launcher} starts tasks there; let `ssh NODE true` work without a "
            "password, or have the site put PBS's pbs_tmrsh on its nodes"
        )  # fmt: skip
        return f"{self.here} cannot reach {found} {by}" if found else ""

    def _elsewhere(self, node: str, number: int, words: Words) -> List[str]:
        by_ssh = super()._elsewhere(node, number, words)
        return [self.agent, node, line_of(words)] if self.agent else by_ssh

    def own_id(self) -> str:
        """Return ``7.head`` or ``7[3].head``."""
        return self._given("PBS_JOBID")

    def lives(self, job_id: str) -> Optional[bool]:
        """Ask qstat: 35 says that it has finished, 153 that it is unknown."""
        answer = self.ask((self._where("qstat") or "qstat", job_id), 60)
        lives = _has_row(answer.text, short(job_id), 4, [*"RESUTB"])
        return lives if answer.code in (0, 35, 153) else None

    def cancel(self, job_id: str) -> None:
        """Cancel a job by qdel."""
        self.ask((self._where("qdel") or "qdel", job_id), 60)


class Lsf(System):
    """LSF."""

    program = "bsub"
    canceller = ("bkill",)

    def _identity(self) -> Tuple[str, str, str]:
        number, element = self._given("LSB_JOBID"), self.environment.get("LSB_JOBINDEX", "")
        return number, number, "" if element == "0" else element

    @property
    def folder(self) -> str:
        """Where LSF cannot change to this folder, it starts the job in another one."""
        return self._given("LS_SUBCWD")

    def _nodes(self) -> List[str]:
        hosts = self.environment.get("LSB_MCPU_HOSTS", "").split()[::2]  # each has its slots behind it
        hosts = hosts or [host for host, _ in itertools.groupby(lines_of(self._given("LSB_DJOB_HOSTFILE")))]
        if self.job.launch_node:
            hosts = hosts[1:]  # this script runs there
        return self._ordered(hosts) if self.job.follows_jsrun else hosts

    def _ordered(self, hosts: List[str]) -> List[str]:
        """Ask jsrun for its own order of hosts, which ranks follow."""
        sizes = (f"--nrs={self.job.nodes}", "--tasks_per_rs=1", "--cpu_per_rs=1", "--rs_per_host=1")
        says = ("bash", "-c", 'echo "$JSM_NAMESPACE_RANK $(uname -n)"')
        ranks = re.findall(r"(?m)^([0-9]+) (\S+)$", self.ask(("jsrun", *sizes, *says), 600).text)
        names = {short(host): host for host in hosts}
        found = [names.get(short(host), "") for _, host in sorted(ranks, key=lambda row: int(row[0]))]
        if len(found) == self.job.nodes and all(found):
            return list(dict.fromkeys(found + hosts))
        say("jsrun did not tell its order of hosts; LSF's is taken")
        return hosts

    def _elsewhere(self, node: str, number: int, words: Words) -> List[str]:
        return ["blaunch", node, line_of(words)]

    def own_id(self) -> str:
        """Return ``7`` or ``7[3]``."""
        return f"{self.number}[{self.element}]" if self.element else self.number

    def lives(self, job_id: str) -> Optional[bool]:
        """Ask bjobs."""
        answer = self.ask(("bjobs", "-w", job_id), 60)
        states = ("RUN", "PROV", "USUSP", "SSUSP", "UNKWN")
        lives = _has_row(answer.text, job_id.partition("[")[0], 2, states)
        return lives if answer.code == 0 or "is not found" in answer.text else None

    def exclude(self, nodes: Words, keep: str, follower: str = "") -> None:
        """Ask bmod, which replaces all -R; the select sections of all are joined (bsub(1))."""
        lines = lines_of(self.job.own("job.sh")) if nodes and follower else []
        if not lines or any(line.startswith("#BSUB -nnodes ") for line in lines):
            return
        names = " && ".join(f"hname!='{node}'" for node in nodes)
        own = [re.sub("^[\"'](.*)[\"']$", r"\1", line[9:]) for line in lines if line.startswith("#BSUB -R ")]
        words = [word for request in (f"select[{names}]", *own) for word in ("-R", request)]
        self.ask(("bmod", *words, follower), 60)


class Sge(System):
    """Grid Engine."""

    program = "qsub"
    canceller = ("qdel",)

    def _identity(self) -> Tuple[str, str, str]:
        number, element = self._given("JOB_ID"), self.environment.get("SGE_TASK_ID", "")
        return number, number, "" if element == "undefined" else element

    def _nodes(self) -> List[str]:
        here = self.environment.get("HOSTNAME") or self.here
        slots: Dict[str, int] = {}
        lines = lines_of(self._given("PE_HOSTFILE")) if self.job.slots else []
        for host, count, *_ in map(str.split, lines):  # a host may have several, one a queue
            slots[host] = slots.get(host, 0) + int(count)
        hosts = list(dict.fromkeys([here, *slots]))  # this script's own comes first
        self._check(slots, len(hosts))
        return hosts

    def _check(self, slots: Mapping[str, int], hosts: int) -> None:
        wanted, needed = self.job.slots, self.job.nodes + self.job.own_nodes
        if wanted == 1 and hosts != needed:
            raise LookupError(f"Grid Engine gave the job {hosts} hosts, the plan has {needed}")
        bad = [(host, count) for host, count in slots.items() if hosts != needed or count < wanted]
        for host, count in bad[:1]:
            raise LookupError(
                f"{host} has {count} slots, the plan wants {wanted} on each host: parallel environment "
                f"{self.environment.get('PE', '')} deals them out in another way; name one in "
                f"sge.environments of the site file whose allocation_rule is {wanted}"
            )

    def own_id(self) -> str:
        """Return ``7 3``: without an element nothing is behind the blank."""
        return f"{self.number} {self.element}"

    def lives(self, job_id: str) -> Optional[bool]:
        """Ask qstat for what runs, or is suspended."""
        job, task = [*job_id.split(), "", ""][:2]
        user = self.ask(("id", "-un"), 60).words
        answer = self.ask(("qstat", "-s", "rs", "-u", user[0]), 60) if user else Answer(1, "")
        rows = [line.split() for line in answer.text.splitlines()]
        found = any(row[:1] == [job] and task in ("", row[-1]) for row in rows)
        return found if answer.code == 0 else None

    def requeue(self, late: bool) -> str:
        """Ask by the exit code (sge_diagnostics(7))."""
        return "queued"

    def requeued_code(self, code: int) -> int:
        """Return what puts the job into the queue again."""
        return 99

    def exit_code(self, code: int) -> int:
        """Replace those by which the job would be started again, or stay in an error state."""
        if code not in (99, 100):
            return code
        say(f"the exit code is 1 instead of {code}, which Grid Engine takes for a request")
        return 1

    def exclude(self, nodes: Words, keep: str, follower: str = "") -> None:
        """Ask qalter, which replaces all requests of a job at once; one of hosts by name is left as it is."""
        job = follower or self.number
        own = self._at_first(keep, nodes, lambda: self._requests(job))
        text = None if own is None else _excluding(own, nodes)
        if text is not None and self.ask(("qalter", "-l", text, job), 60).code and not follower:
            say(f"its nodes may be bad ones again: {','.join(nodes) or 'none'}")

    def _requests(self, job: str) -> Optional[List[str]]:
        answer = self.ask(("qstat", "-j", job), 60)
        return None if answer.code else re.findall("(?m)^hard resource_list: *(.*)$", answer.text)


def _excluding(own: str, nodes: Words) -> Optional[str]:
    """Return a job's requests without these hosts; None where its user wants hosts by name."""
    requests = list(filter(None, own.split(",")))
    others = [text for text in requests if not text.startswith("hostname=")]
    hosts = next((text.partition("=")[2] for text in requests if text not in others), "!()")
    if not (hosts.startswith("!(") and hosts.endswith(")")):
        return None
    names = "|".join(filter(None, [*nodes, hosts[2:-1]]))
    return ",".join([*others, f"hostname=!({names})"] if names else others)


class Flux(System):
    """Flux: the script is the first program of an instance on the job's nodes, and its id the outer one's."""

    program = "flux batch"
    canceller = ("flux", "--parent", "cancel")

    def _identity(self) -> Tuple[str, str, str]:
        # It begins with U+0192, or with an f where the locale lacks that: Flux reads both.
        name = os.fsencode(self._given("FLUX_ENCLOSING_ID"))
        name = b"f" + name[2:] if name.startswith(b"\xc6\x92") else name
        words = self.ask(("flux", "job", "id", "--to=dec", os.fsdecode(name)), 60).words
        number = next(filter(str.isdigit, words or []), "")
        if not number:
            raise LookupError(f"Flux does not answer on {self.here}")
        return os.fsdecode(name), number, ""

    def _nodes(self) -> List[str]:
        return self._hosts("local")

    def _hosts(self, text: str) -> List[str]:
        answer = self.ask(("flux", "hostlist", "--expand", text), 60)
        return answer.text.split() if answer.code == 0 else []

    def down(self, nodes: Words = ()) -> List[str]:
        """Ask the job's own instance, which has lost them; of others the enclosing one knows."""
        parent, which = (["--parent"], [f"--include={','.join(nodes)}"]) if nodes else ([], [])
        words = ("resource", "status", "--no-header", "--states=offline", "--format={nodelist}")
        found = self.ask(("flux", *parent, *words, *which), 60).words
        return self._hosts(",".join(found)) if found else []

    def _elsewhere(self, node: str, number: int, words: Words) -> List[str]:
        return ["flux", "exec", "-r", str(number), *words]

    def own_id(self) -> str:
        """Return it as Flux writes it, with an f."""
        return self.name

    def lives(self, job_id: str) -> Optional[bool]:
        """Ask the enclosing instance."""
        answer = self.ask(("flux", "--parent", "jobs", "--no-header", "--format", "{state}", job_id), 60)
        lives = re.search("RUN|CLEANUP", answer.text) is not None
        return lives if answer.code == 0 or "unknown" in answer.text else None

    def signal_tasks(self, name: str) -> bool:
        """Signal the tasks of each flux run, which a signal to itself would end, and leave them running."""
        jobs = self.ask(("flux", "jobs", "-n", "-f", "running", "-o", "{id.dec}"), 60).words or []
        codes = [self.ask(("flux", "job", "kill", f"--signal={name}", job), 60).code for job in jobs]
        return 0 in codes
