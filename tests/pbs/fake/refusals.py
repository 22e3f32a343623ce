"""What qsub refuses, and with which words and exit code; with Python's own library alone.

Seen on an OpenPBS 23.06 or read in openpbs/openpbs: ``qsub.c`` (``process_opts``, ``get_script``,
``handle_attribute_errors``), ``ecl_verify_values.c``, ``ck_job_name.c``, ``chk_Jrange.c``, ``parse_at.c``,
``parse_depend.c``, ``parse_equal.c``, ``set_resource.c``, ``attr_resc_func.c``, ``attr_fn_time.c``. A wrong
option in a script ends qsub with 1, on its command line with 2; a wrong value with 2, or with a number of
``pbs_error.h`` modulo 256.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

SERVER = "fakepbs"
UNKNOWN_QUEUE, UNKNOWN_RESOURCE, BAD_VALUE, REJECTED, NO_ATTRIBUTE, TOO_MANY = (
    number % 256 for number in (15018, 15035, 15014, 15136, 15002, 15107)
)
NOT_IN_SELECT, NOT_BESIDE, NODES_BESIDE, NO_SELECT, TWICE = (
    number % 256 for number in (15108, 15109, 15110, 15111, 15116)
)
NUMBERS = frozenset(("ncpus", "mpiprocs", "ompthreads", "ngpus"))
SIZES = frozenset(("mem", "vmem"))
TIMES = frozenset(("walltime", "cput"))
OF_CHUNK = NUMBERS | SIZES | {"host", "vnode", "arch", "aoe"}
OF_JOB = TIMES | {"place", "select", "nodes", "software"}
WITH_VALUE = "ACMNPRSWJacejklmopqruv"
BARE = "IVXzfh"
LONGEST_LINE = 4094

NAME = r"[!-\"$-+\--?A-~]+"
DATE = r"(?:(?:(?:\d\d)?\d\d)?\d\d)?(?:\d\d)?\d{4}(?:\.\d\d)?"
RANGE = r"(\d+)-(\d+)(?::([1-9]\d*))?(?:%(\d+))?"
JOB = r"\d+(?:\[\])?(?:\.[A-Za-z0-9.-]+)?(?:@[A-Za-z0-9.-]+)?"
DEPENDENCY = (
    rf"(?:on|synccount):\d+|(?:after|before)(?:ok|notok|any)?(?::{JOB})+|(?:syncwith|runone)(?::{JOB})+"
)


class Refused(Exception):  # noqa: N818 - its words are qsub's
    """What qsub says, and its exit code."""

    def __init__(self, said: str, code: int = 1) -> None:
        super().__init__(said)
        self.code = code


def illegal(letter: str) -> Refused:
    """Return what qsub says of a wrong value."""
    return Refused(f"qsub: illegal -{letter} value\nusage: qsub [-a date_time] ...", 2)


# --- the form of options: process_opts --------------------------------------------------------------------


def options_of(argv: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return options with their values, and the words behind them."""
    found: list[tuple[str, str]] = []
    words = list(argv)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        letter = word[1:2]
        if letter and letter in WITH_VALUE:
            if not word[2:] and not words:
                raise Refused(f"qsub: option requires an argument -- '{letter}'\nusage: qsub ...", 2)
            found.append((letter, word[2:] or words.pop(0)))
            read_form(*found[-1])
        elif letter and letter in BARE and not word[2:]:
            found.append((letter, ""))
        else:
            raise Refused(f"qsub: invalid option -- '{letter}'\nusage: qsub ...", 2)
    return found, words


FORMS = {"a": DATE, "r": "[yn]", "c": r"(?!u\Z)(?s:.*)"}


def read_form(letter: str, value: str) -> None:
    if letter in FORMS and not re.fullmatch(FORMS[letter], value):
        raise illegal(letter)
    if letter == "l":
        resources(value)
    if letter == "W":
        for name, text in attributes(value):
            if name == "block" and text.lower() not in ("true", "false"):
                raise illegal("W")


def directives(text: str) -> Iterator[tuple[str, str]]:
    """Yield the options before the first command, one line after the other."""
    for line in lines(text):
        if line.lstrip().startswith("#PBS"):
            try:
                found, rest = options_of(shlex.split(line.lstrip()[4:]))
            except Refused as refused:
                raise Refused(f"{refused}\nqsub: directive error: {line[5:]}") from None
            except ValueError:
                raise Refused("qsub: unmatched quote") from None
            if rest:
                raise Refused(f"qsub: directive error: {line[5:]}")
            yield from found
        elif line.strip() and not line.startswith(":") and not line.lstrip().startswith("#"):
            return


def lines(text: str) -> Iterator[str]:
    r"""Yield what fgets reads: no line is longer than its buffer; a directive's ``\`` joins the next."""
    pieces = (
        line[start : start + LONGEST_LINE]
        for line in text.replace("\\\n#PBS", "\\\n #PBS").splitlines()
        for start in range(0, max(1, len(line)), LONGEST_LINE)
    )
    for piece in pieces:
        line = piece
        while line.lstrip().startswith("#PBS") and line.endswith("\\"):
            line = line[:-1] + next(pieces, "")
        yield line


def resources(value: str) -> list[tuple[str, str]]:
    """Return names and values of ``-l``; a blank or a comma ends a value that is not in quotes."""
    found: list[tuple[str, str]] = []
    rest = value
    while rest or not found:
        match = re.match(r"\s*([^=,\s]+)(?:=\s*((?:'[^']*'|\"[^\"]*\"|[^\s,'\"])*))?(,(?=.)|\s+|\Z)", rest)
        if not match:
            raise illegal("l")
        found.append((match[1], re.sub("['\"]", "", match[2] or "")))
        rest = rest[match.end() :]
    return found


def attributes(value: str) -> list[tuple[str, str]]:
    """Return names and values of ``-W``."""
    parts = [part.partition("=") for part in re.split(r",(?=[^,=]+=)", value.strip())]
    if value.rstrip().endswith(",") or not all(
        name and equals and "=" not in text for name, equals, text in parts
    ):
        raise illegal("W")
    return [(name.strip(), text) for name, _, text in parts]


# --- the values: ecl_verify_values.c ----------------------------------------------------------------------


def is_list(text: str, *, paths: bool = False, once: bool = False) -> bool:
    """Whether these are ``name[@host]``; ``once``: no host twice, nor several without one."""
    items = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(rf"{NAME}(?:@{NAME})?", item) for item in items):
        return False
    hosts = [item.partition("@")[2] for item in items]
    return not (paths and any(item[0] != "/" for item in items)) and not (
        once and len(set(hosts)) < len(hosts)
    )


def is_number(text: str, least: int, most: int = 10**18) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None and least <= int(text) <= most


def is_kept(text: str) -> bool:
    kept, left = bool(set(text) & set("oe")), "n" in text
    return bool(text) and set(text) <= set("oedn") and not (kept and left) and (kept or left)


def is_range(text: str) -> bool:
    match = re.fullmatch(RANGE, text)
    return match is not None and int(match[1]) < int(match[2])


VALUES: Mapping[str, Callable[[str], bool]] = {
    "J": is_range,
    "M": is_list,
    "N": lambda text: re.fullmatch(r"[A-Za-z0-9_+.-]+", text) is not None,
    "R": lambda text: re.fullmatch("[oe]+", text) is not None,
    "S": lambda text: is_list(text, paths=True, once=True),
    "c": lambda text: re.fullmatch(r"[nscw]|[cw]=\d+", text) is not None,
    "e": bool,
    "j": lambda text: text in ("oe", "eo", "n"),
    "k": is_kept,
    "m": lambda text: re.fullmatch("n|[abe]+", text) is not None,
    "o": bool,
    "p": lambda text: is_number(text, -1024, 1023),
    "u": lambda text: is_list(text, once=True),
}

ATTRIBUTES: Mapping[str, Callable[[str], bool]] = {
    "block": bool,
    "depend": lambda text: all(re.fullmatch(DEPENDENCY, part.strip()) for part in text.split(",")),
    "group_list": lambda text: is_list(text, once=True),
    "release_nodes_on_stageout": lambda text: text.lower() in ("true", "false"),
    "run_count": lambda text: is_number(text, 0),
    "sandbox": lambda text: text.upper() in ("HOME", "O_WORKDIR", "PRIVATE"),
    "stagein": bool,
    "stageout": bool,
    "umask": lambda text: is_number(text, 0),
}


def check_value(letter: str, value: str) -> None:
    """Refuse what the library behind qsub refuses before it asks the server."""
    if letter == "N" and len(value) > 230:
        raise Refused("qsub: Job name is too long", 2)
    if letter in VALUES and not VALUES[letter](value):
        raise illegal(letter)
    if letter == "q" and not re.fullmatch(rf"{NAME}(?:@{NAME})?|@{NAME}", value):
        raise Refused(f"qsub: illegally formed destination: {value}", 2)
    for name, text in attributes(value) if letter == "W" else ():
        if name not in ATTRIBUTES:
            raise Refused("qsub: Error (15002) submitting job", NO_ATTRIBUTE)
        if name == "depend" and re.search(r"\[\d", text):
            raise Refused(f"cannot have dependancy on subjob or range\n{illegal('W')}", 2)
        if not ATTRIBUTES[name](text) or (name == "depend" and not resolves(text)):
            raise illegal("W")


def resolves(depend: str) -> bool:
    """Whether all servers that these ids name are known: that of the tests alone is."""
    jobs = re.findall(r":\d+(?:\[\])?(?:\.([A-Za-z0-9.-]+))?", depend)
    return all(server in ("", SERVER) for server in jobs)


def check_resources(found: Mapping[str, str], own: frozenset[str], *, in_chunk: bool = False) -> None:
    """Refuse unknown resources and values of another type; ``own`` are those of the machine."""
    where = "select" if in_chunk else "Resource_List"
    for name, text in found.items():
        if name not in OF_CHUNK | OF_JOB | own:
            said = f": {name}" if in_chunk else f" Resource_List.{name}"
            raise Refused(f"qsub: Unknown resource{said}", UNKNOWN_RESOURCE)
        if in_chunk and name in OF_JOB:
            raise Refused(f'qsub: Resource invalid in "select" specification: {name}', NOT_IN_SELECT)
        is_sound = (
            is_number(text, 0) if name in NUMBERS
            else re.fullmatch(r"\d+(?:[kmgtp]?[bw]?)?", text, re.IGNORECASE) if name in SIZES
            else re.fullmatch(r"\d+(?::\d+){0,2}(?:\.\d*)?", text) if name in TIMES
            else text or name == "wd"
        )  # fmt: skip
        if not is_sound and not (name in own and not in_chunk):
            raise Refused(f"qsub: Illegal attribute or resource value {where}.{name}", BAD_VALUE)
    if not in_chunk:
        check_select(found, own)


def check_select(found: Mapping[str, str], own: frozenset[str]) -> None:
    if "select" not in found:
        if "place" in found:
            raise Refused('qsub: Cannot have "place" without "select"', NO_SELECT)
        return
    if "nodes" in found:
        raise Refused("qsub: Cannot be used with select or place: nodes", NODES_BESIDE)
    for name in OF_CHUNK & set(found):
        beside = '"-lresource=" cannot be used with "select" or "place", resource is'
        raise Refused(f"qsub: {beside}: {name}", NOT_BESIDE)
    for _, words in kinds(found["select"]):
        names = [name for name, _ in words]
        for name in names:
            if names.count(name) > 1:
                twice = "duplicated resource within a section of a select specification, resource is"
                raise Refused(f"qsub: {twice}: {name}", TWICE)
        check_resources(dict(words), own, in_chunk=True)


def kinds(select: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield how often each chunk is asked for, and its resources: decode_select, parse_chunk."""
    for kind in select.split("+"):
        count, *words = kind.split(":")
        if not count.isdigit():
            count, words = "1", [count, *words]
        if not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*=[ -~]+", word) for word in words):
            raise Refused("qsub: Illegal attribute or resource value Resource_List.select", BAD_VALUE)
        yield int(count), [(word.partition("=")[0], word.partition("=")[2]) for word in words]


def check_array(text: str, rerun: str) -> None:
    match = re.fullmatch(RANGE, text)
    if match and rerun == "n":
        raise Refused("qsub:  cannot submit non-rerunable Array Job")
    if match and len(range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))) > 10_000:
        raise Refused("qsub: Array job exceeds server or queue size limit", TOO_MANY)
