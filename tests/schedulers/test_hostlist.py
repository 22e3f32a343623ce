from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.schedulers import hostlist
from tests.tiers import examples
from tests.wording import Wording

TEXT = st.text("abcxyz.-_", max_size=3)
NUMBER = st.integers(0, 120)


@st.composite
def ranges(draw: st.DrawFn) -> str:
    first, length = draw(NUMBER), draw(st.integers(0, 12))
    width = draw(st.integers(1, 4))
    text = f"{first:0{width}}"
    return f"{text}-{first + length}" if length else text


BRACKET = st.lists(ranges(), min_size=1, max_size=3).map(lambda parts: f"[{','.join(parts)}]")


def names(*, suffix: bool) -> st.SearchStrategy[str]:
    """Names with up to two brackets (in Slurm's order of three, the first runs faster than the second).

    scontrol wants nothing behind the last one.
    """
    plain = st.builds(lambda text, number: f"n{text}{number}", TEXT, NUMBER)
    one = st.builds(lambda a, b, c: f"n{a}{b}{c if suffix else ''}", TEXT, BRACKET, TEXT)
    two = st.builds(
        lambda a, b, c, d, e: f"n{a}{b}{c}{d}{e if suffix else ''}", TEXT, BRACKET, TEXT, BRACKET, TEXT
    )
    return plain | one | two


LISTS = st.lists(names(suffix=True), min_size=1, max_size=4).map(",".join)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("login", ["login"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[001-003]", ["n001", "n002", "n003"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[1-003]", ["n1", "n2", "n3"]),
        ("n[01-03,7],m5", ["n01", "n02", "n03", "n7", "m5"]),
        ("r[1-2]n[3-4]", ["r1n3", "r1n4", "r2n3", "r2n4"]),
        ("n[0-1][5-6]", ["n05", "n06", "n15", "n16"]),
        ("node[001-002]-ib", ["node001-ib", "node002-ib"]),
        ("n[2,1,1],n1", ["n2", "n1", "n1", "n1"]),
        ("[1-2]", ["1", "2"]),
        ("n[1-1]", ["n1"]),
    ],
)
def test_hosts_of_a_list(text: str, hosts: list[str]) -> None:
    assert hostlist.expand(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        "n[3-1]",
        "n[1-2",
        "n[1-2]]",
        "n1-2]",
        "n[1-[2-3]]",
        "n[1-10:3]",
        "n[a-c]",
        "n[1-]",
        "n[]",
        "n[1,]",
        "n[²]",
        "n1,,n2",
        "n1,",
        "n1 n2",
        "n[1-100001]",
        "a[1-999]b[1-999]",
        "n[1-99999],m,m",
        "n[1-999999999999999999]",
        f"n[{'9' * 99}]",
    ],
    ids=lambda text: text[:40],
)
def test_invalid_host_lists(text: str, wording: Wording) -> None:
    with pytest.raises(ValueError, match=r"host|range|partner|number") as error:
        hostlist.expand(text)
    wording(str(error.value))


def test_the_limit_itself_is_taken() -> None:
    assert len(hostlist.expand("n[1-100000]")) == hostlist.LIMIT


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["login"], "login"),
        (["login", "login"], "login,login"),
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n10"], "n[9-10]"),
        (["n09", "n010"], "n[09,010]"),
        (["n99", "n100"], "n[99-100]"),
        (["n2", "n1", "n1"], "n[2,1,1]"),
        (["n", "n1", "n", "n"], "n,n1,n,n"),
        (["n1-ib", "n2-ib", "m1"], "n[1-2]-ib,m1"),
        (["r1n3", "r1n4", "r2n3"], "r1n[3-4],r2n3"),
        (["1", "2"], "[1-2]"),
        ([f"n{10**18 - 1}", f"n{10**18}"], f"n{10**18 - 1},n{10**18}"),
    ],
)
def test_a_list_of_hosts(hosts: list[str], text: str) -> None:
    assert hostlist.compress(hosts) == text
    assert hostlist.expand(text) == hosts


@pytest.mark.parametrize("host", ["", "a,b", "n[1]", "a b", "a\n"])
def test_names_that_no_host_has(host: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr(host))} cannot be the name of a host$"):
        hostlist.compress([host])


@given(LISTS)
def test_expanded_lists_can_be_compressed(text: str) -> None:
    hosts = hostlist.expand(text)
    assert hostlist.expand(hostlist.compress(hosts)) == hosts


@given(st.lists(st.from_regex(r"[a-z0-9.²é-]{1,8}", fullmatch=True), max_size=8))
def test_any_names_come_back(hosts: list[str]) -> None:
    assert hostlist.expand(hostlist.compress(hosts)) == hosts


@given(st.text("n[]-,:0129a ", max_size=12))
def test_junk_gives_hosts_or_a_value_error(text: str) -> None:
    hosts = []
    with contextlib.suppress(ValueError):
        hosts = hostlist.expand(text)
    assert all(hosts)


@pytest.mark.real
def test_slurm_expands_as_python_does(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost\nNodeName=localhost\nPartitionName=debug Nodes=localhost\n"
    )

    @examples(60)
    @given(st.lists(names(suffix=False), min_size=1, max_size=3).map(",".join))
    def agree(text: str) -> None:
        argv = ["scontrol", "show", "hostnames", text]
        done = subprocess.run(argv, env={"SLURM_CONF": str(conf)}, capture_output=True, text=True, check=True)
        assert done.stdout.split() == hostlist.expand(text)

    agree()
