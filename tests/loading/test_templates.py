# ruff: noqa: E501 - a table
from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading import load
from tests.wording import Wording


def loaded(text: str) -> load.Loaded:
    return load.load_experiment(source.parse(text, "e.yml"))


def said(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return [str(problem) for problem in caught.value.problems]


def rendered(template: object, **params: Any) -> object:
    """Return what becomes of a template outside the command."""
    data = {"params": params, "environment": {"env_vars": {"A": template}}, "run": {"cmd": "x"}}
    return loaded(json.dumps(data)).experiment.environment.env_vars["A"]


def command(template: str, **params: Any) -> str:
    return loaded(json.dumps({"params": params, "run": {"cmd": template}})).experiment.run.command


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ n }}", 3), ("{{ params.n }}", 3), ("{{n}}", 3), ("{{- n -}}", 3), ("{{ n + 1 }}", 4), ("{{ -n }}", -3), ("{{-1}}", 1), ("{{ x }}", "v"),
        ("{{ n }}{{ n }}", "33"), (" {{ n }}", " 3"), ("{{ d.a }}", 1), ("{{ d['a'] }}", 1), ("{{ l[1] }}", 2),
        ("{{ l|join('-') }}", "1-2"), ("{{ l|length }}", 2), ("{{ x|upper }}", "V"), ("{{ x.upper() }}", "V"),
        ("{{ x|replace('v', 'w') }}", "w"), ("{{ x.replace('v', 'w') }}", "w"), ("{{ 2.5|round }}", 2.0),
        ("{{ missing|default(5) }}", 5), ("{{ 'a' * 3 }}", "aaa"), ("{{ 7 % 4 }}", 3), ("{{ 2 ** 10 }}", 1024),
        ("{{ 'y' if n else 'z' }}", "y"), ("{{ 'y' if not n }}", ""), ("{{ d|tojson }}", '{"a": 1}'), ("{{ range(2)|tojson }}", "[0, 1]"),
        ("{{ x is defined }}", True),
        ("{% if n > 2 %}big{% else %}small{% endif %}", "big"), ("{% for i in range(n) %}{{ i }}{% endfor %}", "012"),
        ("{% for i in l %}{{ loop.index }}{% endfor %}", "12"), ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"), ("{{ l }} ", "[1, 2] "),
        ("{{ d.keys() }} ", "['a'] "), ("{{ '}}' }}", "}}"), ("{# no comment #}", "{# no comment #}"),
        ("{{ [n] * 2 }} ", "[3, 3] "), ("{% for i in l if i > 1 %}{{ i }}{% endfor %}", "2"), ("{{ n|round(10**9) }}", 3.0), ("{{ l[1:] }} ", "[2] "),
        ("{{ [d]|sum(attribute='a') }}", 1), ("{{ l|sum(start=2.5) }}", 5.5), ("{{ '<&>'|tojson }}", '"<&>"'),
        ("{{ l|map('string')|join('-') }}", "1-2"), ("{{ ['a']|map('replace', 'a', 'b')|first }}", "b"),
    ],
)  # fmt: skip
def test_templates_outside_the_command_keep_their_type(template: str, value: object) -> None:
    found = rendered(template, n=3, x="v", l=[1, 2], d={"a": 1})
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ n }}", "3"),
        ("x {{ n }}\n  y\\\n", "x 3\n  y\\\n"),
        ("a\n{{ n }}\n", "a\n3\n"),
        ("echo ${#a[@]} {{ n }} $(( n ))", "echo ${#a[@]} 3 $(( n ))"),
        ("echo {# {{ n }} #}", "echo {# 3 #}"),
        ("no template  at\tall\n\n", "no template  at\tall\n\n"),
    ],
)
def test_commands_stay_text(template: str, text: str) -> None:
    assert command(template, n=3) == text


@pytest.mark.parametrize("args", ["'{{ n }}'", "{master: '{{ n }}'}"])
@pytest.mark.parametrize(("value", "text"), [("5", "5"), ("[1, 2]", "[1, 2]"), ("0.10", "0.10")])
def test_arguments_of_an_entrypoint_stay_text(args: str, value: str, text: str) -> None:
    run = f"build: {{image: x}}\nrun: {{entrypoint: image, args: {args}}}"
    assert f'"$@" {text}' in loaded(f"params: {{n: {value}}}\n{run}").experiment.run.command


LONG = "a value of the template is longer than 20000"
MUCH = "the templates of this file take too much time; use fewer loops, over shorter values"


@pytest.mark.parametrize(
    "template",
    [
        "{{ lrr }}",
        "{{ d.b }}",
        "{{",
        "{{ }}",
        "{{ a: b }}",
        "docker --format '{{.Names}}'",
        "{{ lr|uper }}",
        "{{ 1 / 0 }}",
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ 10**10000000 }}",
        "--x={{ d.get('b') }}",
        "{{ 10**4500 }}",
        "{{ 10**300 + 1 }}",
        "{{ [0 - 10**299 * 100] }}",
        "{{ ('9' * 301)|int }}",
        "{{ range(20001)|list }}",
        "{{ range(10**9)|list }}",
        "{{ ('a' * 20000)|join('b' * 9) }}",
        "{{ ('a' * 20000)|join('b' * 20000) }}",
        "{{ ('a' * 20000)|replace('a', 'b' * 20000) }}",
        "{{ ('a' * 20000).replace('', 'b' * 20000) }}",
        "{{ ('a' * 20000)|replace('a', 'bb') }}",
        "{{ ('a' * 20000).replace('', 'bb') }}",
        "{{ [1] * 10**9 }}",
        "{{ 10**9 * (1, 2) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ lr.__init__.__globals__ }}",
        "{{ d.update({}) }}",
        "{{ self }}",
        "{{ (-8) ** 0.5 }}",
        "{{ '\\ud800' }}",
        "{{ '\\0' }}",
        pytest.param("{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}", id="9000 parentheses"),
        pytest.param("{{ lr" + " ~ lr" * 9000 + " }}", id="9001 terms"),
        pytest.param("{{ lr" + " + lr" * 250 + " }}", id="251 terms"),
        pytest.param(
            "{% if lr %}" * 30 + "{% for a in [1] %}" * 30 + "{% endfor %}" * 30 + "{% endif %}" * 30,
            id="60 statements in each other",
        ),
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in range(100) %}{{ 'x' * 20000 }}{% endfor %}",
        pytest.param("{% for a in range(9999) %}" + "x" * 999 + "{% endfor %}", id="a loop of 10 MB"),
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for a in [1] %}{{ loop._iterator }}{% endfor %}",
        "{{ range.__globals__ }}",
        "{{ [lr, lr]|sort(attribute='__class__') }}",
        "{{ lr|lisst(10**9) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}",
        "{% set x = 1 %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
    ],
)
def test_templates_that_are_refused(template: str, wording: Wording) -> None:
    wording(said(json.dumps({"params": {"lr": 1, "d": {}}, "run": {"cmd": template}})))


def test_invalid_template_is_reported_once(wording: Wording) -> None:
    wording(said("environment: {resources: {gpu: {limits: '{{ x }}'}}}\nrun: {cmd: 'true'}"))


def test_params_of_any_length_are_kept_but_not_rendered() -> None:
    assert command("x", long="a" * 30_000) == "x"
    with pytest.raises(ConfigError, match=LONG):
        command("{{ long }}", long="a" * 30_000)


def test_source_spelling_of_numbers_counts_for_the_budget() -> None:
    text = "params: {x: 1.%s}\nrun: {cmd: '{{ %s }}'}"
    for zeros, template, message in (
        (20_000, "x", LONG),
        (9_999, "([x] * 9)|join", LONG),
        (9_999, "x" + " ~ x" * 300, MUCH),
    ):
        (problem,) = said(text % ("0" * zeros, template))
        assert problem.split(": run.cmd: ", 1)[1] == message


def test_jinja_is_imported_for_templates_only() -> None:
    program = """
import sys
from hpcdist.base import source
from hpcdist.loading import load
for text in ("run: {cmd: 'echo ${x}'}", "run: {cmd: '{{ 1 }}'}"):
    load.load_experiment(source.parse(text, "e.yml"))
    print("jinja2" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False", b"True"]


DEEP = "".join(
    f"{{% for {b} in [[{a}, {a}, {a}]] %}}"
    for a, b in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True)
)


@pytest.mark.extended
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(9999) %}{{ range(20000)|sort|first }}{% endfor %}",
        "{% for a in range(9999) %}{{ range(20000)|list|unique|list|length }}{% endfor %}",
        "{% for a in range(9999) %}{{ 'x' * 20000 == 'x' * 20000 }}{% endfor %}",
        "{% for a in range(9999) %}{{ -1 in range(20000)|list }}{% endfor %}",
        "{% for a in range(9999) %}{{ ('ab' * 9000).count('b') }}{% endfor %}",
        "{% for a in range(9999) %}{{ ('ab' * 9000).split('b')|length }}{% endfor %}",
        "{% for a in range(9999) %}{% if ('x' * 20000)[1:] is string %}{% endif %}{% endfor %}",
        "{% for a in range(9999) %}" + "{% if a %}{{ a }}{% endif %}" * 500 + "{% endfor %}",
        "{% for a in range(9) %}{{ ('x' * 9999)|list|sort(attribute='" + "0." * 900 + "0') }}{% endfor %}",
        "{% for a in [1] %}" + DEEP + "{{ q }}" + "{% endfor %}" * 17,
        "{% for a in [1] %}" + DEEP + "{% if q == q %}{% endif %}" + "{% endfor %}" * 17,
        "{% for a in [1] %}" + DEEP + "{{ {(q, 1): 1} }}" + "{% endfor %}" * 17,
        "{% for a in range(3000) %}{{ range(2000)|max }}{{ range(2000)|join }}{% endfor %}",
    ],
)  # fmt: skip
def test_work_of_a_template_is_limited(template: str) -> None:
    text = json.dumps({"params": {"d": {}}, "run": {"cmd": template}})
    (problem,) = said(text)
    assert problem.split(": run.cmd: ", 1)[1] == MUCH


@pytest.mark.extended
def test_budget_is_shared_by_all_templates_of_a_file() -> None:
    variables = {f"A{number}": "{{ range(20000)|sort|last }}" for number in range(40)}
    problems = said(json.dumps({"environment": {"env_vars": variables}, "run": {"cmd": "x"}}))
    assert problems[-1] == f"e.yml:1:{problems[-1].split(':')[2]}: environment.env_vars.A39: {MUCH}"


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in ['x' * 20000] %}{% for b in [a + a] %}{% endfor %}{% endfor %}",
        "{% for a in ['x' * 20000] %}{% for b in [a ~ a] %}{% endfor %}{% endfor %}",
        "{{ range(20000)|list + [1] }}",
        "{{ [[['\\\\' * 6000]|string]|string]|string }}",
        "{{ [[1], [2]]|sum(start=[]) }}",
        "{{ l|map(attribute='a') }}",
        "{{ l|map }}",
    ],
)
def test_size_of_values_is_limited(template: str, wording: Wording) -> None:
    wording(said(json.dumps({"run": {"cmd": template}})))
