"""What an account has left, as a site's command and Slurm print it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import fields
from hpcdist.base.command import Command, Completed
from hpcdist.planner import worst_case
from hpcdist.planner.worst_case import Cost, Rate
from hpcdist.schedulers.base import Left
from hpcdist.schedulers.slurm import SLURM
from hpcdist.site.charges import Balance, balance_problems
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.sites import shipped_site
from tests.wording import Wording

SBANK = """\
 Allocation  Suballocation  Start       End         Resource  Project   Jobs  Charged  Available Balance
 ----------  -------------  ----------  ----------  --------  --------  ----  -------  -----------------
 12373       12001          2026-01-01  2027-01-01  polaris   other     7     1.0      5.0
 12374       12002          2026-01-01  2027-01-01  polaris   physics   120   3,000.5  1,999.4

Totals:
  Rows: 2
"""
ACCOUNTS = """\
Project Summary for User 'kingda':
Project         Description                  Balance (Hours)    Deposited (Hours)
--------------  ---------------------------  -----------------  -------------------
physics         staff allocation             100                5000000
"""
TACCINFO = """\
--------------------- Project balances for user bjones ------------------------
| Name           Avail SUs     Expires | Name           Avail SUs     Expires |
| A-ccsc            342808  2030-09-30 | physics           4828  2026-09-30 |
------------------------ Disk quotas for user bjones --------------------------
| Disk         Usage (GB)     Limit    %Used   File Usage       Limit   %Used |
| /scratch            6.6       0.0     0.00        22742           0    0.00 |
"""
SHOWUSAGE = """\
  Usage:
                           Project Totals
  Project             Allocation      Usage      Remaining     Usage
  _________________|______________|___________|____________|______________
  other            |  20000       |   126.3   |  19873.7   |   1560.80
  physics          |  5000        |   6000.5  |  -1000.5   |   12.00
"""
SHOW_POINT = """\
Group                 Disk            ObjectStorage                    Used           Point   Used%
physics                  5                  0.0124             12,345.6789         100,000      12
  `- username          -                         -                  0.1234               -       0
"""
CSC_PROJECTS = """\
-----------------------------------------------------------------
Project: physics                Owner: Kalle K
Title: "Ortotopology modeling"
Billing units      Budget        Used      Remain
-------------      ------        ----      ------
CPU BU:             60000          20       59980
GPU BU:              1000          30         970
Storage BU:        300000          40      299960
"""
ASSOCIATIONS = """\
Current Association Manager state
Association Records
ClusterName=hpcdist Account=physics UserName= Partition= Priority=0 ID=3 ParentAccount=root(1) \
GrpTRES=cpu=N(0),gres/gpu=4(0) GrpTRESMins=cpu=60000(600),mem=N(0),node=N(0),billing=N(0),gres/gpu=6000(60)
ClusterName=hpcdist Account=physics UserName=hu1(21001) Partition= Priority=0 ID=4 ParentAccount= \
GrpTRESMins=cpu=N(0),gres/gpu=600(120)
ClusterName=hpcdist Account=physics UserName=hu2(21002) Partition= Priority=0 ID=5 ParentAccount= \
GrpTRESMins=cpu=60(0),gres/gpu=60(0)
ClusterName=hpcdist Account=other UserName= Partition= Priority=0 ID=6 ParentAccount=root(1) \
GrpTRESMins=cpu=60(0)
"""


def by(**keys: Any) -> Balance:
    built, problems = fields.build(Balance, {"command": ["mybalance"], "unit": "node-hours"} | keys)
    assert problems == []
    assert built is not None
    return built


@pytest.mark.parametrize(
    ("balance", "text", "left"),
    [
        (
            by(columns={"account": "Project", "left": "Available Balance"}),
            SBANK,
            Left(1999.4, "node-hours"),
        ),
        (
            by(columns={"account": "Project", "left": "Balance (Hours)", "total": "Deposited (Hours)"}),
            ACCOUNTS,
            Left(100, "node-hours", 5000000),
        ),
        (
            by(pattern=r"^(?P<account>\w+) +(?P<total>[\d.]+) +(?P<used>[\d.]+)$"),
            "other 7 1\nphysics 50.5 0.5\n",
            Left(50, "node-hours", 50.5),
        ),
        (by(pattern=r"left: (?P<left>-?[\d,]+)"), "left: -1,200 h\n", Left(-1200, "node-hours")),
        (by(columns={"left": "left"}), "account|left|end\nphysics|12|never\n", Left(12, "node-hours")),
        (by(columns={"account": "Project", "left": "Balance"}), SBANK, None),
        (by(pattern="left: (?P<left>.*)"), "left: all\n", None),
    ],
)
def test_the_output_is_read_by_a_pattern_or_by_columns(
    balance: Balance, text: str, left: Left | None
) -> None:
    assert worst_case.read(balance, text, "physics") == ((left,) if left else ())


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("12.5K", 12_500),
        ("1.2M left", 1_200_000),
        ("3 million SU", 3_000_000),
        ("1e3", 1000),
        ("1,234,567.5 hours", 1_234_567.5),
        ("-20h", -20),
        ("1.234,5", None),
        ("1,5", None),
        ("1 234", None),
        ("80%", None),
        ("12 of 80", None),
        ("5m", None),
    ],
)
def test_an_amount_is_read_with_its_suffix_or_not_at_all(text: str, amount: float | None) -> None:
    expected = () if amount is None else (Left(amount, "node-hours"),)
    assert worst_case.read(by(columns={"left": "left"}), f"account|left\nphysics|{text}\n", "p") == expected
    assert worst_case.read(by(pattern="left: (?P<left>.*)"), f"left: {text}\n", "p") == expected


@pytest.mark.parametrize(("text", "amount"), [("12.5K", 12_500), ("1.234,5", None), ("7.", 7), ("7/80", 7)])
def test_a_pattern_that_has_a_part_of_a_number_takes_no_other_number(text: str, amount: float | None) -> None:
    found = worst_case.read(by(pattern="left: (?P<left>[0-9]+)"), f"left: {text}\n", "p")
    assert found == (() if amount is None else (Left(amount, "node-hours"),))


def test_names_in_braces_are_replaced_once_and_no_shell_reads_them() -> None:
    balance = by(command=["saldo", "--of={account}", "{user}", "{other}"])
    assert worst_case.ask(balance, "{user}; rm", "me") == Command(
        ("saldo", "--of={user}; rm", "me", "{other}"), timeout=5.0
    )


@given(st.text(), st.sampled_from([by(columns={"left": "a"}), by(pattern="(?P<left>.*)")]))
def test_whatever_a_command_prints_is_read_or_not(text: str, balance: Balance) -> None:
    assert {left.unit for left in worst_case.read(balance, text, "physics")} <= {"node-hours"}


def test_slurm_has_the_least_that_is_left_of_the_account_and_of_its_user() -> None:
    limits = SLURM.balances
    command = limits.ask("physics")
    assert command.argv == ("scontrol", "-o", "show", "assoc_mgr", "accounts=physics", "flags=assoc")
    assert [*limits.read(Completed(command, 0, ASSOCIATIONS), "physics", "hu1")] == [
        Left(990, "CPU-hours", 1000),
        Left(8, "GPU-hours", 10),
    ]
    assert [*limits.read(Completed(command, 1, "Slurm is down\n"), "physics", "hu1")] == []


def test_a_job_is_compared_in_the_unit_of_the_account(wording: Wording) -> None:
    cost = Cost(nodes=2, gpus=8, cpus=64, seconds=3600, rate=Rate(6, "SU", "3 SU per node-hour"))
    wording(
        (
            worst_case.standing(Left(100, "GPU-hours", 500), cost, "p"),
            worst_case.standing(Left(5, "SU"), cost, ""),
            worst_case.standing(Left(5, "euros"), cost, "p"),
            worst_case.standing(Left(5, "SU"), None, "p"),
        )
    )


@pytest.mark.parametrize(
    "keys",
    [
        {"command": []},
        {},
        {"pattern": "("},
        {"columns": {"total": "Total"}},
        {"pattern": "left"},
    ],
    ids=str,
)
def test_what_cannot_be_read_is_a_problem_of_the_site_file(keys: dict[str, Any], wording: Wording) -> None:
    whole = {"command": ["x"], "unit": "SU"} | keys
    good = {"columns": {"left": "a"}} if keys == {"command": []} else {}
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    built, found = fields.build(Site, base | {"balance": whole | good})
    assert found == []
    assert built is not None
    wording(map(str, problems_of(built)))


def test_a_balance_without_a_unit_is_a_problem(wording: Wording) -> None:
    balance = Balance(command=("mybalance",), columns={"left": "Left"})
    wording(map(str, balance_problems(balance, ("balance",))))


def test_a_charge_without_a_rate_is_a_problem(wording: Wording) -> None:
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    part = {"nodes": {"n": 1}, "charge": {"unit": "SU", "per_gpu_hour": -1, "qos": {"q": 1e10}}}
    data = {"charge": {"unit": "SU"}, "node_types": {"n": {}}, "partitions": {"p": part}}
    built, _ = fields.build(Site, base | data)
    assert built is not None
    wording(map(str, problems_of(built)))


@pytest.mark.parametrize(
    ("site", "text", "left"),
    [
        ("polaris", SBANK, [Left(1999.4, "node-hours")]),
        ("delta", ACCOUNTS, [Left(100, "SU", 5000000)]),
        ("lonestar6", TACCINFO, [Left(4828, "SU")]),
        ("frontier", SHOWUSAGE, [Left(-1000.5, "node-hours", 5000)]),
        ("abci3", SHOW_POINT, [Left(100_000 - 12_345.6789, "ABCI points", 100_000)]),
        ("roihu", CSC_PROJECTS, [Left(59980, "CPU BU", 60000), Left(970, "GPU BU", 1000)]),
    ],
)
def test_shipped_sites_read_what_their_centres_show_as_an_example(
    site: str, text: str, left: list[Left]
) -> None:
    balance = shipped_site(site).balance
    assert balance is not None
    for account in ("physics", "PHYSICS"):  # Slurm's accounts have no capital letters
        assert [*worst_case.read(balance, text, account)] == left
