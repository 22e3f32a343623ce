"""Answers are those of a real flux-core 0.88, as tests/transcripts/flux/SOURCES says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hpcdist.errors import PlanError, SchedulerError, SubmissionUnknown
from hpcdist.experiment.batch import Mail
from hpcdist.experiment.batch_specs import dependency_problems
from hpcdist.host.command import Command, Completed
from hpcdist.host.shell import Shell
from hpcdist.plan.model import Plan
from hpcdist.plan.origin import DEFAULT, Origin
from hpcdist.plan.placement import Group
from hpcdist.plan.values import Directive, Variable, Word
from hpcdist.schedulers import Submission
from hpcdist.schedulers.flux import FLUX
from hpcdist.schedulers.flux.directives import HEADER
from hpcdist.schedulers.flux.ids import f58, plain_id
from hpcdist.schedulers.flux.queries import STATES, ById, Listing, status
from hpcdist.schedulers.header import directive_text
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.site.model import Directives, Site
from hpcdist.testing import MISSING, contract, failed
from hpcdist.units import Walltime
from tests.flux.rfc36 import directives, split
from tests.schedulers import plans
from tests.schedulers.flux_transcripts import recorded, refused
from tests.schedulers.plans import site

HERE = site(scheduler="flux", launcher="flux")


def group(**changes: Any) -> Group:
    return plans.group(**{"memory": None} | changes)


def plan(*groups: Group, **changes: Any) -> Plan:
    return plans.plan(*(groups or (group(),)), **changes)


BARE = plan(group(partition=None))


def texts(found: Plan, machine: Site = HERE) -> list[str]:
    return [directive_text(HEADER, line) for line in FLUX.directives(found, machine)]


def job(job_id: str) -> Job:
    return Job(job_id, "mnist-1", "/runs/mnist-1", "0123456789abcdef")


@pytest.mark.parametrize("printed", ["\u0192M7Zq9AKHno", "fM7Zq9AKHno"])
def test_contract(printed: str) -> None:
    contract.commands_and_answers(FLUX, f"{printed}\n", "fM7Zq9AKHno")


# --- Ids


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "f1"), (57, "fz"), (58, "f21"), (1 << 24, "f2UzHM"), ((1 << 64) - 1, "fjpXCZedGfVQ")],
)
def test_numbers_and_base_58_are_the_same_ids(number: int, text: str) -> None:
    assert (f58(number), plain_id(str(number)), plain_id(f"\u0192{text[1:]}")) == (text, text, text)


@pytest.mark.parametrize("text", ["", "f", "f0", "fO", "foo bar", "-1", "1.5", str(1 << 64), "f" * 13, "x2"])
def test_invalid_ids(text: str) -> None:
    assert plain_id(text) == ""


# --- Directives


def test_directives_of_a_plain_job() -> None:
    assert texts(plan()) == [
        "--job-name=mnist",
        "--queue=gpu",
        "--nodes=2",
        "--nslots=2",
        "--cores-per-slot=32",
        "--gpus-per-slot=4",
    ]


def test_directives_of_everything_at_once() -> None:
    rich = plan(
        group(constraint="a100&nvlink"),
        name="my job #1",
        account="proj",
        walltime=Walltime(5400),
        exclusive=True,
        dependency=("12", "afterany:f2111:34", "singleton"),
        signal="B:USR1@60",
        submit_environment="clean",
        extra_directives=("--setattr=rdzv_get_en=0", "-o 'fastload=on'", '--conf="a b"', "--unbuffered"),
        gpu_request="none",
        exclude_nodes=("n1", "n2"),
    )
    machine = site(scheduler="flux", directives=Directives(mandatory=("--setopt=mpibind=off", "-x")))
    assert texts(rich, machine) == [
        '--job-name="my job #1"',
        "--dependency=afterok:fD",
        "--dependency=afterany:f2111",
        "--dependency=afterany:fb",
        "--dependency=singleton",
        "--signal=USR1@60",
        "--env-remove=*",
        "--env=HOME",
        "--env=LANG",
        "--env=LOGNAME",
        "--env=PATH",
        "--env=SHELL",
        "--env=USER",
        "--bank=proj",
        "--queue=gpu",
        "--time-limit=5400s",
        '--requires="(a100&nvlink) and not host:n1,n2"',
        "--exclusive",
        "--nodes=2",
        "--nslots=2",
        "--cores-per-slot=32",
        "--setopt=gpu-affinity=off",
        "--setopt=mpibind=off",
        "--setattr=rdzv_get_en=0",
        "-o fastload=on",
        '--conf="a b"',
        "--unbuffered",
    ]


def test_origins() -> None:
    known = plan(
        group(origin=Origin("place", "exp.yml:9")),
        origins={"name": Origin("place", "exp.yml:2"), "nodes": Origin("place", "exp.yml:7")},
    )
    origins = {line.flag: line.origin for line in FLUX.directives(known, HERE)}
    assert (origins["--job-name"], origins["--nslots"], origins["--gpus-per-slot"]) == (
        Origin("place", "exp.yml:2"),
        Origin("place", "exp.yml:7"),
        Origin("place", "exp.yml:9"),
    )


@pytest.mark.parametrize(
    ("changed", "machine", "said"),
    [
        (plan(array="0-3"), HERE, "batch.array: flux batch has no arrays of jobs; submit the experiment"),
        (plan(mail=Mail("me")), HERE, "batch.mail: Flux sends no mail; remove it"),
        (plan(qos="high"), HERE, "batch.qos: Flux has no QOS"),
        (plan(requeue=True), HERE, "batch.requeue: Flux does not run a job twice"),
        (plan(elastic=True), HERE, "horovod.elastic: a job of Flux ends when it loses a node"),
        (plan(group(), group()), HERE, "environment.replicas: these replicas need nodes of 2 kinds"),
        (
            plan(group(memory=1)),
            HERE,
            "environment.resources.memory: flux batch cannot request memory; remove it, take whole nodes",
        ),
        (plan(gpu_request="none"), HERE, "batch.exclusive: site testbed asks for no GPUs"),
        (plan(dependency=("aftercorr:12",)), HERE, "batch.dependency: Flux cannot wait for 'aftercorr:12'"),
        (plan(dependency=("afterok:12_3",)), HERE, "Flux cannot wait for 'afterok:12_3'"),
        (plan(dependency=("afterok:1?afterok:2",)), HERE, "Flux cannot wait for 'afterok:1?afterok:2'"),
        (
            plan(command="echo\n# flux: -N1\n"),
            HERE,
            "run.cmd: Flux would take a line of the command for a directive: '# flux: -N1'; write it in",
        ),
        (
            plan(variables=(Variable(name="X", value="a\nFLUX: b", origin=DEFAULT),)),
            HERE,
            "environment.env_vars.X: Flux would take a line of X for a directive: 'FLUX: b'; write it in",
        ),
        (
            plan(setup=(Word.raw("true\n  flux: b", Origin("site", "x", "setup")),)),
            HERE,
            "Flux would take a line of site x: setup for a directive: 'flux: b'",
        ),
        (
            plan(extra_directives=("--urgent=20",)),
            HERE,
            "batch.directives: Flux has no flag --urgent; did you mean '--urgency'?; one that",
        ),
        (
            plan(),
            site(scheduler="flux", directives=Directives(mandatory=("--mpibind=off",))),
            "Flux has no flag --mpibind (site testbed: directives.mandatory)",
        ),
        (plan(extra_directives=("-N 4",)), HERE, "--nodes is set by hpcdist; use `batch.nodes`"),
        (plan(extra_directives=("--job=x",)), HERE, "--job is set by hpcdist; use `name`"),
        (plan(extra_directives=("--output=x",)), HERE, "use `batch.output`"),
        (plan(extra_directives=("--cwd=/tmp",)), HERE, "the job runs where it is submitted"),
        (plan(extra_directives=("a b",)), HERE, "'a b' is not a directive of Flux; write --flag=value"),
        (
            plan(account="x"),
            site(scheduler="flux", directives=Directives(forbidden=("--bank",))),
            "batch.account: site testbed refuses --bank",
        ),
        (
            plan(),
            site(scheduler="flux", directives=Directives(mandatory=("-N 3",))),
            "site testbed requires -N 3, but the plan has --nodes=2",
        ),
    ],
)  # fmt: skip
def test_unsupported_settings_are_refused(changed: Plan, machine: Site, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        FLUX.directives(changed, machine)
    assert said in str(caught.value)


def test_flags_of_a_plug_in_are_for_the_site_to_name() -> None:
    known = Directives(mandatory=("--amd-gpumode=SPX",), known=("--amd-gpumode",))
    machine = site(scheduler="flux", directives=known)
    assert texts(plan(), machine)[-1] == "--amd-gpumode=SPX"


def test_text_behind_the_name_of_a_variable_is_no_directive() -> None:
    harmless = plan(variables=(Variable(name="X", value="flux: b\na flux: b", origin=DEFAULT),))
    assert texts(harmless) == texts(plan())


def test_an_id_of_flux_may_be_waited_for() -> None:
    texts_of_file = ("\u0192M7Zq9AKHno", "afterok:fM7Zq9AKHno:fMjRLfK1", "afterany:12")
    assert list(dependency_problems(texts_of_file, ("batch", "dependency"))) == []
    lines = FLUX.directives(plan(dependency=texts_of_file), HERE)
    assert [line.value for line in lines if line.flag == "--dependency"] == [
        "afterok:fM7Zq9AKHno",
        "afterok:fM7Zq9AKHno",
        "afterok:fMjRLfK1",
        "afterany:fD",
    ]


def test_memory_comes_with_whole_nodes() -> None:
    assert "--exclusive" in texts(plan(group(memory=1), exclusive=True))


@pytest.mark.parametrize(
    "value",
    ["plain", "two words", "a#b", 'a"b', r"a\b", r"\\", "it's", "(a|b)&c;<d>", "{{x}}", "\u00e9", "$X", "*"],
)  # fmt: skip
def test_values_are_read_as_they_were_meant(value: str) -> None:
    text = directive_text(HEADER, Directive(flag="--x", value=value, origin=DEFAULT))
    assert split(f" {text}") == [f"--x={value}"]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("a\nb", "a line break or a control character"),
        ("\x00", "a line break or a control character"),
        ("'''", "three quotes in a row"),
    ],
)
def test_values_that_no_directive_can_hold(value: str, what: str) -> None:
    with pytest.raises(PlanError, match=f"--x cannot hold {what}"):
        directive_text(HEADER, Directive(flag="--x", value=value, origin=Origin("place", "exp.yml:3")))


def test_the_head_of_a_script() -> None:
    made = plan(directives=(Directive(flag="--nodes", value="2", origin=Origin("place", "exp.yml:7")),))
    assert [*FLUX.header(made, "/my runs/1")] == [
        ('#flux: --output="/my runs/1/logs/job.out"', Origin("rule", "run directory")),
        ("#flux: --nodes=2", Origin("place", "exp.yml:7")),
    ]
    assert next(FLUX.header(made, None))[0] == "#flux: --output=mnist-{{id}}.out"
    with pytest.raises(PlanError, match="for a template; choose another directory"):
        next(FLUX.header(made, "/{{x}}"))


def test_comments_between_directives_do_not_end_them() -> None:
    assert directives("#!/bin/bash\n# why\n#flux: -N1\n# more\n\n#flux: -n2\necho\n") == {
        3: ["-N1"],
        6: ["-n2"],
    }


# --- Submitting


def test_submit() -> None:
    command = FLUX.submit(Submission("/runs/a 1/job.sh", "/runs/a 1", "1234567890123456"))
    assert command == Command(
        ("flux", "batch", "--setattr=user.hpcdist=hpcdist:1234567890123456", "/runs/a 1/job.sh"),
        keep_environment=("LC_ALL",),
        timeout=120,
    )


_LIMITS = "`flux queue list` shows the limits: "
_CONSTRAINT = "correct `batch.constraint`"
_DEPENDENCY = "the job it waits for is unknown to Flux, or ended otherwise than it is waited for"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("-q", "nosuch"), "; `flux queue list` shows the queues: correct `batch.partition`"),
        (("-t", "11m"), f"; {_LIMITS}shorten `batch.walltime`, or choose another queue"),
        (("-N2", "-n2", "pdebug"), f"; {_LIMITS}ask for fewer replicas, or choose another queue"),
        (("-t", "00:10:00"), "; correct `batch.walltime`"),
        (("--dependency=afterok:f123456789",), f"; {_DEPENDENCY}"),
        (("--dependency=afterok:\u0192BSmuzWv3",), f"; {_DEPENDENCY}"),
        (("--dependency=afternotok:\u0192BSPSqQCw",), f"; {_DEPENDENCY}"),
        (("--requires=a&&&b",), f"; {_CONSTRAINT}"),
        (("--requires=host:n9",), f"; `flux resource list` shows the nodes: {_CONSTRAINT}"),
        (("FLUX_URI=local:///nonexistent",), "; no Flux runs here, or it is down"),
        (("env", "-u"), "; no Flux runs here, or it is down"),
        (("d1.sh",), None),
        (("d2.sh",), None),
        (("--colour",), None),
        (("-N3", "-n2"), None),
    ],
)
def test_refusals_are_printed_with_a_hint(words: tuple[str, ...], hint: str | None) -> None:
    done = refused(*words)
    with pytest.raises(SchedulerError) as caught:
        FLUX.read_submit(done)
    assert not isinstance(caught.value, SubmissionUnknown)
    said = f"Flux refused the job: {done.stderr.strip()}"
    assert str(caught.value).startswith(f"{said}{hint or ''}")
    assert hint or str(caught.value) == said


@pytest.mark.parametrize("done", recorded("refusals.txt"))
def test_an_answer_is_an_id_or_a_refusal_with_certainty(done: Completed) -> None:
    if "batch" not in done.command.argv:
        return
    if done.ok:
        assert FLUX.read_submit(done) == f"f{done.stdout.strip()[1:]}"
        return
    with pytest.raises(SchedulerError) as caught:
        FLUX.read_submit(done)
    assert not isinstance(caught.value, SubmissionUnknown)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("job submission to pbatch is disabled: for maintenance", "shows which queues take jobs: try again"),
        ("requested ngpus (16) exceeds policy limit of 8 for queue pdebug", "ask for fewer replicas or GPUs"),
        (
            "requested ncores (16) exceeds policy limit of 8 for queue pdebug",
            "ask for fewer replicas or CPUs",
        ),
        (
            "job duration (5m) exceeds remaining instance lifetime (4m)",
            "the allocation in which you submit ends",
        ),
        ("'pbatch' is not a valid queue", "inside `flux alloc` there are none: submit from a shell outside"),
    ],
)
def test_refusals_that_were_seen_elsewhere(said: str, hint: str) -> None:
    with pytest.raises(SchedulerError) as caught:
        FLUX.read_submit(failed(1, f"flux-batch: ERROR: {said}"))
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "completed",
    [
        failed(1, "flux-batch: ERROR: [Errno 104] Connection reset by peer"),
        failed(1, "flux-batch: ERROR: [Errno 110] Connection timed out"),
        failed(1, "flux-batch: ERROR: [Errno 113] No route to host"),
        failed(1, "flux-batch: ERROR: [Errno 5] Input/output error"),
        failed(1, "flux-batch: ERROR: [Errno 71] Protocol error"),
        failed(0, "", "fM7Zq9AKHno\nf12\n"),
        failed(0, "", "Welcome to tuolumne!\n\u0192f1\n"),
        failed(0, "", "your budget is\n12345\n"),
        failed(1, "Traceback (most recent call last):\n"),
        failed(1, ""),
        Completed(Command(("flux",)), 1, "fM7Zq9AKHno\n", "flux-batch: ERROR: x"),
    ],
)
def test_other_submit_answers_are_ambiguous(completed: Completed) -> None:
    with pytest.raises(SubmissionUnknown, match="flux batch did not say whether the job exists: "):
        FLUX.read_submit(completed)


def test_a_host_without_flux() -> None:
    message = (
        "there is no `flux` on this machine; submit from a login node of the site; `hpcdist render` writes "
        "the script on any machine"
    )
    with pytest.raises(SchedulerError, match=f"^{message}$"):
        FLUX.read_submit(MISSING)


def test_tokens_are_found_in_jobspecs() -> None:
    said = (
        '\u0192M7Zq9AKHno "hpcdist": "hpcdist:0123456789abcdef"\n'
        "fM7Zq9AKHnp \n"
        'f21 "hpcdist":"hpcdist:1234567890123456"\n'
    )
    (command,) = FLUX.find()
    assert FLUX.read_find(Completed(command, 0, said)) == {
        "0123456789abcdef": "fM7Zq9AKHno",
        "1234567890123456": "f21",
    }


# --- States


NEVER = "alloc: unsatisfiable request: need 9 node(s) with 1 cores each, only 3 eligible"
TOO_LONG = "timeout: resource allocation expired"
AFTER = "waits for after-finish=\u0192BVMVr43y"
NO_COMMAND = "exec: task 0 (host n4): start failed: /no/such/command: No such file or directory"
ENDS = {
    "fBSPSqQCw": Status(JobState.COMPLETED, "COMPLETED", 0, "", "flux jobs"),
    "fBSmuzWv3": Status(JobState.FAILED, "FAILED", 3, "", "flux jobs"),
    "fBTCZAaaT": Status(
        JobState.TIMEOUT, "TIMEOUT", 142, "timeout: resource allocation expired", "flux jobs"
    ),
    "fBTavPkAB": Status(JobState.CANCELLED, "CANCELED", 137, "cancel", "flux jobs"),
    "fBTwaHjro": Status(JobState.FAILED, "FAILED", 137, "test: an exception of a user", "flux jobs"),
    "fBUPhT5sD": Status(JobState.FAILED, "FAILED", None, NEVER, "flux jobs"),
    "fBUkMM5Zq": Status(JobState.FAILED, "FAILED", 139, "", "flux jobs"),
    "fBV4ri7bV": Status(JobState.FAILED, "FAILED", 127, NO_COMMAND, "flux jobs"),
}
LIVE = {
    "fBVMVr43y": Status(JobState.RUNNING, "RUN", None, "", "flux jobs"),
    "fBVfGDSud": Status(JobState.PENDING, "DEPEND", None, AFTER, "flux jobs"),
    "fBVuVzYsh": Status(JobState.PENDING, "SCHED", None, "held (urgency 0)", "flux jobs"),
    "fBW8pQ6hM": Status(JobState.PENDING, "SCHED", None, "", "flux jobs"),
    "fBWVn5wn7": Status(JobState.PENDING, "DEPEND", None, "waits for begin@14:01:22", "flux jobs"),
}


def test_a_listing_with_every_state() -> None:
    jobs = [job(job_id) for job_id in ENDS | LIVE]
    (command,) = Listing().commands(jobs)
    assert command.argv == ("flux", "jobs", "-a", "--json", "--count=5000")
    assert Listing().read(recorded("jobs.txt")[0], jobs) == ENDS | LIVE


def test_one_job_is_a_record_and_no_array() -> None:
    (command,) = ById().commands([job("fBSPSqQCw")])
    assert command.argv == ("flux", "jobs", "--json", "fBSPSqQCw")
    (done,) = (
        done for done in recorded("jobs.txt") if done.command.argv[1:] == ("jobs", "--json", "\u0192BSPSqQCw")
    )
    assert ById().read(done, [job("fBSPSqQCw")]) == {"fBSPSqQCw": ENDS["fBSPSqQCw"]}


def test_a_job_that_flux_has_forgotten_has_no_state() -> None:
    lost = job("f123456789")
    unknown = [done for done in recorded("jobs.txt") if "f123456789" in done.command.argv]
    assert [done.returncode for done in unknown] == [0, 1]
    assert [ById().read(done, [lost]) for done in unknown] == [{}, {}]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"state": "RUN"}, Status(JobState.RUNNING, "RUN", source="flux jobs")),
        ({"state": "PRIORITY"}, Status(JobState.PENDING, "PRIORITY", source="flux jobs")),
        ({"state": "SLEEP"}, Status(JobState.UNKNOWN, "SLEEP", source="flux jobs")),
        ({"state": "INACTIVE"}, Status(JobState.UNKNOWN, "INACTIVE", source="flux jobs")),
        (
            {"state": "INACTIVE", "result": "FAILED", "returncode": -9},
            Status(JobState.FAILED, "FAILED", 137, source="flux jobs"),
        ),
        (
            {
                "state": "INACTIVE",
                "result": "FAILED",
                "returncode": 143,
                "waitstatus": 36608,
                "exception": {"type": "node-failure", "note": "node failure on n2 (shell rank 1)"},
            },
            Status(
                JobState.NODE_FAIL,
                "FAILED",
                143,
                "node-failure: node failure on n2 (shell rank 1)",
                "flux jobs",
            ),
        ),
        (
            {"state": "SCHED", "annotations": {"sched": {"reason_pending": "priority"}}},
            Status(JobState.PENDING, "SCHED", None, "priority", "flux jobs"),
        ),
    ],
)
def test_states(record: dict[str, Any], expected: Status) -> None:
    assert status(record) == expected


def test_every_state_is_mapped() -> None:
    words = "NEW DEPEND PRIORITY SCHED RUN CLEANUP COMPLETED FAILED CANCELED TIMEOUT"  # RFC 21
    assert sorted(STATES) == sorted(words.split())


@pytest.mark.parametrize(
    "text",
    ['{"jobs": 3}', '{"jobs": [3, {}]}', '{"jobs": [{"id": []}]}', '{"id": "fMjRLfK1"', '{"a":' * 10_000],
)  # fmt: skip
def test_broken_answers_give_no_states(text: str) -> None:
    assert Listing().read(Completed(Command(("flux",)), 0, text), [job("fMjRLfK1")]) == {}


def test_a_banner_before_the_answer() -> None:
    text = "Welcome!\n" + json.dumps({"jobs": [{"id": "fMjRLfK1", "state": "RUN"}]})
    found = Listing().read(Completed(Command(("flux",)), 0, text), [job("fMjRLfK1")])
    assert found["fMjRLfK1"].state is JobState.RUNNING


@pytest.mark.parametrize("done", recorded("cancel.txt"))
def test_cancel_of_finished_jobs_succeeds(done: Completed, tmp_path: Path) -> None:
    if done.command.argv[:2] != ("flux", "cancel"):
        return
    (tmp_path / "flux").write_text(f"#!/bin/sh\ncat >&2 <<'E'\n{done.stderr}E\nexit {done.returncode}\n")
    (tmp_path / "flux").chmod(0o755)
    command = FLUX.cancel([job("f21"), job("f22")])
    assert command.argv[-2:] == ("f21", "f22")
    found = Shell({"PATH": f"{tmp_path}:{os.environ['PATH']}"}).run(command)
    left = [line for line in done.stderr.splitlines() if not line.endswith("job is inactive")]
    assert (found.ok, found.stderr.splitlines()) == (not left, left)
