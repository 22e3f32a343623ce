"""Changes to a YAML file that make of it what a user's slip, another program or an attacker could make."""

from __future__ import annotations

import copy
import random
import re
import string
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

Path = tuple[str | int, ...]
Mutation = Callable[[random.Random, str], bytes]

VALUES: Final = (
    "", "~", "null", ".nan", ".inf", "-.inf", "1e999", "1e308", "-1", "0", "9" * 20, "9" * 299, "9" * 301,
    "9" * 5000, "0o17", "010", "0x1F", "1:30:00", "2024-01-31", "yes", "no", "on", "true", "[]", "{}",
    "[[]]", "[1, 2]", "{a: 1}", r'"\0"', r'"\x01"', r'"\u202e"', r'"\ud800"', r'"\ud83d\ude00"',
    r'"\uffff"', "!!python/object:os.system x", "!!binary aGk=", "!!set {a}", "!!timestamp 2024-01-01",
    "!foo bar", "&a b", "*a", "<<", "? x", "- x", "| x", "> x", "%YAML 1.1", "---", "...", "@x", "`x`",
    "{{ x }}", '"{{ x }}"', '"{% if %}"', '"{{ 9**9**9 }}"', '"{{ 10**4500 }}"', "\"{{ 'a'*999999 }}\"",
    "''", '" "', r'"\n"', "a\tb", "é", "😀", "../../x", "/dev/zero", "/", ".", "~root", "-", "--", "-x",
    "1Gi", "-1G", "1.5.5", "1e3G", "24h", "99999d", "-1h", "00:00:00", "99999-99:99:99", "perlmutter",
    "local", "mpirun", "horovodrun", "jsrun", "0-15", "0-9999999999", "9-0", "1,1,1", "5%0", "0-1:0",
    "afterok:1", "afterok:", "singleton", "KILL@0", "USR1@99999999999999", "65536", "4294967296", "1e-400",
    "1_000", "+1", "-0", "a" * 70_000,
)  # fmt: skip
_KEYS: Final = (
    "name", "run", "cmd", "gpu", "resources", "worker", "index", "site", "batch", "x", "", "a b", '"', "1",
    "true", "null", "<<", "~", "{{x}}", "n_workers", "env_vars", "default", "requests", "PATH", "A=B", "é",
)  # fmt: skip
_LINES: Final = (
    "\t", "  \tx: 1", "- a", "? b", ": c", "<<: *x", "&x", "*y", "---", "...", "%TAG ! x", "#", "}", "{",
    "[", '"', "'", "x: &x [*x]",
)  # fmt: skip
_CHARACTERS: Final = (
    "\0", "\x01", "\x1b", "\ufeff", "\u2028", "\x85", "\u202e", "😀", "{{", "}}", "{%", '"', "'", ":", "#",
    "&", "*", "!", "|", ">", "%", "@", "`", "\ud800",
)  # fmt: skip


def nodes(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of a tree with its path."""
    yield path, tree
    below = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in below:
        yield from nodes(value, (*path, step))


def value(rnd: random.Random, depth: int = 0) -> Any:
    """Return any value."""
    kind = rnd.randrange(20)
    if kind < 5:
        return rnd.choice(
            [None, True, False, 0, -1, 1, 2**63, 10**30, 1.5, -0.0, float("inf"), float("nan"), 10**200]
        )
    if kind < 12:
        return rnd.choice(VALUES)
    if kind < 15 or depth > 3:
        return "".join(rnd.choice(string.printable) for _ in range(rnd.randrange(30)))
    if kind < 17:
        return [value(rnd, depth + 1) for _ in range(rnd.randrange(4))]
    return {rnd.choice(_KEYS): value(rnd, depth + 1) for _ in range(rnd.randrange(4))}


def other_values(rnd: random.Random, text: str) -> bytes:
    """Replace, remove, add or wrap values anywhere in the tree."""
    tree = [yaml.safe_load(text)]
    for _ in range(rnd.choice([1, 1, 1, 2, 3, 6])):
        _change(rnd, tree)
    style = rnd.choice([None, True, False])
    return yaml.safe_dump(
        tree[0], default_flow_style=style, allow_unicode=rnd.random() < 0.5, sort_keys=False
    ).encode("utf-8", "surrogatepass")


def _change(rnd: random.Random, tree: list[Any]) -> None:
    (*above, step), old = rnd.choice([*nodes(tree)][1:])
    parent: Any = tree
    for name in above:
        parent = parent[name]
    match rnd.randrange(5):
        case 0 if isinstance(parent, dict):
            del parent[step]
        case 1 if isinstance(old, dict):
            old[rnd.choice(_KEYS)] = value(rnd)
        case 2 if isinstance(old, list):
            old.extend(value(rnd) for _ in range(rnd.choice([1, 3, 200])))
        case 3:
            parent[step] = (
                [copy.deepcopy(old)] if rnd.random() < 0.5 else {rnd.choice(_KEYS): copy.deepcopy(old)}
            )
        case _:
            parent[step] = value(rnd)


def other_lines(rnd: random.Random, text: str) -> bytes:
    """Edit the text as a text: values, cuts, indentation, lines, characters."""
    lines = text.split("\n")
    for _ in range(rnd.choice([1, 1, 2, 4])):
        at = rnd.randrange(len(lines))
        line = lines[at]
        cut = rnd.randrange(len(line) + 1)
        lines[at : at + 1] = rnd.choice(
            [
                [re.sub(r":(\s+).*$", lambda _: f": {rnd.choice(VALUES)}", line)],
                [line[:cut]],
                [rnd.choice(_LINES), line],
                [" " * rnd.randrange(9) + line.lstrip()],
                [line.replace(" ", "\t", 1)],
                [line, line],
                [line[:cut] + rnd.choice(_CHARACTERS) + line[cut:]],
                [line[:cut] + line[cut + 1 :]],
            ]
        )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def other_bytes(rnd: random.Random, text: str) -> bytes:
    """Change, add and remove bytes."""
    data = bytearray(text.encode())
    for _ in range(rnd.choice([1, 2, 5, 20])):
        at = rnd.randrange(len(data))
        data[at : at + rnd.randrange(9)] = rnd.choice([b"", rnd.randbytes(1), rnd.randbytes(3)])
        data = data or bytearray(b"x")
    return bytes(data)


def other_encoding(rnd: random.Random, text: str) -> bytes:
    """Write the text as another program would."""
    return rnd.choice(
        [
            text.encode("utf-16"),
            text.encode("utf-16-le"),
            text.encode("utf-32"),
            text.encode("utf-8-sig"),
            text.replace("\n", "\r\n").encode(),
            text.replace("\n", "\r").encode(),
            text.encode() + b"\0" * 9,
            text.replace("  ", "\t").encode(),
            text.encode("latin-1", "replace") + b"\xff\xfe",
        ]
    )


def other_size(rnd: random.Random, text: str) -> bytes:
    """Add what is deep, long, many or unfolds."""
    many = rnd.choice([10, 100, 1000, 5000])
    aliases = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 9))
    deep = "".join("  " * at + "a:\n" for at in range(1, min(many, 1000)))
    return rnd.choice(
        [
            f"params: {'[' * many}{']' * many}\n{text}",
            f"params: {'{a: ' * many}1{'}' * many}\n{text}",
            f"a0: &a0 [x, x, x, x]\n{aliases}{text}",
            f"x: &x {{<<: *x, y: *x}}\n{text}",
            f"name: {'a' * rnd.choice([300, 10**5, 10**6])}\n{text}",
            f"#{'x' * 2 * 10**6}\n{text}",
            text + "\n" * 10**5,
            text + "".join(f"k{at}: {at}\n" for at in range(many)),
            f'params: "{chr(92)}x41{"a" * many}"\n{text}',
            f"params:\n{deep}{text}",
            f"a: {'- ' * many}x\n{text}",
            f"{'? ' * many}x\n{text}",
            f"{'!' * many} x\n{text}",
        ]
    ).encode()


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(other_values,) * 5, *(other_lines,) * 4, *(other_bytes,) * 2, other_encoding, other_size,
)  # fmt: skip


def typo(rnd: random.Random, text: str, own_names: frozenset[str]) -> tuple[bytes, str] | None:
    """Return the file with a slip in a key that hpcdist reads, and the slip; None where it makes another key.

    ``own_names`` are the keys below which users write names of their own.
    """
    tree = yaml.safe_load(text)
    paths = [path for path, _ in nodes(tree) if path and _is_read(path, own_names)]
    *above, key = rnd.choice(paths)
    parent: Any = tree
    for step in above:
        parent = parent[step]
    at = rnd.randrange(len(str(key)))
    old = str(key)
    slips = [
        old[:at] + old[at + 1 :],
        old[:at] + old[at] + old[at:],
        old[:at] + "q" + old[at + 1 :],
        old.upper(),
        f"{old} ",
    ]
    new = rnd.choice(slips)
    if new in parent or new in {old, "request", "limit"}:  # keys of an older Polyaxon
        return None
    parent[new] = parent.pop(key)
    return yaml.safe_dump(tree, sort_keys=False).encode(), new


def _is_read(path: Path, own_names: frozenset[str]) -> bool:
    is_word = isinstance(path[-1], str) and re.fullmatch("[a-z_]{4,}", path[-1])
    return bool(is_word) and not own_names & {str(step) for step in path[:-1]}
