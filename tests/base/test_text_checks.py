from __future__ import annotations

import pytest

from hpcdist.base import text_checks
from tests.wording import Wording


def test_mail_events(wording: Wording) -> None:
    assert [*text_checks.mail_problems(["begin", "END", "time_limit_80"], ())] == []
    wording(map(str, text_checks.mail_problems(["ends"], ("mail",))))


def test_modules() -> None:
    good = ["cuda", "cuda/12.4", "gcc@12:", "/home/me/mine", "Stages/2025", "a+b=c"]
    assert [*text_checks.module_problems(good, ())] == []


@pytest.mark.parametrize("name", ["", "--force", "a b", "a;b", "$X", "a\n", "a\nb", "'a'"])
def test_invalid_module_names(name: str, wording: Wording) -> None:
    wording(map(str, text_checks.module_problems(["gcc", name], ("batch", "modules"))))


def test_module_listed_twice(wording: Wording) -> None:
    wording(map(str, text_checks.module_problems(["gcc", "cuda", "gcc"], ("modules",))))


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("DATA", "$SCRATCH/x", "warning"),
        ("DATA", "~/x", "warning"),
        ("DATA", '{"$ref": "a"}', "warning"),
        ("DATA", "$(id) x", "warning"),
        ("PATH", "/opt/x:${PATH}", "error"),
    ],
)
def test_variables_that_a_shell_would_expand(name: str, value: str, severity: str, wording: Wording) -> None:
    (problem,) = text_checks.variable_problems(name, value, ())
    assert problem.severity == severity
    wording(str(problem))


@pytest.mark.parametrize("value", ["/scratch/me", "5$ or $5, ~", "a~/b"])
def test_variables_that_a_shell_would_not_expand(value: str) -> None:
    assert [*text_checks.variable_problems("DATA", value, ())] == []


@pytest.mark.parametrize("text", ["torch", "torch_2-10", "ml/torch-2", "/a b/\u00e9", ".", "./env", "../env"])
def test_spack_environments(text: str) -> None:
    assert [*text_checks.spack_env_problems(text, ())] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~/torch",
        "-d",
        "/scratch/$USER/env",
        "/a\nb",
    ],
)
def test_invalid_spack_environments(text: str, wording: Wording) -> None:
    wording(map(str, text_checks.spack_env_problems(text, ())))
