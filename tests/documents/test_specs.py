from __future__ import annotations

import pytest

from hpcdist.documents import specs


def test_mail_events() -> None:
    assert [*specs.mail_problems(["begin", "END", "time_limit_80"], ())] == []
    assert [str(problem) for problem in specs.mail_problems(["ends"], ("mail",))] == [
        "mail[0]: no mail comes at 'ends'; did you mean 'end'?"
    ]


def test_modules() -> None:
    good = ["cuda", "cuda/12.4", "gcc@12:", "/home/me/mine", "Stages/2025", "a+b=c"]
    assert [*specs.module_problems(good, ())] == []


@pytest.mark.parametrize("name", ["", "-f", "a b", "a;b", "$X", "a\n", "a\nb", "'a'"])
def test_no_modules(name: str) -> None:
    sentence = (
        f"batch.modules[1]: {name!r} cannot be the name of a module; write NAME or NAME/VERSION; other lines "
        "of bash belong in the site's `setup`"
    )
    assert [str(problem) for problem in specs.module_problems(["gcc", name], ("batch", "modules"))] == [
        sentence
    ]


def test_a_module_that_stands_twice() -> None:
    assert [str(problem) for problem in specs.module_problems(["gcc", "cuda", "gcc"], ("modules",))] == [
        "modules[2]: the module gcc stands here for the second time; remove it"
    ]


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
    (problem,) = specs.variable_problems(name, value, ())
    sentence = f"nothing is expanded in {value!r}; if bash is to read it, set it in the command{line}"
    assert (problem.severity, str(problem)) == (severity, sentence)


@pytest.mark.parametrize("value", ["/scratch/me", "5$ or $5, ~", "a~/b"])
def test_variables_that_a_shell_would_leave(value: str) -> None:
    assert [*specs.variable_problems("DATA", value, ())] == []


@pytest.mark.parametrize("text", ["torch", "torch_2-10", "ml/torch-2", "/a b/\u00e9", ".", "./env", "../env"])
def test_spack_environments(text: str) -> None:
    assert [*specs.spack_env_problems(text, ())] == []


NO_NAME = "is no Spack environment; write its name, or the path of its folder, which begins with / or ./"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f"'' {NO_NAME}"),
        ("~/torch", f"'~/torch' {NO_NAME}"),
        ("-d", f"'-d' {NO_NAME}"),
        ("/scratch/$USER/env", "no variable is expanded in '/scratch/$USER/env'; write what it stands for"),
        ("/a\nb", r"'/a\nb' cannot be a path in a script; rename the folder"),
    ],
)
def test_no_spack_environments(text: str, sentence: str) -> None:
    assert [str(problem) for problem in specs.spack_env_problems(text, ())] == [sentence]
