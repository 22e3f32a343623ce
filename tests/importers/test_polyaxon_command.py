"""Commands of Polyaxon 0.x as bash is to read them."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.tree import Map, Seq
from hpcdist.importers.polyaxon import as_native
from hpcdist.importers.polyaxon.command import joined
from hpcdist.loading.templates import render

JOINED = (
    "the lines are joined here as Polyaxon joins them; "
    "write `cmd: |`, and end each continued line with `\\`; quote spaces that must be kept"
)


def read(text: str) -> tuple[object, list[str]]:
    document = source.parse(text, "p.yml")
    found = importers.read(document.data)
    return found.data["run"]["cmd"], [str(document.locate(remark)) for remark in found.remarks]


@pytest.mark.parametrize(
    ("cmd", "meant"),
    [
        ("python a.py \\\n    --lr={{ lr }} \\\n    --out=b", "python a.py --lr={{ lr }} --out=b"),
        ("python a.py --lr={{ lr }}\\\n    --out=b", "python a.py --lr={{ lr }} --out=b"),
        ("make && \\\n    python a.py", "make && python a.py"),
        ("python a.py data=x \\\n    model=y \\", "python a.py data=x model=y "),
        ("|\n    python a.py \\  \n      --lr 1", "python a.py \\\n  --lr 1"),
        ("|\n    python a.py\n      --lr 1\n      --out b", "python a.py --lr 1 --out b"),
        ("|\n    # don't\n    python a.py\n      --lr 'b'", "# don't\npython a.py --lr 'b'"),
    ],
)
def test_lines_are_joined(cmd: str, meant: str) -> None:
    assert read(f"run:\n  cmd: {cmd}") == (meant, [f"p.yml:2:8: run.cmd: {JOINED}"])


@pytest.mark.parametrize(
    "cmd",
    [
        "python a.py \\\n  --lr 1\n",
        "cd 'a \\ b' && echo \"\\ -c\" {{ x }}\n",
        "cd My\\ Data/x && python a.py\n",
        'args=(\n  --lr 1\n  --out b\n)\npython a.py "${args[@]}"\n',
        "case $1 in\n  -v) set -v ;;\nesac\n",
        "cat > list <<END\n- a\n- b \\ c\nEND\n",
        "echo \\\\ \\$HOME\npython a.py\n",
    ],
)
def test_lines_that_bash_joins_too_are_unchanged(cmd: str) -> None:
    lines = "".join(f"    {line}\n" for line in cmd.splitlines())
    assert read(f"run:\n  cmd: |\n{lines}") == (cmd, [])


@pytest.mark.parametrize(
    "cmd",
    [
        "python x.py \n--a 1\n  \n  --b 2\necho done\n",
        "a\\ \\ \\ --b \\",
        "a \\  \n  --b\n  --c",
        "\\ a '\\ b'\n- c \\\n  -d",
        "{% raw %}{{{% endraw %}x}}\n  --a {{ 1 }}",
        "a {\\ -b",
    ],
)
def test_protected_lines_render_unchanged(cmd: str) -> None:
    data = as_native(Map({"run": Map({"cmd": Seq([cmd, 3])})}))
    assert importers.read(data) == importers.Imported(data)
    assert render(data, {})[0] == render(Map({"run": Map({"cmd": Seq([cmd, 3])})}), {})[0]
    assert joined(joined(cmd)) == joined(cmd) != cmd


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("python x.py \n--a 1\n  \n  --b 2\necho done\n", "python x.py  --a 1 --b 2\necho done\n"),
        ("a\\ \\ --b", "a --b"),
        ("a{% raw %}\\ {% endraw %}--b\n--c", "a{% raw %}\\ {% endraw %}--b --c"),
    ],
)
def test_joining_lines_is_idempotent(text: str, whole: str) -> None:
    assert joined(text) == whole


def test_each_command_of_a_list_has_its_place() -> None:
    text = "run:\n  cmd:\n    - source env.sh\n    - python a.py \\\n      --lr 1\n    - 3\n"
    commands = ["source env.sh", "python a.py --lr 1", 3]
    assert read(text) == (commands, [f"p.yml:4:7: run.cmd[1]: {JOINED}"])


def test_a_library_as_framework_is_dropped() -> None:
    document = source.parse("framework: Keras\nrun: {cmd: python a.py}", "p.yml")
    found = importers.read(document.data)
    assert found.data == {"run": {"cmd": "python a.py"}}
    messages = "p.yml:1:12: framework: 'Keras' has no effect: the command is run as it is"
    assert [str(document.locate(remark)) for remark in found.remarks] == [messages]


def test_a_framework_with_replicas_must_be_known() -> None:
    text = "framework: keras\nenvironment: {replicas: {n_workers: 2}}\nrun: {cmd: python a.py}"
    document = source.parse(text, "p.yml")
    assert importers.read(document.data) == importers.Imported(document.data)


def test_keys_for_building_the_image_are_dropped() -> None:
    text = "build:\n  image: a\n  environment: {labels: {a: b}}\n  params: {x: 1}\nrun: {cmd: python a.py}"
    document = source.parse(text, "p.yml")
    found = importers.read(document.data)
    assert found.data == {"build": {"image": "a"}, "run": {"cmd": "python a.py"}}
    assert [str(document.locate(remark)) for remark in found.remarks] == [
        "p.yml:3:3: build.environment: 'environment' is for building the image, and hpcdist builds none",
        "p.yml:4:3: build.params: 'params' is for building the image, and hpcdist builds none",
    ]


TENSORFLOW = (
    "framework: tensorflow\nbuild: {image: %s}\nenvironment: {replicas: {n_workers: 2}}\nrun: {cmd: x}"
)


@pytest.mark.parametrize("image", ["tensorflow/tensorflow:1.14.0-gpu-py3", "reg.io:5000/tensorflow:1.4"])
def test_the_image_tag_gives_tensorflow_1(image: str) -> None:
    document = source.parse(TENSORFLOW % image, "p.yml")
    found = importers.read(document.data)
    assert found.data == {**document.data, "tensorflow": {"version": "1"}}
    messages = (
        "p.yml:2:16: build.image: an image of TensorFlow 1: the cluster calls its chief `master`; "
        "for TensorFlow 2 add `tensorflow: {version: 2}` at the top level"
    )
    assert [str(document.locate(remark)) for remark in found.remarks] == [messages]


@pytest.mark.parametrize("image", ["tensorflow/tensorflow:2.1.0-gpu", "tensorflow/tensorflow", "me/own:1.2"])
def test_other_images_do_not_give_tensorflow_1(image: str) -> None:
    document = source.parse(TENSORFLOW % image, "p.yml")
    assert importers.read(document.data) == importers.Imported(document.data)


def test_the_image_tag_is_not_used_for_other_forms() -> None:
    data = source.parse(TENSORFLOW % "tensorflow/tensorflow:1.4", "p.yml").data
    written = as_native(data)
    assert written == {**data, "tensorflow": {"version": "2"}}
    assert importers.read(written) == importers.Imported(written)


@pytest.mark.parametrize(
    ("cmd", "template", "text"),
    [
        (
            "{if: {cond: '{{ n == 2 }}', do: a, else_do: b}}",
            "{% if n == 2 %}a{% else %}b{% endif %}",
            "a",
        ),
        ("{if: {cond: '{{ n }} > 2', do: a, else_do: b}}", "{% if (n) > 2 %}a{% else %}b{% endif %}", "b"),
        ("{if: {cond: false, do: a}}", "{% if False %}a{% endif %}", ""),
        ("{if: {cond: n > 1, do: [a, b]}}", "{% if n > 1 %}a && b{% endif %}", "a && b"),
        (
            "{for: {len: '{{ n }}', do: 'x {{ i }}', index: i}}",
            "{% for i in range(n) %}x {{ i }}{% if not loop.last %} && {% endif %}{% endfor %}",
            "x 0 && x 1",
        ),
        (
            "{for: {len: 2, do: {if: {cond: '{{ index }}', do: 'y {{ index }}', else_do: z}}}}",
            (
                "{% for index in range(2) %}{% if index %}y {{ index }}{% else %}z{% endif %}"
                "{% if not loop.last %} && {% endif %}{% endfor %}"
            ),
            "z && y 1",
        ),
        ("[c, {if: {cond: '{{ n == 2 }}', do: a}}]", ["c", "{% if n == 2 %}a{% endif %}"], ["c", "a"]),
    ],
)
def test_operators_of_polyaxon_are_templates(
    cmd: str, template: str | list[str], text: str | list[str]
) -> None:
    assert read(f"run: {{cmd: {cmd}}}") == (template, [])
    texts = Seq([template] if isinstance(template, str) else template)
    rendered = render(Map({"run": Map({"cmd": texts})}), {"n": 2})[0]
    assert rendered["run"]["cmd"] == ([text] if isinstance(text, str) else text)


@pytest.mark.parametrize("cmd", ["{if: {do: a}}", "{if: {cond: a}}", "{unless: {cond: a, do: b}}", "{if: a}"])
def test_half_an_operator_is_left_to_the_model(cmd: str) -> None:
    command, remarks = read(f"run: {{cmd: {cmd}}}")
    assert (isinstance(command, Map), remarks) == (True, [])
