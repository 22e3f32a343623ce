"""What runs there have written comes here over a real ssh: outputs by rsync or in parts, logs, metrics."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from msgspec.structs import asdict

from hpcdist.runs.address import Address
from hpcdist.runs.remotes import fetching
from hpcdist.runs.remotes.fetching import Version
from hpcdist.runs.remotes.program import PART
from tests.runs.remotes.server import Laptop

pytestmark = pytest.mark.real


@pytest.fixture
def no_rsync(here: Laptop) -> None:
    """Let there be no rsync here."""
    rsync = here.folder / "bin" / "rsync"
    rsync.write_text("#!/bin/sh\nexit 127\n")
    rsync.chmod(0o755)


def outputs(top: Path, run: str = "make-1") -> Path:
    """Return the folder of a run's outputs."""
    return top / run / "outputs"


def test_outputs_are_listed_there_and_fetched_by_rsync(here: Laptop) -> None:
    here.write("make", 'cd "$HPCDIST_OUTPUTS"; mkdir "a b"; echo 1 >"a b/x.pt"; echo log >log')
    here.hpcdist("submit", "make.yml", "--on", "box", "--wait")
    there = [{"path": "a b/x.pt", "kind": "there", "bytes": 2}, {"path": "log", "kind": "there", "bytes": 4}]
    more = {"sha256": None, "check": None}
    assert here.json("outputs", "make-1") == [each | more for each in there]
    here.cut(*["before"] * 20)
    assert "has no outputs" not in here.hpcdist("outputs", "make-1", code=5).stderr  # it is not known
    here.cut()
    fetched = here.json("outputs", "make-1", "--get", "*.pt")
    assert fetched == [there[0] | more | {"kind": "file"}, there[1] | more]
    assert (here.work / "runs" / "make-1" / "outputs" / "a b" / "x.pt").read_text() == "1\n"
    said = here.hpcdist("outputs", "make-1", "--get", "model*", code=2).stderr
    assert "no output of make-1 matches 'model*'" in said


@pytest.mark.extended
@pytest.mark.usefixtures("no_rsync")
def test_without_rsync_a_fetch_goes_on_where_it_was_cut_off(here: Laptop) -> None:
    here.write("make", 'head -c 40000000 /dev/urandom >"$HPCDIST_OUTPUTS/model"')
    here.hpcdist("submit", "make.yml", "--on", "box", "--wait")
    there, own = outputs(here.there), outputs(here.work / "runs")
    found = (there / "model").stat()
    own.mkdir()
    part = fetching.part_of(own / "model", Version(found.st_size, found.st_mtime_ns))
    part.write_bytes((there / "model").read_bytes()[:1_000_001])
    here.cut(0, 0, "part")
    before = here.calls()
    here.hpcdist("outputs", "make-1", "--get", "model")
    assert (own / "model").read_bytes() == (there / "model").read_bytes()
    assert [path.name for path in own.iterdir()] == ["model"]
    assert here.calls() - before == 2 + 3 + 1  # what is new, the listing, three parts, one of them twice


@pytest.mark.extended
@pytest.mark.usefixtures("no_rsync")
def test_what_was_changed_there_comes_anew_whatever_is_here(here: Laptop) -> None:
    here.write(
        "make", 'cd "$HPCDIST_OUTPUTS"; for name in same part long; do echo older >$name; done; >empty'
    )
    here.hpcdist("submit", "make.yml", "--on", "box", "--wait")
    here.hpcdist("outputs", "make-1", "--get", "same", "--get", "empty")
    there, own = outputs(here.there), outputs(here.work / "runs")
    assert (own / "empty").read_bytes() == b""
    for name, text in {"part": "OLD", "long": "longer than the file\n"}.items():
        found = (there / name).stat()
        fetching.part_of(own / name, Version(found.st_size, found.st_mtime_ns)).write_text(text)
    for name in ("same", "part"):
        (there / name).write_text("newer\n")
    here.hpcdist("outputs", "make-1", "--get", "*")
    assert {path.name: path.read_text() for path in own.iterdir()} == {
        "same": "newer\n",
        "part": "newer\n",
        "long": "older\n",
        "empty": "",
    }


NAMES = [b"a b", b"new\nline", b"it's $HOME", "\u00e4".encode(), b"latin\xe4", b"-n"]


@pytest.mark.extended
@pytest.mark.parametrize("with_rsync", [True, False])
def test_outputs_of_any_name_come(here: Laptop, request: pytest.FixtureRequest, *, with_rsync: bool) -> None:
    if not with_rsync:
        request.getfixturevalue("no_rsync")
    here.write("make", "true")
    here.hpcdist("submit", "make.yml", "--on", "box", "--wait")
    there, own = outputs(here.there), outputs(here.work / "runs")
    there.mkdir(exist_ok=True)
    for name in NAMES:
        Path(os.fsdecode(os.fsencode(there) + b"/" + name)).write_bytes(name)
    assert len(here.json("outputs", "make-1")) == len(NAMES)
    here.hpcdist("outputs", "make-1")
    here.hpcdist("outputs", "make-1", "--get", "*")
    assert {path.name: path.read_bytes() for path in own.iterdir()} == {
        os.fsdecode(name): name for name in NAMES
    }


@pytest.mark.extended
@pytest.mark.usefixtures("no_rsync")
def test_a_file_that_vanishes_is_named_and_the_others_come(here: Laptop) -> None:
    here.write("make", 'cd "$HPCDIST_OUTPUTS"; echo 1 >a; echo 2 >b; echo 3 >c')
    here.hpcdist("submit", "make.yml", "--on", "box", "--wait")
    here.close()
    there, own = outputs(here.there), outputs(here.work / "runs")
    # After the first answer, which is the mirror's, and the second, the listing, the file is gone.
    count = here.folder / "count"
    here.server(
        login=f"#!/bin/sh\necho >>{count}\nif [ $(wc -l <{count}) -gt 2 ]; then rm -f {there}/b; fi\n"
        'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    said = here.hpcdist("outputs", "make-1", "--get", "*", code=5).stderr
    assert "b of make-1 has changed or vanished on box meanwhile" in said
    assert sorted(path.name for path in own.glob("[a-c]")) == ["a", "c"]


@pytest.mark.extended
def test_a_run_whose_directory_was_removed_there_is_named(here: Laptop) -> None:
    here.write("make", 'echo 1 >"$HPCDIST_OUTPUTS/a"')
    here.hpcdist("submit", "make.yml", "--on", "box", "--wait")
    (here.there / "make-1").rename(here.there / "elsewhere")
    said = f"the directory of make-1 on box is not there any more: {here.there}/make-1"
    assert said in here.hpcdist("outputs", "make-1").stderr
    assert said in here.hpcdist("outputs", "make-1", "--get", "a", code=5).stderr
    assert said in here.hpcdist("logs", "make-1").stderr


@pytest.mark.extended
def test_all_of_a_long_output_is_followed_to_its_last_line(here: Laptop) -> None:
    """It is longer than what comes at once, and the job has ended before it has come."""
    here.write("many", "seq 1 1000000")
    followed = here.hpcdist("submit", "many.yml", "--on", "box", "--follow").stdout.splitlines()
    assert [line for line in followed if line.isdecimal()] == [*map(str, range(1, 1_000_001))]


@pytest.mark.extended
def test_metrics_that_come_in_parts_are_never_read_in_part(here: Laptop) -> None:
    line = '{"v": 1, "metrics": {"loss": 1.5}, "step": 0}'
    record = f"mkdir -p tracking; yes '{line}' | head -n 200000 >tracking/0"
    here.write("track", f'cd "$HPCDIST_RUN_DIR"; {record}')
    here.hpcdist("submit", "track.yml", "--on", "box", "--wait")
    recorded = here.there / "track-1" / "tracking" / "0"
    here.hpcdist("metrics", "track-1")
    mirrored = here.work / "runs" / "track-1" / "tracking" / "0"
    assert mirrored.stat().st_size == recorded.stat().st_size > 2 * PART


@pytest.mark.extended
def test_a_server_there_is_reached_by_the_host_of_the_config(here: Laptop) -> None:
    serves = Address("notebook", "n1", 8, "http://localhost:8/lab", "ssh -N -L 8:n1:8 me@login7", "")
    address = json.dumps(asdict(serves))
    here.write("serve", f"""cd "$HPCDIST_RUN_DIR"; echo '{address}' >address.json; sleep 600""")
    here.hpcdist("submit", "serve.yml", "--on", "box")
    while not (here.there / "serve-1" / "address.json").exists():
        time.sleep(0.1)
    said = here.hpcdist("status", "serve-1").stderr
    assert "serve-1 serves http://localhost:8/lab by `ssh -N -L 8:n1:8 there`" in said
    assert here.json("describe", "serve-1")["tunnel"] == "ssh -N -L 8:n1:8 there"
    here.hpcdist("cancel", "serve-1")
