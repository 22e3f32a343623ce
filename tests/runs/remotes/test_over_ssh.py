"""Verbs over a real ssh and sshd: what was submitted there is seen here, and was submitted once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs.remotes.server import Laptop, events, trust

pytestmark = pytest.mark.real


def ended(here: Laptop, run: str) -> str:
    """Return the state in which a run ended."""
    state: str = here.json("wait", run)[0]["state"]
    return state


def test_a_run_there_is_seen_here(here: Laptop) -> None:
    here.write("hello", 'echo "from $PWD"; echo model >"$HPCDIST_OUTPUTS/model"; exit 3')
    done = here.hpcdist("submit", "hello.yml", "--on", "box")
    assert f"there      box:{here.there}/hello-1" in done.stdout
    assert here.calls() == 3  # the folder there, the files, the submission
    assert ended(here, "hello-1") == "failed"
    before = here.calls()
    [state] = here.json("status")
    assert (state["state"], state["exit_code"], here.calls()) == ("failed", 3, before)
    assert f"from {here.there}/hello-1\n" in here.hpcdist("logs", "hello-1").stdout
    listed = here.hpcdist("status", "--offline").stdout
    assert "hello-1" in listed
    assert "failed" in listed
    assert (here.there.stat().st_mode & 0o777, (here.there / "hello-1").stat().st_mode & 0o777) == (
        0o700,
        0o700,
    )


def test_a_host_that_leads_to_another_machine_now_gets_no_job_by_the_old_connection(here: Laptop) -> None:
    here.write("hello", "echo x")
    here.hpcdist("submit", "hello.yml", "--on", "box")
    config = here.folder / "ssh_config"
    config.write_text(config.read_text().replace("HostName there", "HostName elsewhere"))
    refused = here.hpcdist("submit", "hello.yml", "--on", "box", "--again", code=None)
    assert refused.returncode != 0, refused.stdout
    assert "does not know its host key" in refused.stderr
    assert not (here.there / "hello-2").exists()


@pytest.mark.extended
def test_a_snapshot_of_the_folder_goes_along(here: Laptop) -> None:
    (here.work / "train.py").write_text("print('trained')\n")
    here.write("train", "python3 train.py")
    refused = here.hpcdist("submit", "train.yml", "--on", "box", code=2).stderr
    assert "train.py is in this folder, which box does not have" in refused
    assert here.calls() == 0
    done = here.hpcdist("submit", "train.yml", "--on", "box", "--set", "batch.code=snapshot", "--follow")
    assert "trained" in done.stdout


@pytest.mark.extended
def test_follow_prints_what_comes_and_ends_with_the_code_of_the_job(here: Laptop) -> None:
    here.write("slow", "for i in 1 2 3; do echo line $i; sleep 1; done; exit 4")
    done = here.hpcdist("submit", "slow.yml", "--on", "box", "--follow", code=4)
    assert [line for line in done.stdout.splitlines() if line.startswith("line")] == [
        "line 1",
        "line 2",
        "line 3",
    ]


@pytest.mark.extended
def test_follow_goes_on_when_the_connection_was_lost(here: Laptop) -> None:
    """The proxy is a link that is down for as long as it cannot be run."""
    go = here.folder / "go"
    here.write("slow", f"echo begun; until [ -e {go} ]; do sleep 0.2; done; echo over; exit 4")
    words = [sys.executable, "-u", "-m", "hpcdist", "submit", "slow.yml", "--on", "box", "--follow"]
    with subprocess.Popen(
        words,
        cwd=here.work,
        env=here.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as following:
        assert following.stdout
        assert following.stderr
        while "begun" not in (line := following.stdout.readline()):
            assert line
        (here.folder / "proxy").chmod(0o600)
        here.close()
        while "trying again" not in (line := following.stderr.readline()):
            assert line
        (here.folder / "proxy").chmod(0o755)
        go.touch()
        assert "over" in following.stdout.read()
    assert following.returncode == 4


def test_cancel_ends_the_job_there(here: Laptop) -> None:
    here.write("long", "echo begun; sleep 600")
    here.hpcdist("submit", "long.yml", "--on", "box")
    assert "requested to cancel" in here.hpcdist("cancel", "long-1").stdout
    assert "cancelled" in events(here.there)
    assert ended(here, "long-1") == "cancelled"
    # A follower looks there, and begins no attempt.
    assert (here.there / "long-1" / "cancelled").read_text() == "by hpcdist cancel\n"


STEPS = ("the folder there", "the files", "the submission")


def at(step: str, how: str) -> list[str]:
    """Return how each session of a submission is cut off: the one of this step alone."""
    return [*["0"] * STEPS.index(step), how]


@pytest.mark.parametrize("step", STEPS)
def test_a_submission_that_is_cut_off_anywhere_makes_one_job(here: Laptop, step: str) -> None:
    here.write("once", "true")
    for number, how in enumerate(("before", "half", "after"), 1):
        before = here.calls()
        here.cut(*at(step, how))
        here.hpcdist("submit", "once.yml", "--on", "box", "--set", f"tags=[t{number}]")
        assert here.calls() - before == len(STEPS) + 1
        assert events(here.there).count("submitted") == number


@pytest.mark.extended
@pytest.mark.parametrize("step", STEPS)
def test_a_submit_that_is_killed_is_completed_by_the_next_without_a_second_job(
    here: Laptop, step: str
) -> None:
    here.write("once", "true")
    for number, how in enumerate(("killed-before", "killed-after"), 1):
        words = ("submit", "once.yml", "--on", "box", "--set", f"tags=[t{number}]")
        here.cut(*at(step, how))
        assert here.hpcdist(*words, code=None).returncode == -signal.SIGKILL
        here.hpcdist(*words)
        assert events(here.there).count("submitted") == number


@pytest.mark.extended
def test_a_machine_that_cannot_be_reached_is_named_and_its_runs_are_unknown(here: Laptop) -> None:
    here.write("long", "sleep 600")
    here.hpcdist("submit", "long.yml", "--on", "box")
    here.hpcdist("status")
    here.close()
    proxy = (here.folder / "proxy").read_text()
    (here.folder / "proxy").write_text("#!/bin/sh\nexit 1\n")
    [state] = here.json("status")
    assert state["state"] == "unknown"
    assert "box cannot be reached" in state["reason"]
    assert "its last answer was" in state["reason"]
    (here.folder / "proxy").write_text(proxy)
    here.hpcdist("cancel", "long-1")
    assert ended(here, "long-1") == "cancelled"


@pytest.mark.extended
def test_another_host_key_is_refused_with_what_to_do(here: Laptop) -> None:
    here.write("hello", "true")
    trust(here, "key")
    said = here.hpcdist("submit", "hello.yml", "--on", "box", code=5).stderr
    assert "its host key is not the one that ssh knows" in said
    assert "ssh-keygen -R" in said
    (here.folder / "known").write_text("")
    assert (
        "ssh does not know its host key yet"
        in here.hpcdist("submit", "hello.yml", "--on", "box", code=5).stderr
    )
    assert not (here.work / "runs").exists()


@pytest.mark.extended
@pytest.mark.parametrize("shell", ["bash", "dash", "tcsh"])
def test_what_a_login_shell_prints_is_ignored(here: Laptop, shell: str) -> None:
    noise = 'echo "Welcome to hpcdist-0000 begin"; echo oops >&2; printf "no newline"'
    here.server(login=f'#!/bin/sh\n{noise}\nexec {shell} -c "$SSH_ORIGINAL_COMMAND"\n')
    here.write("hello", "echo done")
    assert "done" in here.hpcdist("submit", "hello.yml", "--on", "box", "--follow").stdout


@pytest.mark.extended
def test_a_login_shell_that_ends_at_once_is_named(here: Laptop) -> None:
    here.server(login="#!/bin/sh\necho 'conda: not found' >&2\nexit 3\n")
    here.write("hello", "true")
    said = here.hpcdist("submit", "hello.yml", "--on", "box", code=5).stderr
    assert (
        "the login shell on box ended with exit code 3 before it ran anything (conda: not found; no answer)"
        in said
    )
    assert "~/.bashrc" in said


@pytest.mark.extended
def test_a_full_disk_there_is_named_and_nothing_is_submitted(here: Laptop) -> None:
    far = here.there.parent
    here.server(before=f"sh -c 'mount -t tmpfs -o size=64k tmpfs {far} && exec \"$@\"' sh")
    here.write("hello", "true")
    said = here.hpcdist("submit", "hello.yml", "--on", "box", code=2).stderr
    assert "the run cannot be written on box" in said
    assert "No space left on device" in said
    assert here.json("status", "--offline") == []


@pytest.mark.extended
def test_a_folder_that_cannot_be_made_there_is_named(here: Laptop) -> None:
    here.configure(box={"host": "there", "directory": "/proc/runs", "site": "local"})
    here.write("hello", "true")
    assert (
        "the run cannot be written on box"
        in here.hpcdist("submit", "hello.yml", "--on", "box", code=2).stderr
    )
    here.configure(box={"host": "there", "directory": "$NOWHERE/runs", "site": "local"})
    assert "$NOWHERE is not set on box" in here.hpcdist("submit", "hello.yml", "--on", "box", code=2).stderr
    far = here.there.parent / "open"
    far.mkdir(mode=0o777)
    far.chmod(0o777)
    here.configure(box={"host": "there", "directory": str(far), "site": "local"})
    assert (
        "others could replace what your jobs run"
        in here.hpcdist("submit", "hello.yml", "--on", "box", code=2).stderr
    )


@pytest.mark.extended
def test_many_submissions_at_once_go_through_one_connection(here: Laptop) -> None:
    here.write("hello", "true")
    words = [sys.executable, "-m", "hpcdist", "submit", "hello.yml", "--on", "box", "--again"]
    started = [
        subprocess.Popen(
            words, cwd=here.work, env=here.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(30)
    ]
    assert [(process.communicate()[1].decode(), process.returncode)[1] for process in started] == [0] * 30
    assert here.calls("master") == 1
    assert events(here.there).count("submitted") == 30


ONE_TIME = """\
auth required pam_exec.so expose_authtok quiet {folder}/code
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""


@pytest.mark.extended
def test_a_second_factor_is_asked_for_once(here: Laptop) -> None:
    """PAM asks for a code behind the key; a program that knows it stands in for a service of such codes."""
    code, pam = here.folder / "code", here.folder / "pam"
    code.write_text(f'#!/bin/sh\necho asked >>{here.folder}/asked\nread -r code; [ "$code" = 123456 ]\n')
    code.chmod(0o755)
    pam.write_text(ONE_TIME.format(folder=here.folder))
    here.server(
        "UsePAM yes",
        "KbdInteractiveAuthentication yes",
        "AuthenticationMethods publickey,keyboard-interactive",
        "PermitRootLogin yes",
        before=f"sh -c 'mount --bind {pam} /etc/pam.d/sshd && exec \"$@\"' sh",
    )
    here.write("hello", "true")
    refused = here.hpcdist("submit", "hello.yml", "--on", "box", code=5).stderr
    assert "box cannot be reached: it refused the login" in refused
    assert "passwords and codes are asked for on a terminal alone" in refused
    shown = here.on_terminal("123456", "submit", "hello.yml", "--on", "box")
    assert "hello-1: job " in shown
    assert ended(here, "hello-1") == "completed"
    assert (here.folder / "asked").read_text() == "asked\n"


@pytest.mark.extended
def test_a_slow_link_takes_longer_and_no_more(here: Laptop) -> None:
    """A relay stands in for `tc netem`, whose module the kernel may lack: 200 ms there and back, 5 % lost."""
    proxy = here.folder / "proxy"
    proxy.rename(here.folder / "fast")
    proxy.write_text(f"#!/bin/sh\nexec {sys.executable} -m tests.runs.remotes.slow {here.folder}/fast\n")
    proxy.chmod(0o755)
    here.write("hello", "echo done")
    assert "done" in here.hpcdist("submit", "hello.yml", "--on", "box", "--follow").stdout
    assert events(here.there).count("submitted") == 1


@pytest.mark.extended
def test_what_only_plans_takes_the_site_of_a_remote(here: Laptop) -> None:
    here.configure(box={"host": "there", "directory": str(here.there), "site": "perlmutter"})
    here.write("one", "true", launcher="srun", account="m1234_g", qos="regular", walltime="1:00:00")
    assert "one on site perlmutter: " in here.hpcdist("plan", "one.yml", "--on", "box").stdout
    assert "(site perlmutter)" in here.hpcdist("check", "one.yml", "--on", "box").stdout
    assert "#SBATCH --qos=regular" in here.hpcdist("render", "one.yml", "--on", "box").stdout
    assert "site: perlmutter" in here.hpcdist("explain", "one.yml", "--on", "box").stdout
    said = here.hpcdist("plan", "one.yml", "--on", "box", "--when", code=2).stderr
    assert "--when and --balance are answered by this machine" in said
    (here.work / "two.yml").write_text("{kind: pipeline, operations: [{name: a, file: one.yml}]}\n")
    for verb in ("plan", "check"):
        assert "(site perlmutter)" in here.hpcdist(verb, "two.yml", "--on", "box").stdout
    assert here.calls() == 0


@pytest.mark.extended
def test_remotes_that_are_not_in_the_config_are_refused(here: Laptop) -> None:
    here.write("hello", "true")
    said = here.hpcdist("submit", "hello.yml", "--on", "bxo", code=2).stderr
    assert "there is no remote 'bxo' in your config" in said
    assert "box" in said
    assert "there is no remote ''" in here.hpcdist("submit", "hello.yml", "--on", "", code=2).stderr
    here.configure(box={"host": "there", "directory": str(here.there)})
    said = here.hpcdist("submit", "hello.yml", "--on", "box", code=2).stderr
    assert f"{here.folder}/config.yml:1:" in said
    assert "name its site as `remotes.box.site`" in said
    assert "--site" not in said
    Path(here.folder / "config.yml").write_text("remotes: {box: {host: -oProxyCommand=x, directory: runs}}\n")
    said = here.hpcdist("submit", "hello.yml", "--on", "box", code=2).stderr
    assert "is not a host" in said
    assert "'runs' is no absolute path" in said
