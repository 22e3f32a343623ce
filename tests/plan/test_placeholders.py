"""What bash makes of a template is what ``filled`` says."""

from __future__ import annotations

import subprocess

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from hpcdist.plan.placeholders import PORT, RANK, ROLE, Peers, Placeholder, Template, template

KNOWN = {"HPCDIST_RANK": "7", "HPCDIST_ROLE": "master of masters", "HPCDIST_PORT": '$x "`'}
PEERS = 'peers() { printf "\\"%s:1\\",\\"b:2\\"" "$1"; }'


def value(part: Placeholder | Peers) -> str:
    if isinstance(part, Peers):
        return f'"{part.role}:1","b:2"'
    text = KNOWN[part.name]
    return text.replace(part.old, part.new, 1) if part.old else text


def in_bash(text: Template) -> str:
    script = f'{PEERS}\nexport A="{text.bash}"\nprintf "%sX" "$A"'
    done = subprocess.run(["bash", "-c", script], env=KNOWN, capture_output=True, text=True, check=True)
    return done.stdout.removesuffix("X")


LITERALS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=6)
NAMED = st.sampled_from([RANK, PORT, ROLE, ROLE.renamed("master", "chief"), Peers("worker")])


@given(parts=st.lists(LITERALS | st.sampled_from(["a", "_", "[0]", "{", "'", "!", "}"]) | NAMED, max_size=6))
@example(parts=[RANK, "", "0"])
def test_both_forms_are_the_same_value(parts: list[str | Placeholder | Peers]) -> None:
    text = template(*parts)
    assert in_bash(text) == text.filled(value)


def test_bash_is_written_as_a_person_would() -> None:
    text = template(
        '{"rank": ', RANK, ', "at": [', Peers("ps"), "], ", PORT, "th, ", ROLE.renamed("a", "b"), "}"
    )
    assert text.bash == (
        r"{\"rank\": $HPCDIST_RANK, \"at\": [$(peers ps)], ${HPCDIST_PORT}th, ${HPCDIST_ROLE/a/b}}"
    )
    assert text.peers == ("ps",)


def test_a_template_can_be_kept_as_json() -> None:
    text = template("a", RANK, Peers("ps"), ROLE.renamed("a", "b"))
    assert msgspec.json.decode(msgspec.json.encode(text), type=Template) == text
