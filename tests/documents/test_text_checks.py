from __future__ import annotations

import pytest

from hpcdist.documents import text_checks


def test_mail_events() -> None:
    assert [*text_checks.mail_problems(["begin", "END", "time_limit_80"], ())] == []
    assert [str(problem) for problem in text_checks.mail_problems(["ends"], ("mail",))] == [
        "mail[0]: 'ends' is not a mail event; did you mean 'end'?"
    ]


def test_modules() -> None:
    good = ["cuda", "cuda/12.4", "gcc@12:", "/home/me/mine", "Stages/2025", "a+b=c"]
    assert [*text_checks.module_problems(good, ())] == []


@pytest.mark.parametrize("name", ["", "--force", "a b", "a;b", "$X", "a\n", "a\nb", "'a'"])
def test_invalid_module_names(name: str) -> None:
    sentence = (
        f"batch.modules[1]: {name!r} is not a valid module name; write NAME or NAME/VERSION, -NAME to "
        "unload it, or `purge` or `reset`"
    )
    assert [str(problem) for problem in text_checks.module_problems(["gcc", name], ("batch", "modules"))] == [
        sentence
    ]


def test_module_listed_twice() -> None:
    assert [
        str(problem) for problem in text_checks.module_problems(["gcc", "cuda", "gcc"], ("modules",))
    ] == ["modules[2]: the module gcc is listed twice; remove it"]


@pytest.mark.parametrize(
    ("name", "value", "severity", "line"),
    [
        ("DATA", "$SCRATCH/x", "warning", ' by `export DATA="$SCRATCH/x"`'),
        ("DATA", "~/x", "warning", ' by `export DATA="$HOME/x"`'),
        ("DATA", '{"$ref": "a"}', "warning", ""),
        ("DATA", "$(id) x", "warning", ""),
        ("PATH", "/opt/x:${PATH}", "error", ' by `export PATH="/opt/x:${PATH}"`'),
    ],
)
def test_variables_that_a_shell_would_expand(name: str, value: str, severity: str, line: str) -> None:
    (problem,) = text_checks.variable_problems(name, value, ())
    sentence = (
        f"variables and ~ are not expanded in {value!r}; to have bash expand it, set it in the command{line}"
    )
    assert (problem.severity, str(problem)) == (severity, sentence)


@pytest.mark.parametrize("value", ["/scratch/me", "5$ or $5, ~", "a~/b"])
def test_variables_that_a_shell_would_not_expand(value: str) -> None:
    assert [*text_checks.variable_problems("DATA", value, ())] == []


@pytest.mark.parametrize("text", ["torch", "torch_2-10", "ml/torch-2", "/a b/\u00e9", ".", "./env", "../env"])
def test_spack_environments(text: str) -> None:
    assert [*text_checks.spack_env_problems(text, ())] == []


NO_NAME = (
    "is not a valid Spack environment; write its name, or the path of its folder, beginning with / or ./"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f"'' {NO_NAME}"),
        ("~/torch", f"'~/torch' {NO_NAME}"),
        ("-d", f"'-d' {NO_NAME}"),
        (
            "/scratch/$USER/env",
            "variables are not expanded in '/scratch/$USER/env'; write the value of the variable",
        ),
        ("/a\nb", r"'/a\nb' cannot be used as a path in a script; rename the folder"),
    ],
)
def test_invalid_spack_environments(text: str, sentence: str) -> None:
    assert [str(problem) for problem in text_checks.spack_env_problems(text, ())] == [sentence]
