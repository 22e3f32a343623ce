"""What the supervisor asks each batch system, and what the answers mean."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from supervisor import batch, systems
from supervisor.batch import Answer, System, ask, expand, system
from supervisor.job import Job

from hpcdist.schedulers import hostlist
from tests.schedulers.flux_transcripts import recorded
from tests.schedulers.test_hostlist import LISTS
from tests.tiers import examples

GIVEN: Final[Mapping[str, Mapping[str, str]]] = {
    "local": {},
    "slurm": {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_NUM_NODES": "3"},
    "pbs": {"PBS_JOBID": "7.head", "PBS_O_WORKDIR": "/work", "PATH": "/nowhere"},
    "lsf": {"LSB_JOBID": "7", "LSB_JOBINDEX": "0", "LS_SUBCWD": "/work"},
    "sge": {"JOB_ID": "7", "SGE_TASK_ID": "undefined", "HOSTNAME": "n1", "PE": "mpi"},
    "flux": {"FLUX_ENCLOSING_ID": "\u01927"},
}
"""What each batch system sets."""
USUAL: Final = {
    "run": "/run", "number": 1, "launcher": "mpirun", "mode": "tasks", "nodes": 1, "own_nodes": 0,
    "components": (), "array": "", "slots": 0, "launch_node": False,
}  # fmt: skip
SILENCE: Final = Answer(1, "cannot be reached")


class Asked(list[str]):
    """What was asked; the answer is that of the first key with which the question begins."""

    def __init__(self, answers: Mapping[str, str | Answer]) -> None:
        super().__init__()
        self.answers = {"flux job id --to=dec f7": "70\n", **answers}

    def __call__(self, words: Sequence[str], _: float) -> Answer:
        self.append(" ".join(words))
        found = next((text for key, text in self.answers.items() if self[-1].startswith(key)), SILENCE)
        return Answer(0, found) if isinstance(found, str) else found


def on(
    scheduler: str, asked: batch.Ask | None = None, given: Mapping[str, str] | None = None, **job: Any
) -> System:
    made = Job._make([None] * len(Job._fields))._replace(**{**USUAL, "scheduler": scheduler, **job})
    return system({**GIVEN[scheduler], **(given or {})}, made, Asked({}) if asked is None else asked)


# --- Questions


@pytest.mark.parametrize(("met", "answer"), [(0, (0, "well\n")), (4, (0, "well\n")), (9, (143, ""))])
def test_term_of_the_whole_job_meets_a_question(tmp_path: Path, met: int, answer: tuple[int, str]) -> None:
    line = (
        f"cd {tmp_path}; kill -TERM $$; echo >>calls; (($(wc -l <calls) > {met})) || exit 143; echo well >&2"
    )
    assert ask(["bash", "-c", line], 20) == answer
    assert len((tmp_path / "calls").read_text().splitlines()) == min(met + 1, 5)
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_question_ends_in_time() -> None:
    began = time.monotonic()
    assert ask(["bash", "-c", "sleep 60; :"], 0.3) == (124, "")
    assert ask(["bash", "-c", "setsid sleep 3 & exit 4"], 0.3) == (
        4,
        "",
    )  # what it leaves has its output open
    assert [ask([name], 1).code for name in ("/nowhere/squeue", "/")] == [127, 126]
    assert time.monotonic() - began < 30


# --- Whether a job is alive

QSTAT: Final = (
    "Job id  Name  User  Time Use S Queue\n------ ---- ---- ------ - ---\n7.head x hu1 00:00 {} workq\n"
)
BJOBS: Final = "JOBID USER STAT QUEUE FROM_HOST EXEC_HOST JOB_NAME\n7 hu1 {} normal head n1 x\n"
SGE: Final = "job-ID prior name user state slots ja-task-ID\n---\n  7 0.5 x hu1 {} 1 3\n"
LIVES, GONE, UNKNOWN = True, False, None


@pytest.mark.parametrize(
    ("question", "answer", "job", "lives"),
    [
        ("squeue -h -j 7 -o %T", (0, "COMPLETING\n"), "slurm 7", LIVES),
        ("squeue -h -j 7_3 -o %T", (0, "PENDING\n"), "slurm 7_3", GONE),
        ("squeue", (1, "slurm_load_jobs error: Invalid job id specified"), "slurm 7", GONE),
        ("squeue", (1, "slurm_load_jobs error: Unable to contact slurm controller"), "slurm 7", UNKNOWN),
        ("qstat 7.head", (0, QSTAT.format("E")), "pbs 7.head", LIVES),
        ("qstat", (0, QSTAT.format("Q")), "pbs 7.head", GONE),
        ("qstat", (153, "qstat: Unknown Job Id 7.head"), "pbs 7.head", GONE),
        ("qstat", (35, "qstat: 7.head Job has finished, use -x or -H to obtain"), "pbs 7.head", GONE),
        ("qstat", (162, "Connection refused"), "pbs 7.head", UNKNOWN),
        ("bjobs -w 7[3]", (0, BJOBS.format("USUSP")), "lsf 7[3]", LIVES),
        ("bjobs", (0, BJOBS.format("EXIT")), "lsf 7", GONE),
        ("bjobs", (255, "Job <7> is not found"), "lsf 7", GONE),
        ("bjobs", (255, "Failed in an LSF library call: Communication time out"), "lsf 7", UNKNOWN),
        ("qstat -s rs -u hu1", (0, SGE.format("dr")), "sge 7 ", LIVES),
        ("qstat", (0, SGE.format("r")), "sge 7 3", LIVES),
        ("qstat", (0, SGE.format("r")), "sge 7 2", GONE),
        ("qstat", (0, ""), "sge 7 ", GONE),
        ("qstat", (1, "error: commlib error: got select error (Connection refused)"), "sge 7 ", UNKNOWN),
        ("flux --parent jobs --no-header --format {state} f7", (0, "CLEANUP\n"), "flux f7", LIVES),
        ("flux", (0, "INACTIVE\n"), "flux f7", GONE),
        ("flux", (1, "JobID f7 unknown"), "flux f7", GONE),
        ("flux", (1, "flux-jobs: ERROR: Unable to connect to Flux"), "flux f7", UNKNOWN),
    ],
)  # fmt: skip
def test_a_job_is_alive_by_the_word_of_its_batch_system(
    question: str, answer: tuple[int, str], job: str, lives: bool | None  # noqa: FBT001
) -> None:  # fmt: skip
    scheduler, _, job_id = job.partition(" ")
    assert on(scheduler, Asked({question: Answer(*answer), "id -un": "hu1\n"})).lives(job_id) is lives
    assert on(scheduler).lives(job_id) is UNKNOWN


def test_a_process_of_this_host_is_alive_if_it_is_the_same_one() -> None:
    own, lives = on("local").own_id(), on("local").lives
    process, host, began = own.split()
    assert (process, host) == (str(os.getpid()), os.uname().nodename)
    others = (f"{process} {host} 1", f"{process} elsewhere {began}", process, "")
    assert [*map(lives, (own, *others))] == [LIVES, GONE, UNKNOWN, GONE, GONE]


# --- The job, its element and its nodes

ELEMENT: Final = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "9"}
OF_PBS: Final = {"PBS_JOBID": "7[3].head", "PBS_ARRAY_ID": "7[].head", "PBS_ARRAY_INDEX": "3"}


@pytest.mark.parametrize(
    ("scheduler", "array", "given", "expected"),
    [
        ("slurm", "", {}, ("7", "7", "", "7")),
        ("slurm", "1-4", ELEMENT, ("7", "7", "3", "7_3")),
        ("pbs", "", {}, ("7.head", "7", "", "7.head")),
        ("pbs", "1-4", OF_PBS, ("7[].head", "7", "3", "7[3].head")),
        ("pbs", "4", {}, ("7.head", "7", "4", "7.head")),
        ("lsf", "", {}, ("7", "7", "", "7")),
        ("lsf", "1-4", {"LSB_JOBINDEX": "3"}, ("7", "7", "3", "7[3]")),
        ("sge", "", {}, ("7", "7", "", "7 ")),
        ("sge", "1-4", {"SGE_TASK_ID": "3"}, ("7", "7", "3", "7 3")),
        ("flux", "", {}, ("f7", "70", "", "f7")),
        ("flux", "", {"FLUX_ENCLOSING_ID": "f7"}, ("f7", "70", "", "f7")),
    ],
)
def test_a_job_has_an_id_a_number_and_an_element(
    scheduler: str, array: str, given: dict[str, str], expected: tuple[str, ...]
) -> None:
    one = on(scheduler, given=given, array=array)
    assert (one.name, one.number, one.element, one.own_id()) == expected
    assert one.folder == one.environment.get(
        "PBS_O_WORKDIR", one.environment.get("LS_SUBCWD", str(Path.cwd()))
    )


@pytest.mark.parametrize("scheduler", [*GIVEN][1:])
def test_a_script_that_no_batch_system_started_says_so(scheduler: str) -> None:
    with pytest.raises(LookupError, match=r"^this script is for (sbatch|qsub|bsub|flux batch): there is no "):
        on(scheduler, given=dict.fromkeys(GIVEN[scheduler], ""))


@examples(50)
@given(LISTS)
def test_hosts_are_those_of_the_list(text: str) -> None:
    assert expand(text) == hostlist.expand(text)


HET: Final = {"SLURM_JOB_NODELIST_HET_GROUP_0": "a[1-2]", "SLURM_JOB_NODELIST_HET_GROUP_1": "b1"}
FEWER: Final = "Grid Engine gave the job 1 hosts, the plan has 2"
OTHERWISE: Final = (
    "slots, the plan wants 8 on each host: parallel environment mpi deals them out in another way; "
    "name one in sge.environments of the site file whose allocation_rule is 8"
)
HOSTS: Final = {
    "scontrol show hostnames n[1-9:4]": "o1\no5\no9\n",
    "flux hostlist --expand local": "n1 n2\n",
    "jsrun --nrs=2 --tasks_per_rs=1 --cpu_per_rs=1 --rs_per_host=1 bash -c echo": "1 n2\n0 n1\n",
}


@pytest.mark.parametrize(
    ("scheduler", "given", "job", "expected"),
    [
        ("local", {}, {}, "localhost"),
        ("slurm", {}, {"nodes": 2, "own_nodes": 1}, "n1 n2 n3"),
        ("slurm", {"SLURM_JOB_NODELIST": "n[1-9:4]"}, {"nodes": 3}, "o1 o5 o9"),
        ("slurm", HET, {"nodes": 3, "components": (2, 1)}, "a1 a2 b1"),
        ("slurm", {}, {"nodes": 4}, "the allocation has 3 nodes, the plan needs 4"),
        ("pbs", {"PBS_NODEFILE": "n2\nn1\nn2\nn1\n"}, {"nodes": 2}, "n2 n1"),
        ("lsf", {"LSB_MCPU_HOSTS": "login 1 n2 4 n1 4"}, {"nodes": 2, "launch_node": True}, "n2 n1"),
        ("lsf", {"LSB_DJOB_HOSTFILE": "n2\nn2\nn1\n"}, {"nodes": 2}, "n2 n1"),
        ("lsf", {"LSB_MCPU_HOSTS": "n2.x 4 n1.x 4"}, {"nodes": 2, "follows_jsrun": True}, "n1.x n2.x"),
        ("lsf", {"LSB_MCPU_HOSTS": "n2 4 n3 4"}, {"nodes": 2, "follows_jsrun": True}, "n2 n3"),
        ("sge", {}, {}, "n1"),
        ("sge", {"PE_HOSTFILE": "n2 8 a\nn1 3 a\nn1 5 b\n"}, {"nodes": 2, "slots": 8}, "n1 n2"),
        ("sge", {"PE_HOSTFILE": "n1 3 a\nn2 1 a\n"}, {"nodes": 2, "slots": 1}, "n1 n2"),
        ("sge", {"PE_HOSTFILE": "n1 6 a\n"}, {"nodes": 2, "slots": 1}, FEWER),
        ("sge", {"PE_HOSTFILE": "n1 8 a\nn2 4 a\n"}, {"nodes": 2, "slots": 8}, f"n2 has 4 {OTHERWISE}"),
        ("sge", {"PE_HOSTFILE": "n1 16 a\n"}, {"nodes": 2, "slots": 8}, f"n1 has 16 {OTHERWISE}"),
        ("flux", {}, {"nodes": 2}, "n1 n2"),
    ],
)  # fmt: skip
def test_the_nodes_are_in_the_order_of_the_plan(
    tmp_path: Path, scheduler: str, given: dict[str, str], job: dict[str, Any], expected: str
) -> None:
    for name, text in given.items():
        if "\n" in text:
            (tmp_path / "hosts").write_text(text)
            given = {name: str(tmp_path / "hosts")}
    try:
        found = " ".join(on(scheduler, Asked(HOSTS), given, **job).nodes())
    except LookupError as error:
        found = str(error)
    assert found == expected


# --- Nodes that are lost, and commands on the others


def test_nodes_that_are_not_well_and_those_that_slurm_has_left() -> None:
    rows = "n1 allocated\nn2 down*\nn2 down*\nn3 idle*\nsinfo: warning: n1 is down\n"
    answers = {
        "sinfo -h -N -n n[1-3] -o %N %T": rows, "sinfo -h -N -n m1,m2": "m2 drained\n",
        "squeue -h -j 7 -o %N": "n[1,3]\n", "scontrol show hostnames n[1,3]": "n1\nn3\n",
    }  # fmt: skip
    slurm = on("slurm", Asked(answers))
    assert [slurm.down(), slurm.down(["m1", "m2"]), slurm.live_nodes(9)] == [
        ["n2", "n3"],
        ["m2"],
        ["n1", "n3"],
    ]
    assert slurm.lost(["n1"]) == "by Slurm's word these nodes are not well: n2 n3"
    for silent in (on("slurm"), on("pbs"), on("flux")):
        assert (silent.down(), silent.live_nodes(9), silent.lost(["n1"])) == ([], [], "")


@pytest.mark.parametrize(("nodes", "which"), [([], "n2,n3"), (["n2", "n3"], "n2,n3"), (["n1"], "n1")])
def test_flux_says_which_nodes_are_offline(nodes: list[str], which: str) -> None:
    words = "resource status --no-header --states=offline --format={nodelist}"
    asked = f"{words} --include={which}".split()
    (answer,) = (done.stdout for done in recorded("nodes.txt") if [*done.command.argv[1:]] == asked)
    question = f"flux --parent {words} --include={which}" if nodes else f"flux {words}"
    flux = on("flux", Asked({question: answer, "flux hostlist --expand n3": "n3\n"}))
    assert flux.down(nodes) == answer.split()


AGENT: Final = "/run/remote.sh"
STEP: Final = (
    "srun --overlap --mem=0 --cpu-bind=none --export=ALL --nodes={0} --ntasks={0} --ntasks-per-node=1"
)
SSH: Final = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"]


def test_nodes_of_pbs_are_lost_where_nothing_can_be_started() -> None:
    ssh, nodes = "ssh -o BatchMode=yes -o ConnectTimeout=5", [f"n{number}" for number in range(1, 9)]
    asked = Asked({f"{ssh} n3 true": "", f"{AGENT} n3 true": ""})
    pbs = on("pbs", asked, remote_shell="agent", nodes=8)
    hint = "let `ssh NODE true` work without a password, or have the site put PBS's pbs_tmrsh on its nodes"
    by_ssh = f"by ssh, by which mpirun starts tasks there; {hint}"
    assert pbs.lost(nodes) == f"{pbs.here} cannot reach n2 n4 n5 {by_ssh}"
    pbs.agent = AGENT
    assert pbs.lost(["n1", "n2", "n3"]) == f"{pbs.here} cannot reach n2 by PBS's pbs_tmrsh: it was lost"
    assert len(asked) == 4 + 2
    assert on("pbs", remote_shell="ssh").lost(nodes) == ""


@pytest.mark.parametrize(
    ("scheduler", "start"),
    [
        ("slurm", ["env", "-u", "SLURM_HINT", *STEP.format(1).split(), "--nodelist=far.x", "echo", "a b"]),
        ("pbs", [AGENT, "far.x", "echo 'a b'"]),
        ("lsf", ["blaunch", "far.x", "echo 'a b'"]),
        ("sge", [*SSH, "far.x", "echo 'a b'"]),
        ("flux", ["flux", "exec", "-r", "4", "echo", "a b"]),
    ],
)
def test_words_run_on_any_node_of_the_job(scheduler: str, start: list[str]) -> None:
    one = on(scheduler, given={"SLURM_HINT": "nomultithread"})
    one.here, one.agent = "n1.x", AGENT * (scheduler == "pbs")
    assert one.on_node("far.x", 4, ["echo", "a b"]) == start
    assert [one.on_node(node, 0, ["echo"]) for node in ("n1", "localhost")] == [["echo"]] * 2
    assert (one.by_ssh("n1", ["echo"]), one.by_ssh("far.x", ["echo"])) == (["echo"], [*SSH, "far.x", "echo"])


def test_words_run_on_nodes_with_their_numbers() -> None:
    sge, nodes = on("sge"), ["n0", "n1", "n2"]
    sge.here = "n2"
    assert sge.on_nodes(1, 2, nodes, ["bash", "f"]) == [[*SSH, "n1", "bash f 1"], ["bash", "f", "2"]]
    ((*start, bash, c, line, name, first, p, format_),) = on("slurm").on_nodes(1, 2, nodes, ["printf", "%s,"])
    assert start == ["env", *STEP.format(2).split(), "--nodelist=n1,n2"]
    task, env = [bash, c, line, name, first, p, format_], {**os.environ, "SLURM_PROCID": "1"}
    assert subprocess.check_output(task, env=env, text=True) == "2,"


def test_programs_of_pbs_are_found_where_its_profile_puts_none_into_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("qstat", "qdel"):
        (tmp_path / "bin" / name).write_text("")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "pbs.conf").write_text(f"PBS_EXEC='{tmp_path}'\n")
    row = "Job id Name User Time S Queue\n7.head  t  me  0  R workq\n"
    asked = Asked({f"{tmp_path}/bin/qstat 7.head": row, f"{tmp_path}/bin/qdel 7.head": ""})
    pbs = on("pbs", asked, given={"PATH": "/nowhere"})
    assert isinstance(pbs, systems.Pbs)
    pbs.settings = str(tmp_path / "pbs.conf")
    assert pbs.lives("7.head")
    pbs.cancel("7.head")
    assert asked == [f"{tmp_path}/bin/qstat 7.head", f"{tmp_path}/bin/qdel 7.head"]


@pytest.mark.parametrize(("libraries", "where"), [("", "PATH"), ("/a b/lib:/c", "pbs.conf")])
def test_mpirun_starts_its_daemons_through_pbs(tmp_path: Path, libraries: str, where: str) -> None:
    (tmp_path / "bin").mkdir()
    program, agent = tmp_path / "bin/pbs_tmrsh", str(tmp_path / "remote.sh")
    program.write_text('#!/bin/bash\necho "$1"; shift; unset LD_LIBRARY_PATH; exec "$@"\n')
    program.chmod(0o755)
    (tmp_path / "pbs.conf").write_text(f"PBS_SERVER=head\nPBS_EXEC={tmp_path}\n")
    path = str(program.parent) if where == "PATH" else "/nowhere"
    given = {"PATH": path, "I_MPI_HYDRA_BOOTSTRAP": "rsh", "OMPI_MCA_plm_rsh_agent": "own"}
    found = []
    for nodes, mode, shell in ((1, "once", None), (2, "tasks", None), (2, "tasks", "agent")):
        pbs = on("pbs", given=given, nodes=nodes, mode=mode, remote_shell=shell)
        assert isinstance(pbs, systems.Pbs)
        pbs.settings = str(tmp_path / "pbs.conf")
        found.append((pbs.prepare(str(tmp_path)), pbs.agent))
    variables = {"OMPI_MCA_plm_rsh_agent": "own", "PRTE_MCA_plm_ssh_agent": agent, "HYDRA_LAUNCHER": "ssh"}
    assert found == [({}, ""), ({}, ""), ({**variables, "HYDRA_LAUNCHER_EXEC": agent}, agent)]
    words = [agent, "-x", "n2", "echo", "${LD_LIBRARY_PATH:-none}", "two"]
    env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": libraries}
    assert subprocess.check_output(words, env=env, text=True) == f"n2\n{libraries or 'none'} two\n"


# --- The queue

DOWN, NO = "Unable to contact slurm controller (connect failure)", "Requested operation is presently disabled"


@pytest.mark.parametrize(
    ("code", "text", "found"),
    [(0, "", "queued"), (1, "Job is pending execution for job 7", "queued"), (1, NO, "refused"),
     (1, DOWN, "silent"), (124, "", "silent"), (143, "", "refused")],
)  # fmt: skip
def test_a_job_is_put_back_or_not(code: int, text: str, found: str) -> None:
    asked = Asked({"scontrol requeue": Answer(code, text)})
    assert [on("slurm", asked).requeue(late) for late in (False, True)] == [found] * 2
    assert asked == ["scontrol requeue Incomplete 7", "scontrol requeue 7"]
    assert {on(name).requeue(False) for name in ("local", "pbs", "lsf", "flux")} == {"refused"}  # noqa: FBT003


@pytest.mark.parametrize(
    ("text", "since", "cancelled", "found"),
    [(DOWN, 300, 9999, (True, 300)), (DOWN, 9999, 9999, (False, 600)), (NO, 9999, 9999, (False, 100)),
     (DOWN, 300, 50, (False, 50)), ("", 0, 0, (False, 0))],
)  # fmt: skip
def test_a_job_asks_again_while_the_batch_system_is_down_but_not_for_ever(
    text: str, since: int, cancelled: int, found: tuple[bool, int]
) -> None:
    passed = [0.0]
    slurm = on("slurm", lambda *_: Answer(int(sum(passed) < since), text))
    wanted, clock = (lambda: sum(passed) < cancelled), (lambda: sum(passed))
    assert (batch.put_back(slurm, False, wanted, clock, passed.append), sum(passed)) == found  # noqa: FBT003


def test_grid_engine_takes_two_exit_codes_for_requests() -> None:
    sge = on("sge")
    assert [sge.exit_code(code) for code in (0, 99, 100, 101)] == [0, 1, 1, 101]
    assert (sge.requeue(False), sge.requeued_code(3), on("slurm").requeued_code(3)) == ("queued", 99, 3)  # noqa: FBT003


UPDATE: Final = "scontrol update JobId=7 ExcNodeList="
HOSTNAME: Final = "qalter -l hostname=!({}) 7"
QALTER: Final = "qalter -l h_rt=60,mem=2G,hostname=!({}) 7"


@pytest.mark.parametrize(
    ("scheduler", "own", "expected"),
    [
        ("slurm", "n[8-9]\n", [f"{UPDATE}n1,n2,n[8-9]", f"{UPDATE}n3,n[8-9]", f"{UPDATE}n[8-9]"]),
        ("slurm", "\n", [f"{UPDATE}n1,n2", f"{UPDATE}n3", UPDATE]),
        ("sge", "hard resource_list:         h_rt=60,hostname=!(n8|n9),mem=2G\n",
         [QALTER.format("n1|n2|n8|n9"), QALTER.format("n3|n8|n9"), QALTER.format("n8|n9")]),
        ("sge", "number: 7\n", [HOSTNAME.format("n1|n2"), HOSTNAME.format("n3"), "qalter -l  7"]),
        ("sge", "hard resource_list: hostname=n4\n", []),
        ("slurm", SILENCE, []), ("sge", SILENCE, []), ("pbs", "", []), ("flux", "", []),
    ],
)  # fmt: skip
def test_what_is_excluded_is_what_the_user_wrote_and_what_is_bad_now(
    tmp_path: Path, scheduler: str, own: str | Answer, expected: list[str]
) -> None:
    asked = Asked({"squeue -h -j 7 -o %x": own, "qstat -j 7": own})
    for bad in ([], ["n1", "n2"], ["n3"], []):
        on(scheduler, asked).exclude(bad, str(tmp_path / "excluded"))
    assert [line for line in asked if line.startswith(("scontrol", "qalter"))] == expected


def test_followers_that_wait_do_without_what_went_bad_meanwhile(tmp_path: Path) -> None:
    for number, own in enumerate(("8;cluster", "9", "7", ""), 2):
        (tmp_path / f"record.{number}.json").write_text(f'{{\n  "job_id": "{own}",\n}}\n')
    (tmp_path / "job.2.sh").write_text("#BSUB -R \"select[hname!='n9']\"\n#BSUB -R 'span[ptile=4]'\ntrue\n")
    lsf = on("lsf", asked := Asked({}), run=str(tmp_path), number=2)
    for other in batch.followers(lsf.job, "7"):
        for bad in ([], ["n1", "n2"]):
            lsf.exclude(bad, str(tmp_path / "excluded"), other)
        lsf.cancel(other)
    words = "bmod -R select[hname!='n1' && hname!='n2'] -R select[hname!='n9'] -R span[ptile=4]"
    assert asked == [f"{words} 8", "bkill 8", f"{words} 9", "bkill 9"]
    (tmp_path / "job.2.sh").write_text("#BSUB -nnodes 2\n")
    lsf.exclude(["n1"], str(tmp_path / "excluded"), "8")
    assert len(asked) == 4


# --- Its end

COMPONENT: Final = "JobId={} HetJobId=7 JobState={} StartTime=2026-11-23T10:00:00 PreemptTime={}\n"
AFTER, NONE = "2026-11-23T11:00:00", "None"


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([("RUNNING", AFTER), ("RUNNING", NONE)], "preempt"),
        ([("RUNNING", NONE), ("RUNNING", AFTER)], "preempt"),
        ([("RUNNING", NONE), ("RUNNING", NONE)], ""),
        ([("CANCELLED", NONE), ("RUNNING", NONE)], "terminated"),
        ([("COMPLETING Reason=TimeLimit", NONE)], "timeout"),
        ([("RUNNING", "2026-11-22T11:00:00")], ""),
    ],
)
def test_why_slurm_ends_a_job(records: list[tuple[str, str]], why: str) -> None:
    text = "".join(COMPONENT.format(7 + number, *record) for number, record in enumerate(records))
    assert on("slurm", Asked({"scontrol show job 7": text})).ending() == why
    assert (on("slurm").ending(), on("pbs").ending()) == ("", "")


@pytest.mark.parametrize(
    ("answer", "end"), [("1500\n", 1500), ("1500\n1400\n", 1400), ("N/A\n", None), (Answer(1, "1500"), None)]
)
def test_a_limit_may_have_been_put_off(answer: str | Answer, end: float | None) -> None:
    words = "env SLURM_TIME_FORMAT=%s squeue -h -j 7_3 -o %e"
    assert on("slurm", Asked({words: answer}), ELEMENT).end() == end


def test_signals_reach_the_tasks_alone() -> None:
    jobs = "flux jobs -n -f running -o {id.dec}"
    asked = Asked({jobs: "1\n2\n", "flux job kill --signal=USR1 2": "", "scancel": ""})
    found = [on(name, asked, launcher="srun").signal_tasks("USR1") for name in ("slurm", "flux", "pbs")]
    assert (found, asked[0]) == ([True, True, False], "scancel -s USR1 7")
    assert [on(name).signal_tasks("TERM") for name in ("slurm", "flux")] == [False, False]
