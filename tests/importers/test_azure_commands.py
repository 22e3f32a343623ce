"""Commands of Azure ML as bash is to run them."""

from __future__ import annotations

import subprocess

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.importers.azure.command import AzureOutput, Param, Remark, Translation, one_line
from hpcdist.importers.container import as_word
from hpcdist.loading.load import load_experiment
from tests.wording import Wording

from .azure_commands import prepared
from .remarks import remarks_of

PARAMS = {
    "a": Param("a"),
    "b": Param("b", is_optional=True),
    "p": Param("p", is_path=True),
    "learning rate (1)": Param("learning_rate__1_"),
}
OUTPUTS = {"o": AzureOutput("o"), "f": AzureOutput("f", is_file=True)}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("x ${{inputs.a}} ${{ inputs.a }} {inputs.a}", "x {{ a }} {{ a }} {{ a }}"),
        ("x $[[--b ${{inputs.b}} -c]] y", "x {% if b is not none %}--b {{ b }} -c{% endif %} y"),
        ('[ "${{inputs.a}}" = y ] && a[${{inputs.a}}]', '[ "{{ a }}" = y ] && a[{{ a }}]'),
        ("x $[[--a ${{inputs.a}}]]", "x --a {{ a }}"),
        ("[ -f y ] && x [--a {inputs.a}]", "[ -f y ] && x [--a {{ a }}]"),
        ("[[ -n $x ]] && echo ${#a[@]}", "[[ -n $x ]] && echo ${#a[@]}"),
        ("{${{inputs.a}}}", '{{ "{" }}{{ a }}}'),
        ("{{x}} {% {{{", "{% raw %}{{{% endraw %}x}} {% raw %}{%{% endraw %} {% raw %}{{{% endraw %}{"),
        ("${{outputs.o}}/x", '"$HPCDIST_OUTPUTS/o"/x'),
        ('"${{outputs.o}}/x"', '"$HPCDIST_OUTPUTS/o/x"'),
        ("'${{outputs.o}}/x'", "''\"$HPCDIST_OUTPUTS/o\"'/x'"),
        ("${{inputs.p}}", '{% if (p|string)[:1] != "/" %}"$submitted_in/"{% endif %}' + as_word("p")),
        ("'${{inputs.p}}'", "'{% if (p|string)[:1] != \"/\" %}'\"$submitted_in/\"'{% endif %}{{ p }}'"),
        ("x {inputs.learning rate (1)}", "x {{ learning_rate__1_ }}"),
        ("python -c 'd = {inputs: 1}'", "python -c 'd = {inputs: 1}'"),
    ],
)
def test_commands_are_translated(command: str, text: str) -> None:
    found = Translation(command, PARAMS, OUTPUTS, legacy=False)
    assert (found.text, found.remarks) == (text, [])


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("x [--b {inputs.b}] [ ]", "x {% if b is not none %}--b {{ b }}{% endif %} [ ]"),
        ("x [--a ${{inputs.a}}] [--a ${{inputs.a}}]", "x --a {{ a }} --a {{ a }}"),
        ("x $[[--b ${{inputs.b}}]]", "x {% if b is not none %}--b {{ b }}{% endif %}"),
    ],
)
def test_brackets_are_groups_in_the_first_components_only(command: str, text: str) -> None:
    found = Translation(command, PARAMS, OUTPUTS, legacy=True)
    assert (found.text, found.remarks) == (text, [])


def test_an_optional_input_without_a_value_is_empty_in_bash_brackets() -> None:
    found = Translation('[ "${{inputs.b}}" = y ]', PARAMS, OUTPUTS, legacy=False)
    messages = Remark(
        "the optional input 'b' becomes empty text where it has no value",
        "put $[[ ]] around what belongs to ${{inputs.b}}",
        is_error=False,
    )
    assert (found.text, found.remarks) == ('[ "{{ b if b is not none else "" }}" = y ]', [messages])


@pytest.mark.parametrize(
    "quoted",
    [
        "{}",
        '"{}"',
        "'{}'",
        r"it\'s{}",
        '"it\'s"{}',
        "'\"'{}",
        "# don't\nprintf %s {}",
        "x # don't\nprintf %s '{}'",
        "{}#'x' '{}'",
        "${#x} '# {}'",
        "$(cat <<E\nit's {}\nE\n) {}",
        "$(cat <<-\"E-1\"\n\tit's\n\tE-1\n) '{}'",
        "$(cat <<A - <<\\B # it's\n'{}'\nA\nit's\nB\n) {}",
        "$((1 <<2 )) $((x << y))\n printf %s '{}'",
        "$((1 +\n1 << y)) $[1<<y]\n printf %s '{}'",
        "<<<it\\'s\nprintf %s '{}'",
    ],
)
def test_outputs_are_expanded_in_all_quotes(quoted: str) -> None:
    text = Translation("printf %s " + quoted.replace("{}", "${{outputs.o}}"), {}, OUTPUTS, legacy=False).text
    assert printed(text) == printed("printf %s " + quoted.replace("{}", "/d/o"))


def printed(command: str) -> bytes:
    done = subprocess.run(
        ["bash", "-c", command], env={"HPCDIST_OUTPUTS": "/d"}, capture_output=True, check=True
    )
    return done.stdout


def test_a_path_in_an_unexpanded_here_document_is_refused() -> None:
    found = Translation("cat <<'E'\n${{outputs.o}}\nE\necho ${{outputs.o}}", {}, OUTPUTS, legacy=False)
    remarks = Remark(
        "a path is in a here-document with a quoted delimiter, in which nothing is expanded",
        "it is known only when the job runs: write the delimiter without quotes, `<<EOF`",
    )
    assert found.remarks == [remarks]
    assert found.text == "cat <<'E'\n$HPCDIST_OUTPUTS/o\nE\necho \"$HPCDIST_OUTPUTS/o\""


def test_a_command_of_the_first_components_is_one_line() -> None:
    assert one_line("python x.py\n\n    --a 1\n  b\n") == "python x.py --a 1 b\n"


JOINED = (
    "an option that begins a line, or follows a backslash, is joined to the text before it; write "
    "`command: >-`, or `command: |` and a backslash at the end of each continued line; "
    "quote spaces that must be kept"
)


@pytest.mark.parametrize("legacy", [True, False])
def test_an_option_on_its_own_line_is_joined_to_its_program(wording: Wording, *, legacy: bool) -> None:
    kind = "CommandComponent" if legacy else "command"
    text = f"type: {kind}\ncommand: >-\n  python x.py \\\n  --a b\\ c\nenvironment: {{image: i}}\n"
    found = importers.read(source.parse(text, "f.yml").data)
    assert found.data == {"build": {"image": "i"}, "run": {"cmd": prepared("python x.py --a b\\ c")}}
    wording(remarks_of(text))


RUN_TIME = """\
type: command
command: >-
  MLFLOW_RUN_ID=1 x $AZUREML_RUN_ID ${AZUREML_ARM_WORKSPACE_NAME} $AZ_BATCH_NODE_ID $AZ_BATCH_MASTER_NODE
  $MLFLOW_TRACKING_URI $AZUREML_OWN $MLFLOW_RUN_ID
environment_variables: {AZUREML_OWN: a}
"""


EXPORT = (
    "write the value itself, or export it in the shell that submits the job; the job inherits its variables"
)


def test_variables_that_only_azure_sets_are_reported(wording: Wording) -> None:
    wording(remarks_of(RUN_TIME))


WORDS = """\
type: {kind}
command: x --a {{inputs.a}} --b ${{{{inputs.a}}}} --c={{inputs.a}} -d "{{inputs.a}}"
inputs: {{a: {{type: string, default: '', optional: {optional}}}}}
"""


@pytest.mark.parametrize("optional", ["true", "false"])
@pytest.mark.parametrize(
    ("kind", "value", "command"),
    [
        ("CommandComponent", "", "x --a '' --b '' --c='' -d \"\""),
        ("CommandComponent", "$1", "x --a '$1' --b '$1' --c='$1' -d \"$1\""),
        ("CommandComponent", "i'm", """x --a 'i'\\''m' --b 'i'\\''m' --c='i'\\''m' -d "i'm\""""),
        ("command", "b c", 'x --a b c --b b c --c=b c -d "b c"'),
    ],
)
def test_a_text_is_a_word_of_the_first_components(
    kind: str, value: str, command: str, optional: str, wording: Wording
) -> None:
    text = WORDS.format(kind=kind, optional=optional)
    params = {"a": value} if value else {}
    loaded = load_experiment(source.parse(text, "f.yml"), params=params)
    assert loaded.experiment.run.command.splitlines()[-1] == command
    wording(remarks_of(text))


def test_an_input_with_blanks_in_its_name_has_a_value() -> None:
    text = "type: command\ncommand: x {inputs.Number of epochs}\ninputs: {Number of epochs: {type: integer}}"
    loaded = load_experiment(source.parse(text, "f.yml"), params={"Number_of_epochs": "3"})
    assert loaded.experiment.run.command.splitlines()[-1] == "x 3"
