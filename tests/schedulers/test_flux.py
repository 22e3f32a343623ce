"""Answers are those of a real flux-core 0.88, as tests/transcripts/flux/SOURCES says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import PlanError, SchedulerError, SubmissionUnknown
from hpcdist.base.shell import Shell
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import Mail, dependency_problems
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Group
from hpcdist.plan.values import DEFAULT, Directive, Origin, Variable, Word
from hpcdist.schedulers.base import Submission
from hpcdist.schedulers.directives import directive_text
from hpcdist.schedulers.flux import FLUX, STATES, ById, Listing, f58, plain_id, status
from hpcdist.schedulers.flux.directives import HEADER
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.site.model import Directives, Site
from hpcdist.testing import MISSING, contract, failed
from tests.flux.rfc36 import directives, split
from tests.schedulers import plans
from tests.schedulers.flux_transcripts import recorded, refused
from tests.schedulers.plans import site
from tests.wording import Wording

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


def test_the_signal_of_flux_batch_is_for_a_single_node() -> None:
    one = plan(group(nodes=1), signal="B:USR1@60")
    assert "--signal=USR1@60" in texts(one)


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
    ("changed", "machine"),
    [
        pytest.param(plan(array="0-3"), HERE, id="array=0-3"),
        pytest.param(plan(mail=Mail("me")), HERE, id="mail=Mail me"),
        pytest.param(plan(qos="high"), HERE, id="qos=high"),
        pytest.param(plan(requeue=True), HERE, id="requeue=True"),
        pytest.param(plan(elastic=True), HERE, id="elastic=True"),
        pytest.param(plan(signal="USR1@60"), HERE, id="signal=USR1@60"),
        pytest.param(plan(group(), group()), HERE, id="group group"),
        pytest.param(plan(group(memory=1)), HERE, id="group memory=1"),
        pytest.param(plan(gpu_request="none"), HERE, id="gpu_request=none"),
        pytest.param(plan(dependency=("aftercorr:12",)), HERE, id="dependency=aftercorr:12"),
        pytest.param(plan(dependency=("afterok:12_3",)), HERE, id="dependency=afterok:12_3"),
        pytest.param(plan(dependency=("afterok:1?afterok:2",)), HERE, id="dependency=afterok:1?afterok:2"),
        pytest.param(plan(command="echo\n# flux: -N1\n"), HERE, id="command=echo\n# flux:-N1\n"),
        pytest.param(
            plan(variables=(Variable(name="X", value="a\nFLUX: b", origin=DEFAULT),)),
            HERE,
            id="variables=name=X value=a\nFLUX:b",
        ),
        pytest.param(
            plan(setup=(Word.raw("true\n  flux: b", Origin("site", "x", "setup")),)),
            HERE,
            id="setup=true\n flux:b",
        ),
        pytest.param(plan(extra_directives=("--urgent=20",)), HERE, id="--urgent=20"),
        pytest.param(
            plan(),
            site(scheduler="flux", directives=Directives(mandatory=("--mpibind=off",))),
            id="scheduler=flux mandatory=--mpibind=off",
        ),
        pytest.param(plan(extra_directives=("-N 4",)), HERE, id="-N 4"),
        pytest.param(plan(extra_directives=("--job=x",)), HERE, id="--job=x"),
        pytest.param(plan(extra_directives=("--output=x",)), HERE, id="--output=x"),
        pytest.param(plan(extra_directives=("--cwd=/tmp",)), HERE, id="--cwd=/tmp"),
        pytest.param(plan(extra_directives=("a b",)), HERE, id="a b"),
        pytest.param(
            plan(account="x"),
            site(scheduler="flux", directives=Directives(forbidden=("--bank",))),
            id="account=x scheduler=flux forbidden=--bank",
        ),
        pytest.param(
            plan(),
            site(scheduler="flux", directives=Directives(mandatory=("-N 3",))),
            id="scheduler=flux mandatory=-N 3",
        ),
    ],
)
def test_unsupported_settings_are_refused(changed: Plan, machine: Site, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        FLUX.directives(changed, machine)
    wording(str(error.value))


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
    "value",
    ["a\nb", "\x00", "'''"],
)
def test_values_that_no_directive_can_hold(value: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        directive_text(HEADER, Directive(flag="--x", value=value, origin=Origin("place", "exp.yml:3")))
    wording(str(caught.value))


def test_the_head_of_a_script(wording: Wording) -> None:
    made = plan(directives=(Directive(flag="--nodes", value="2", origin=Origin("place", "exp.yml:7")),))
    assert [*FLUX.header(made, "/my runs/1")] == [
        ('#flux: --output="/my runs/1/logs/job.out"', Origin("rule", "run directory")),
        ("#flux: --nodes=2", Origin("place", "exp.yml:7")),
    ]
    assert next(FLUX.header(made, None))[0] == "#flux: --output=mnist-{{id}}.out"
    with pytest.raises(PlanError) as caught:
        next(FLUX.header(made, "/{{x}}"))
    wording(str(caught.value))


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


@pytest.mark.parametrize(
    "words",
    [
        ("-q", "nosuch"),
        ("-t", "11m"),
        ("-N2", "-n2", "pdebug"),
        ("-t", "00:10:00"),
        ("--dependency=afterok:f123456789",),
        ("--dependency=afterok:\u0192BSmuzWv3",),
        ("--dependency=afternotok:\u0192BSPSqQCw",),
        ("--requires=a&&&b",),
        ("--requires=host:n9",),
        ("FLUX_URI=local:///nonexistent",),
        ("env", "-u"),
        ("d1.sh",),
        ("d2.sh",),
        ("--colour",),
        ("-N3", "-n2"),
    ],
    ids=" ".join,
)
def test_refusals_are_printed_with_a_hint(words: tuple[str, ...], wording: Wording) -> None:
    with pytest.raises(SchedulerError) as caught:
        FLUX.read_submit(refused(*words))
    assert not isinstance(caught.value, SubmissionUnknown)
    wording(str(caught.value))


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
    "said",
    [
        "job submission to pbatch is disabled: for maintenance",
        "requested ngpus (16) exceeds policy limit of 8 for queue pdebug",
        "requested ncores (16) exceeds policy limit of 8 for queue pdebug",
        "job duration (5m) exceeds remaining instance lifetime (4m)",
        "'pbatch' is not a valid queue",
    ],
)
def test_refusals_that_were_seen_elsewhere(said: str, wording: Wording) -> None:
    with pytest.raises(SchedulerError) as caught:
        FLUX.read_submit(failed(1, f"flux-batch: ERROR: {said}"))
    wording(str(caught.value))


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


def test_a_host_without_flux(wording: Wording) -> None:
    with pytest.raises(SchedulerError) as caught:
        FLUX.read_submit(MISSING)
    wording(str(caught.value))


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


def test_a_lost_node_is_named_also_where_it_was_the_first_of_its_job() -> None:
    said = [done for done in recorded("nodes.txt") if done.command.argv[1] == "jobs"]
    found = [ById().read(done, [job(done.command.argv[-1])])[done.command.argv[-1]] for done in said]
    second = "node-failure: node failure on n3 (shell rank 1)"
    assert found == [
        Status(JobState.NODE_FAIL, "FAILED", 1, second, "flux jobs"),
        Status(JobState.NODE_FAIL, "FAILED", 137, "exec: node failure on n2 (rank 2)", "flux jobs"),
    ]
    assert [FLUX.lost_nodes(one) for one in found] == [("n3",), ("n2",)]
    assert FLUX.lost_nodes(replace(found[0], state=JobState.CANCELLED)) == ()


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
