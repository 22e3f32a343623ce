"""The reader of explicit resource files refuses wrong ones."""

from __future__ import annotations

import pytest

from tests.layers.launchers.jsrun_checker import check
from tests.layers.launchers.jsrun_erf import Placed, RefusedError

SETTINGS = {
    "cpu_index_using": "logical",
    "launch_distribution": "packed",
    **dict.fromkeys(
        ("overlapping_rs", "oversubscribe_cpu", "oversubscribe_gpu", "oversubscribe_mem"), "error"
    ),
    **dict.fromkeys(("skip_missing_cpu", "skip_missing_gpu", "skip_missing_mem"), "error"),
}


def head(**changed: str) -> str:
    return "".join(f"{name}: {value}\n" for name, value in (SETTINGS | changed).items())


HEAD = head()
GOOD = (
    HEAD + "rank: 0: { host: 1; cpu: {0-3}; gpu: {0} }\nrank: 1-2: { hostname: h2; cpu: {0-3, 8} ; gpu: * }\n"
)


def test_a_good_resource_file() -> None:
    step = check(["jsrun", "--erf_input=x", "app"], file=lambda _: GOOD)
    assert step.tasks == (
        Placed(0, "h1", 0, (0,), (0,)),
        Placed(1, "h2", 0, (0, 2), (0, 1, 2, 3, 4, 5)),
        Placed(2, "h2", 1, (0, 2), (0, 1, 2, 3, 4, 5)),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD[:-1], "the last line of the file has no end"),
        (GOOD.replace("overlapping_rs: error\n", ""), "does not say overlapping_rs, and its default"),
        (GOOD.replace("skip_missing_mem: error\n", ""), "does not say skip_missing_mem, and its default"),
        ("overlapping_rs: allow\n" + GOOD, "Error: Line 4: syntax error: 'overlapping_rs: error'"),
        (HEAD, "names no ranks"),
        ("cpu_index_using: physical\n" + GOOD, "Error: Line 1: syntax error"),
        ("overlap: allow\n" + GOOD, "Error: Line 1: syntax error"),
        (GOOD + "overlapping_rs: allow\n", "Error: Line 12: syntax error"),
        (GOOD + "3: { host: 1; cpu: {8} }\n", "Error: Line 12: syntax error"),
        (GOOD + "rank: 0: { host: 1; cpu: {8} }\n", "1+ ranks are assigned with multiple resource sets."),
        (GOOD + "rank: 4: { host: 1; cpu: {8} }\n", "the ranks are not 0 to 3"),
        (GOOD + "rank: 3: { host: 1; cpu: {2-9} }\n", "share cores, and overlapping_rs is error"),
        (GOOD + "rank: 3: { host: 1; cpu: {8}; gpu: {0} }\n", "share gpus, and overlapping_rs is error"),
        (GOOD + "rank: 3: { host: 3; cpu: {8} }\n", "there is no host 3"),
        (GOOD + "rank: 3: { host: 0; cpu: {8} }\n", "there is no host 0"),
        (GOOD + "rank: 3: { hostname: h9; cpu: {8} }\n", "there is no host 'h9'"),
        (GOOD + "rank: 3: { cpu: {8} }\n", "a host and its CPUs must be said once"),
        (GOOD + "rank: 3: { host: 1; hostname: h1; cpu: {8} }\n", "a host and its CPUs must be said once"),
        (GOOD + "rank: 3: { host: 1; gpu: {1} }\n", "a host and its CPUs must be said once"),
        (GOOD + "rank: 3: { host: 1; cpu: {8}; gpu: {} }\n", "unexpected CLOSE_BRACKET"),
        (GOOD + "rank: 3: { host: 1; cpu: {8}; gpu: {6} }\n", "(RS GPU): a host has no number 6"),
        (GOOD + "rank: 3: { host: 1; cpu: {168} }\n", "(RS CPU): a host has no number 168"),
        (GOOD + "rank: 3: { host: 1; cpu: {9-9} }\n", "syntax error: '9-9'"),
        (GOOD + "rank: 3: { host: 1; cpu: {9, 8} }\n", "does not ascend"),
        (GOOD + "rank: 3: { host: 1; cpus: {9} }\n", "syntax error: 'cpus: {9}'"),
        (GOOD + "rank: 3: { host: 1; cpu: 8-9 }\n", "syntax error: '8-9'"),
    ],
)
def test_wrong_resource_files(text: str, said: str) -> None:
    with pytest.raises(RefusedError) as error:
        check(["jsrun", "--erf_input=x", "app"], file=lambda _: text)
    assert said in str(error.value)


BOTH = "rank: 0: { host: 1; cpu: {0-3}; gpu: {0} }\nrank: 1: { host: 1; cpu: {4-7}; gpu: {0} }\n"


def test_a_gpu_is_shared_where_both_settings_allow_it() -> None:
    text = head(overlapping_rs="allow", oversubscribe_gpu="allow") + BOTH
    found = check(["jsrun", "--erf_input=x", "app"], file=lambda _: text).tasks
    assert found == (Placed(0, "h1", 0, (0,), (0,)), Placed(1, "h1", 1, (1,), (0,)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"overlapping_rs": "allow"}, "share gpus, and oversubscribe_gpu is error"),
        ({"oversubscribe_gpu": "allow"}, "share gpus, and overlapping_rs is error"),
        ({"overlapping_rs": "warn", "oversubscribe_gpu": "allow"}, "share gpus, and overlapping_rs is warn"),
    ],
)
def test_a_gpu_is_not_shared_otherwise(settings: dict[str, str], said: str) -> None:
    with pytest.raises(RefusedError) as error:
        check(["jsrun", "--erf_input=x", "app"], file=lambda _: head(**settings) + BOTH)
    assert said in str(error.value)
