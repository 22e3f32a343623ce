"""What is asked of a batch system between two attempts, and what its answers mean."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.host.resources import template_folders
from tests.schedulers.flux_transcripts import recorded

RUNTIME = template_folders()[-1] / "runtime"

ASIDE = """\
timeout() { shift; "$@"; }
sleep() { SECONDS=$((SECONDS + $1)); }
hpcdist_fail() { echo "hpcdist: $*"; exit 86; }
hpcdist_call_if_there() { ! declare -F "$1" >/dev/null || "$@"; }
hpcdist_bad_nodes() { :; }
unset SECONDS
SECONDS=0
declare -A hpcdist=([scheduler]=slurm [restart]=requeue)
"""
"""What the functions call: time passes at once."""


def said(folder: Path, lines: str) -> tuple[int, str]:
    """Run lines with the functions of the runtime in bash; return the exit code and all output."""
    script = f"{ASIDE}. {RUNTIME}/queue.sh\n{lines}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


LIVES, GONE, UNKNOWN = 0, 1, 2
QSTAT = """Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
7.head            weird            hu1               00:00:00 {} workq
"""
BJOBS = """JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
7       hu1     {} normal     head        n1          weird      Nov 23 10:00
"""
SGE = """job-ID  prior   name       user         state submit/start at     queue        slots ja-task-ID
----------------------------------------------------------------------------------------------
      7 0.55500 weird      hu1          {}     11/23/2026 10:00:00 all.q@n1         1 3
"""


@pytest.mark.parametrize("nodes", ["", "n2,n3", "n1"])
def test_flux_says_which_nodes_are_offline(tmp_path: Path, nodes: str) -> None:
    words = ["resource", "status", "--no-header", "--states=offline", "--format={nodelist}"]
    (answer,) = (
        done.stdout for done in recorded("nodes.txt")
        if [*done.command.argv[1:]] == [*words, f"--include={nodes or 'n2,n3'}"]
    )  # fmt: skip
    (tmp_path / "answer").write_text(answer)
    asked = " ".join([*["--parent"] * bool(nodes), *words, *[f"--include={nodes}"] * bool(nodes)])
    lines = f"""
flux() {{
  if [[ $1 == hostlist ]]; then echo "$3"; elif [[ $* == "{asked}" ]]; then cat answer; else echo "$*"; fi
}}
down_flux {nodes} || :
"""
    assert said(tmp_path, lines) == (0, answer)


@pytest.mark.parametrize(
    ("command", "answer", "code", "asked"),
    [
        ("squeue", "COMPLETING", 0, ("slurm 7", LIVES)),
        ("squeue", "PENDING", 0, ("slurm 7_3", GONE)),
        ("squeue", "slurm_load_jobs error: Invalid job id specified", 1, ("slurm 7", GONE)),
        ("squeue", "slurm_load_jobs error: Unable to contact slurm controller", 1, ("slurm 7", UNKNOWN)),
        ("qstat", QSTAT.format("E"), 0, ("pbs 7.head", LIVES)),
        ("qstat", QSTAT.format("Q"), 0, ("pbs 7.head", GONE)),
        ("qstat", "qstat: Unknown Job Id 7.head", 153, ("pbs 7.head", GONE)),
        ("qstat", "qstat: 7.head Job has finished, use -x or -H to obtain", 35, ("pbs 7.head", GONE)),
        ("qstat", "Connection refused", 162, ("pbs 7.head", UNKNOWN)),
        ("bjobs", BJOBS.format("USUSP"), 0, ("lsf '7[3]'", LIVES)),
        ("bjobs", BJOBS.format("EXIT "), 0, ("lsf 7", GONE)),
        ("bjobs", "Job <7> is not found", 255, ("lsf 7", GONE)),
        ("bjobs", "Failed in an LSF library call: Communication time out", 255, ("lsf 7", UNKNOWN)),
        ("qstat", SGE.format("dr"), 0, ("sge '7 '", LIVES)),
        ("qstat", SGE.format("r"), 0, ("sge '7 3'", LIVES)),
        ("qstat", SGE.format("r"), 0, ("sge '7 2'", GONE)),
        ("qstat", "", 0, ("sge '7 '", GONE)),
        ("qstat", "error: commlib error: got select error (Connection refused)", 1, ("sge '7 '", UNKNOWN)),
        ("flux", "CLEANUP", 0, ("flux f7", LIVES)),
        ("flux", "INACTIVE", 0, ("flux f7", GONE)),
        ("flux", "JobID f7 unknown", 1, ("flux f7", GONE)),
        ("flux", "flux-jobs: ERROR: Unable to connect to Flux", 1, ("flux f7", UNKNOWN)),
        (":", "", 0, ('local "$(id_local)"', LIVES)),
        (":", "", 0, ('local "$$ $(uname -n) 1"', GONE)),
        (":", "", 0, ('local "$$ elsewhere 1"', UNKNOWN)),
    ],
)  # fmt: skip
def test_a_job_is_alive_by_the_word_of_its_batch_system(
    tmp_path: Path, command: str, answer: str, code: int, asked: tuple[str, int]
) -> None:
    job, found = asked
    (tmp_path / "answer").write_text(answer)
    lines = (
        f"function {command} {{ cat answer; return {code}; }}\nlives_{job}"
        if command != ":"
        else f"lives_{job}"
    )
    assert said(tmp_path, lines)[0] == found


OWNER = """\
hpcdist_attempts=. HPCDIST_JOB_ID=8 HPCDIST_ATTEMPT=0 hpcdist_first={first} hpcdist[restart]={restart}
lives_slurm() {{ echo "asked for $1"; return {code}; }}
hpcdist_check_owner
echo "begins after $SECONDS s"
"""


@pytest.mark.parametrize(
    ("code", "restart", "first", "found"),
    [
        (
            LIVES,
            "requeue",
            0,
            "job 7 of this run is alive, and would write the same checkpoints; cancel it, ",
        ),
        (LIVES, "follow", 1, "job 7 of this run is alive, and would write the same checkpoints; cancel it, "),
        (UNKNOWN, "requeue", 0, "nobody says whether job 7 of this run is alive"),
        (UNKNOWN, "follow", 0, "begins after 0 s"),
        (UNKNOWN, "requeue", 1, "begins after 0 s"),
        (GONE, "requeue", 0, "begins after 0 s"),
    ],
)
def test_no_attempt_begins_while_the_job_of_the_last_one_may_live(
    tmp_path: Path, code: int, restart: str, first: int, found: str
) -> None:
    (tmp_path / "0").write_text("7 0.0 7_3\n")
    done, out = said(tmp_path, OWNER.format(code=code, restart=restart, first=first))
    assert out.startswith("asked for 7_3\n")
    assert (done, found in out) == (0 if "begins" in found else 86, True)


def test_the_job_of_an_attempt_is_known_as_soon_as_it_has_written_its_line(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("")
    writes = "sleep() { echo 7 0.0 7_3 >0; }\n"
    lines = writes + OWNER.format(code=GONE, restart="requeue", first=0)
    assert said(tmp_path, lines) == (0, "asked for 7_3\nbegins after 0 s\n")


CLAIM = """\
. {runtime}/restarts.sh
hpcdist_unwritten() {{ echo the disk is full; exit 86; }}
hpcdist_attempts=. HPCDIST_ATTEMPT=0
hpcdist_claim_attempt "8 0.0" || echo "another job has it"
"""


def test_an_attempt_of_which_another_job_has_not_written_its_line_yet_is_that_jobs(tmp_path: Path) -> None:
    claim, file = CLAIM.format(runtime=RUNTIME), tmp_path / "0"
    file.write_text("")
    assert (said(tmp_path, claim), file.read_text()) == ((0, "another job has it\n"), "")
    file.unlink()
    assert (said(tmp_path, claim), file.read_text()) == ((0, ""), "8 0.0\n")


def test_an_attempt_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "0").symlink_to("/dev/full")
    assert said(tmp_path, CLAIM.format(runtime=RUNTIME)) == (86, "the disk is full\n")
    assert not (tmp_path / "0").is_symlink()


REQUEUE = """\
hpcdist_why=timeout SLURM_JOB_ID=7
scontrol() {{ ((SECONDS >= {since})) || {{ echo "$1 $2 $3: {said}" >&2; return 1; }}; }}
hpcdist_requeue
echo "$SECONDS ${{hpcdist_end:-not requeued}}"
"""
SILENT = "Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("since", "said_", "found"),
    [
        (300, SILENT, "300 requeued"),
        (9999, SILENT, "600 not requeued"),
        (9999, "Requested operation is presently disabled", "100 not requeued"),
    ],
)
def test_a_job_asks_again_while_the_batch_system_is_down_but_not_for_ever(
    tmp_path: Path, since: int, said_: str, found: str
) -> None:
    _, out = said(tmp_path, REQUEUE.format(since=since, said=said_))
    assert out.splitlines()[0] == f"requeue Incomplete 7: {said_}"
    assert out.splitlines()[-1] == found
    assert ("`hpcdist resume` goes on with its run" in out) == ("not" in found)


@pytest.mark.parametrize(("met", "found"), [(1, "0 requeued"), (4, "0 requeued"), (999, "100 not requeued")])
def test_term_of_the_requeue_itself_meets_what_asks_for_it(tmp_path: Path, met: int, found: str) -> None:
    """All processes of the job get it; timeout(1) passes it on though it is ignored, and ends with 143."""
    lines = f"""\
hpcdist_why=timeout SLURM_JOB_ID=7
scontrol() {{
  echo >>calls
  (($(wc -l <calls) > {met})) || return 143
  echo "Job is pending execution for job 7" >&2
  return 1
}}
exclude_slurm() {{
  echo >>excluded
  (($(wc -l <excluded) > {min(met, 4)})) || return 143
}}
hpcdist_requeue
echo "$SECONDS ${{hpcdist_end:-not requeued}}"
"""
    assert said(tmp_path, lines)[1].splitlines()[-1] == found
    assert (tmp_path / "excluded").exists() == (found == "0 requeued")
    if found == "0 requeued":
        assert len((tmp_path / "excluded").read_text().splitlines()) == met + 1


def test_term_meets_what_asks_why_the_job_is_being_ended(tmp_path: Path) -> None:
    lines = """\
SLURM_JOB_ID=7
scontrol() {
  echo >>calls
  (($(wc -l <calls) > 1)) || return 143
  echo 'JobId=7 JobState=COMPLETING Reason=TimeLimit'
}
ending_slurm
"""
    assert said(tmp_path, lines) == (0, "timeout\n")


FORKS = """\
. {runtime}/begin.sh
. {runtime}/task.sh
hpcdist_log_event() {{ echo "$*" >>events; }}
hpcdist_first_to_fail() {{ echo "failed $*" >>events; }}
hpcdist[mode]=once hpcdist_program=none hpcdist_status=138 hpcdist_end=requeued
trap {end} EXIT
hpcdist_trap_signals 2>/dev/null
hpcdist_meet_limit() {{ :; }}
subshell() ( : )
echo ready
for ((count = 0; count < 1500; count++)); do
  subshell
  : "$(subshell)"
done
trap '' TERM
exit 3
"""


@pytest.mark.extended
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("hpcdist_finish", ["requeued 138"]),
        (
            "hpcdist_end_unprepared",
            ["failed 3 a line of task_setup ended this task before its program had run (exit code 3)"],
        ),
    ],
)
def test_term_between_fork_and_reset_of_traps_runs_no_exit_trap(
    tmp_path: Path, end: str, expected: list[str]
) -> None:
    """bash gives a child that it has just forked the signal anew, with the parent's EXIT trap still set."""
    script = ASIDE + FORKS.format(runtime=RUNTIME, end=end)
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        while process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(0.0005)  # more often, bash meets one in the trap of another until its stack is full
    assert (process.returncode, (tmp_path / "events").read_text().splitlines()) == (3, expected)


COMPONENT = "JobId={} HetJobId=7 {} JobState={} {} StartTime=2026-11-23T10:00:00 PreemptTime={}\n"
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
def test_a_component_of_a_heterogeneous_job_that_makes_room_is_enough(
    tmp_path: Path, records: list[tuple[str, str]], why: str
) -> None:
    text = "".join(COMPONENT.format(7 + n, "", state, "", at) for n, (state, at) in enumerate(records))
    (tmp_path / "answer").write_text(text)
    assert said(tmp_path, "SLURM_JOB_ID=7\nscontrol() { cat answer; }\nending_slurm")[1].strip() == why


SGE_TOOLS = 'qalter() { echo "$*"; }; qstat() { echo "$REQUESTS"; }; name=sge JOB_ID=7'


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (
            "exec() { echo \"$*\"; }; squeue() { echo 'n[8-9]'; }; name=slurm SLURM_JOB_ID=7",
            [
                "scontrol update JobId=7 ExcNodeList=n1,n2,n[8-9]",
                "scontrol update JobId=7 ExcNodeList=n3,n[8-9]",
                "scontrol update JobId=7 ExcNodeList=n[8-9]",
            ],
        ),
        (
            f"{SGE_TOOLS} REQUESTS='hard resource_list:         h_rt=60,hostname=!(n8|n9),mem=2G'",
            [
                "-l h_rt=60,mem=2G,hostname=!(n1|n2|n8|n9) 7",
                "-l h_rt=60,mem=2G,hostname=!(n3|n8|n9) 7",
                "-l h_rt=60,mem=2G,hostname=!(n8|n9) 7",
            ],
        ),
        (
            f"{SGE_TOOLS} REQUESTS='job_number:   7'",
            ["-l hostname=!(n1|n2) 7", "-l hostname=!(n3) 7", "-l  7"],
        ),
        (
            f"{SGE_TOOLS} REQUESTS='hard resource_list: hostname=n4'",
            [],
        ),
    ],
)
def test_what_is_excluded_is_what_the_user_wrote_and_what_is_bad_now(
    tmp_path: Path, own: str, expected: list[str]
) -> None:
    lines = f"""\
{own} HPCDIST_JOB_DIR=.
for bad in '' n1,n2 n3 ''; do (exclude_$name "$bad"); done
"""
    assert said(tmp_path, lines)[1].splitlines() == expected


def test_what_the_user_excluded_is_kept_where_the_batch_system_does_not_answer(tmp_path: Path) -> None:
    lines = """\
HPCDIST_JOB_DIR=. SLURM_JOB_ID=7 JOB_ID=7
exec() { echo "$*"; }
squeue() { return 1; }
qstat() { return 1; }
(exclude_slurm n1)
(exclude_sge n1)
squeue() { echo n9; }
(exclude_slurm n1)
"""
    assert said(tmp_path, lines) == (0, "scontrol update JobId=7 ExcNodeList=n1,n9\n")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("n1 allocated\nn2 down*\nn3 idle*\n", "hpcdist: by Slurm's word these nodes are not well: n2 n3\n"),
        ("n1 allocated\n", ""),
        ("", ""),
    ],
)
def test_nodes_are_named_where_no_task_says_why_the_launcher_ended(
    tmp_path: Path, states: str, expected: str
) -> None:
    (tmp_path / "states").write_text(states)
    assert said(tmp_path, "timeout() { cat states; }; SLURM_JOB_NODELIST=n[1-3] lost_slurm") == (0, expected)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (
            'exec() { echo "$*" >>calls; }; squeue() { echo n9; }; hpcdist[scheduler]=slurm',
            [f"scontrol update JobId={job} ExcNodeList=n1,n2,n9" for job in (8, 9)],
        ),
        (
            'bmod() { echo "$*" >>calls; }; hpcdist[scheduler]=lsf',
            [
                f"-R select[hname!='n1' && hname!='n2'] -R select[hname!='n9'] -R span[ptile=4] {job}"
                for job in (8, 9)
            ],
        ),
        ("hpcdist[scheduler]=flux", []),
    ],
)
def test_followers_that_wait_do_without_what_went_bad_meanwhile(
    tmp_path: Path, own: str, expected: list[str]
) -> None:
    for number, job in enumerate((7, 8, 9), 1):
        (tmp_path / f"record.{number}.json").write_text(f'{{\n  "job_id": "{job}",\n}}\n')
    (tmp_path / "job.2.sh").write_text("#BSUB -R \"select[hname!='n9']\"\n#BSUB -R 'span[ptile=4]'\ntrue\n")
    (tmp_path / "calls").touch()
    lines = f"""\
{own}
hpcdist_bad_nodes() {{ printf '%s\\n' n1 n2; }}
HPCDIST_RUN_DIR=. HPCDIST_JOB_DIR=. hpcdist_attempts=. HPCDIST_JOB_ID=7 hpcdist[number]=2
hpcdist_exclude_from_followers
"""
    assert said(tmp_path, lines) == (0, "")
    assert (tmp_path / "calls").read_text().splitlines() == expected
