"""Programs for a remote, run by real shells: what is asked for is done, and what comes back is read."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.command import Command, Completed
from hpcdist.runs.remotes import channel, program
from hpcdist.runs.remotes.channel import AnsweredRunner, Incomplete, Section
from hpcdist.testing import FakeShell
from tests.tiers import examples

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def answered(
    *lines: str, shell: str = "sh", data: bytes = b"", env: dict[str, str] | None = None
) -> list[Section]:
    """Return the sections that a program prints, which comes as it comes over ssh."""
    sent = program.request(lines)
    done = subprocess.run(
        [shell, "-c", sent.line],
        input=sent.text.encode() + data,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return channel.read(b"Welcome\n" + done.stdout, sent.mark)


@examples(25)
@given(st.lists(WORDS, max_size=5))
def test_any_words_reach_the_command_unchanged(words: list[str]) -> None:
    asked = Command(("printf", "%s\\0", *words, "end"))
    sections = answered(program.command(asked), "hpcdist_run hpcdist_command")
    [done] = channel.completed(sections, [asked])
    assert (done.returncode, done.stdout) == (0, "".join(f"{word}\0" for word in (*words, "end")))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_has_its_environment_its_folder_and_its_answer(shell: str, tmp_path: Path) -> None:
    asked = Command(
        ("sh", "-c", 'echo "${SBATCH_X-none} $SLURM_CONF $OWN $LC_ALL $PWD"; echo oops >&2; exit 7'),
        environment=(("OWN", "it's"),),
        drop_environment=("SBATCH_", "SLURM_"),
        keep_environment=("SLURM_CONF",),
        cwd=str(tmp_path),
    )
    given = {"SBATCH_X": "bad", "SLURM_CONF": "/etc/x"}
    sections = answered(program.command(asked), "hpcdist_run hpcdist_command", shell=shell, env=given)
    [done] = channel.completed(sections, [asked])
    assert done == (asked, 7, f"none /etc/x it's C {tmp_path}\n", "oops", False, False)


def test_what_follows_the_program_is_left_for_it() -> None:
    assert answered("hpcdist_print out; cat", data=b"\0data\n")[0].data == b"\0data\n"


def test_a_program_that_is_not_found_is_missing() -> None:
    asked = Command(("no-such-program",))
    [done] = channel.completed(answered(program.command(asked), "hpcdist_run hpcdist_command"), [asked])
    assert (done.missing, done.returncode) == (True, 127)


def test_a_submission_is_made_once_by_many_that_try(tmp_path: Path) -> None:
    asked = Command(("sh", "-c", f"echo 1 >>{tmp_path}/made; sleep 0.2; echo 42"))
    lines = [program.command(asked), program.call("hpcdist_once", tmp_path / "claim", "hpcdist_command")]
    requests = [program.request(lines) for _ in range(8)]
    started = [
        subprocess.Popen(["sh", "-c", one.line], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for one in requests
    ]
    outputs = [
        process.communicate(one.text.encode())[0] for process, one in zip(started, requests, strict=True)
    ]
    found = [
        channel.completed(channel.read(text, one.mark), [asked])[0]
        for text, one in zip(outputs, requests, strict=True)
    ]
    assert {done.stdout for done in found} == {"42\n"}
    assert (tmp_path / "made").read_text() == "1\n"


def test_what_was_given_up_is_never_submitted(tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    answered(program.call("hpcdist_void", claim))
    late = [
        program.command(Command(("touch", str(tmp_path / "job")))),
        program.call("hpcdist_once", claim, "hpcdist_command"),
    ]
    assert [(one.kind, one.words) for one in answered(*late)] == [("out", ""), ("err", "void")]
    assert not (tmp_path / "job").exists()


def test_a_login_shell_is_tried_where_a_program_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "own-queue").write_text("#!/bin/sh\necho queue\n")
    (tmp_path / "bin" / "own-queue").chmod(0o755)
    (tmp_path / ".bash_profile").write_text(f"read -r line\necho noise\nPATH={tmp_path}/bin:$PATH\n")
    asked = Command(("own-queue",))
    sent = program.request(
        [program.command(asked), "hpcdist_run hpcdist_command"], ["hpcdist_need own-queue"]
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", sent.line], input=sent.text.encode(), env=environment, capture_output=True, check=True
    )
    assert channel.completed(channel.read(done.stdout, sent.mark), [asked])[0].stdout == "queue\n"


@pytest.mark.parametrize(
    ("text", "word", "variable"),
    [
        ("/a b", "'/a b'", ""),
        ("~/runs", '"${HOME-}"/runs', "HOME"),
        ("$SCRATCH/a'b", "\"${SCRATCH-}\"'/a'\"'\"'b'", "SCRATCH"),
        ("${WORK}", '"${WORK-}"', "WORK"),
    ],
)
def test_a_path_of_the_config_is_one_word(text: str, word: str, variable: str) -> None:
    assert (program.path(text), program.variable(text)) == (word, variable)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_file_may_hold_anything_and_a_part_of_an_answer_is_none(noise: bytes, data: bytes) -> None:
    mark = "hpcdist-0"
    head = f"\n{mark} begin\n\n{mark} now 7\n\n{mark} file 0 3 {len(data)} 99 logs/a b\n".encode()
    whole = noise + head + data + f"\n{mark} end\n".encode()
    assert channel.read(whole, mark) == [
        Section("now", "7", b""),
        Section("file", f"0 3 {len(data)} 99 logs/a b", data),
    ]
    for size in range(len(noise), len(whole) - 1, 7):
        with pytest.raises(Incomplete):
            channel.read(whole[:size], mark)


def test_an_answer_about_more_jobs_serves() -> None:
    known = Command(("sacct", "-j", "1,2,3", "-o", "state"))
    shell = FakeShell([(["sacct"], "asked again")])
    runner = AnsweredRunner([Completed(known, 0, "all")], shell)
    assert runner.run(Command(("sacct", "-j", "1,3", "-o", "state"))).stdout == "all"
    assert runner.run(Command(("sacct", "-j", "1,4", "-o", "state"))).stdout == "asked again"


@pytest.mark.parametrize("other", [("-M", "aux", "--me"), ("-M", "aux,x", "--me"), ("--me", "-t", "all")])
def test_an_answer_of_another_cluster_or_with_other_options_does_not_serve(other: tuple[str, ...]) -> None:
    own, others = Command(("squeue", "--me")), Command(("squeue", *other))
    runner = AnsweredRunner([Completed(others, 0, "of aux"), Completed(own, 0, "own")], FakeShell([]))
    assert runner.run(own).stdout == "own"
    assert runner.run(others).stdout == "of aux"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_is_killed_after_its_time_and_counts_as_one_without_an_answer(shell: str) -> None:
    asked = Command(("sh", "-c", "echo begun; sleep 60"), timeout=0.5)
    [done] = channel.completed(
        answered(program.command(asked), "hpcdist_run hpcdist_command", shell=shell), [asked]
    )
    assert (done.stdout, done.returncode, done.timed_out) == ("begun\n", 137, True)


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (None, ["claimed"]),
        ("0", ["answer", "errors"]),
        ("137", ["claimed", "answer", "errors"]),
    ],
)
def test_a_claim_that_may_still_make_a_job_is_reported(
    tmp_path: Path, code: str | None, kinds: list[str]
) -> None:
    claim = tmp_path / "claim"
    line = program.call("hpcdist_claimed", 3, claim)
    assert answered(line) == []
    claim.mkdir()
    for name, text in {"out": "7\n", "err": "", "code": code}.items():
        if text is not None:
            (claim / name).write_text(text)
    assert [section.kind for section in answered(line)] == kinds
    if code == "137":  # what was killed longer ago has come by now, or never will
        os.utime(claim / "code", (0, 0))
        assert [section.kind for section in answered(line)] == ["answer", "errors"]


def test_a_long_program_goes_on_in_a_login_shell_and_leaves_its_input(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text(f"read -r line\nPATH={tmp_path}:$PATH\n")
    (tmp_path / "own-queue").write_text("#!/bin/sh\ncat\n")
    (tmp_path / "own-queue").chmod(0o755)
    long = f": {'x' * 200_000}"
    sent = program.request([long, "hpcdist_print out; own-queue"], ["hpcdist_need own-queue"])
    done = subprocess.run(
        ["sh", "-c", sent.line],
        input=sent.text.encode() + b"rest\n",
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert channel.read(done.stdout, sent.mark) == [Section("out", "", b"rest\n")]


def archive(folder: Path, token: str) -> bytes:
    """Return an archive of one long file, whose last file has the token."""
    folder.mkdir()
    (folder / "job.sh").write_bytes(b"x" * 100_000)
    (folder / ".sent").write_text(token)
    done = subprocess.run(["tar", "cf", "-", "job.sh", ".sent"], cwd=folder, capture_output=True, check=True)
    return done.stdout


def test_files_that_are_sent_again_beside_a_request_that_hangs_arrive_whole(tmp_path: Path) -> None:
    """The connection was cut, and the other machine has not noticed: it still reads the first archive."""
    data, line = archive(tmp_path / "own", "t1"), program.call("hpcdist_receive", tmp_path, "run", "t1")
    sent = program.request([line])
    first = subprocess.Popen(
        ["sh", "-c", sent.line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert first.stdin
    first.stdin.write(sent.text.encode() + data[:50_000])
    first.stdin.flush()
    while not (tmp_path / "run" / "job.sh").exists():
        time.sleep(0.01)
    assert [one.kind for one in answered(line, data=data)] == ["received"]
    output = first.communicate()[0]
    assert [one.kind for one in channel.read(output, sent.mark)] == ["unwritten"]
    assert (tmp_path / "run" / "job.sh").stat().st_size == 100_000
    assert [one.kind for one in answered(line, data=data)] == ["received"]
    other = program.call("hpcdist_receive", tmp_path, "run", "t2")
    assert [one.kind for one in answered(other, data=data)] == ["taken"]


def test_files_that_come_in_part_leave_no_folder(tmp_path: Path) -> None:
    data, line = archive(tmp_path / "own", "t1"), program.call("hpcdist_receive", tmp_path, "run", "t1")
    assert [one.kind for one in answered(line, data=data[:50_000])] == ["unwritten"]
    assert not (tmp_path / "run").exists()


def test_where_there_is_no_tar_that_is_the_answer_and_no_file_is_left(tmp_path: Path) -> None:
    tools, runs = tmp_path / "tools", tmp_path / "runs"
    tools.mkdir()
    (runs / "old").mkdir(parents=True)
    for name in ("mkdir", "rm"):
        (tools / name).symlink_to(f"/bin/{name}")
    for line in (
        program.call("hpcdist_receive", runs, "new", "t1"),
        program.call("hpcdist_add", runs / "old", "t1", "resumed 7 1700000000 0"),
    ):
        assert answered(f"PATH={tools}", line) == [Section("unwritten", "there is no tar", b"")]
    assert [*runs.rglob("*")] == [runs / "old"]


@pytest.mark.extended
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_of_a_program_whose_end_was_cut_off_nothing_is_run(tmp_path: Path, shell: str) -> None:
    sent = program.request([program.call("mkdir", tmp_path / "made" / "far"), f"mkdir {tmp_path}/made"])
    text = sent.text.encode()
    for size in range(text.index(b"hpcdist_print begin"), len(text) - 1):
        done = subprocess.run([shell, "-c", sent.line], input=text[:size], capture_output=True, check=False)
        assert (done.stdout, [*tmp_path.iterdir()]) == (b"", [])


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_run_goes_on_once_however_often_it_is_told_to(shell: str, tmp_path: Path) -> None:
    """Its attempts are counted anew, of each element by itself, as `stopping.withdraw` does here."""
    run, event = tmp_path / "a run", "resumed 7 1700000000 0"
    attempts = ("2/0", "2/1", "2/1.saved", "2/over", "10/0")
    for name in ("events", "stop", "cancelled", *(f"attempts/{name}" for name in attempts)):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("")
    with tarfile.open(tmp_path / "sent.tar", "w") as tar:
        for name, text in (("job.2.sh", b"true\n"), (".sent", b"token")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    data, line = (tmp_path / "sent.tar").read_bytes(), program.call("hpcdist_add", run, "token", event)
    assert [one.kind for one in answered(line, shell=shell, data=data)] == ["received"]
    files = {str(path.relative_to(run)): path.read_text() for path in run.rglob("*") if path.is_file()}
    assert files == {
        "events": f"{event}\n",
        "job.2.sh": "true\n",
        **{f"attempts/2/{name}": "" for name in ("0", "1", "1.saved")},
        "attempts/2/first": "2\n",
        "attempts/10/0": "",
        "attempts/10/first": "1\n",
    }
    (run / "cancelled").touch()
    assert [one.kind for one in answered(line, shell=shell, data=data)] == ["received"]
    assert ((run / "events").read_text(), (run / "cancelled").exists()) == (f"{event}\n", True)
    [cut] = answered(line, shell=shell, data=data[:700])
    assert (cut.kind, sorted(path.name for path in run.glob(".*"))) == ("unwritten", [])


def test_a_look_brings_as_much_as_there_is_room_for_and_names_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in "abc":
        (tmp_path / "logs" / name).write_text("1234567")
    known = {"0/logs/a": 2, "0/logs/b": 3}
    found = [
        section.words.split(" ")[1:]
        for section in answered(
            program.known(known, 4, room=5), program.call("hpcdist_changed", 0, tmp_path, "")
        )
    ]
    sizes = {name: (offset, size) for offset, _, size, name in found}
    assert sizes == {"logs/a": ("2", "7"), "logs/b": ("3", "7"), "logs/c": ("0", "7")}
    assert sorted(int(length) for _, length, _, _ in found) == [0, 4, 4]
