"""Applications of TorchX (``AppDef``) with one role: each replica is a node that runs its command.

They are written by Python (``json.dump(dataclasses.asdict(app), file)``), or printed by ``torchx run
--dryrun``. Fields and macros: https://docs.pytorch.org/torchx/latest/specs.html.
"""

from __future__ import annotations

import io
import json
import re
import tokenize
from ast import literal_eval
from typing import Final

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map
from hpcdist.base.words import in_double_quotes, quote
from hpcdist.importers import Form, Imported, node_job
from hpcdist.importers.container import escape_templates, ignore_set_keys, script_of
from hpcdist.importers.job import Role, Sourced
from hpcdist.importers.reading import Reading

_MACROS: Final = {
    "app_id": "$HPCDIST_JOB_ID",
    "replica_id": "$HPCDIST_NODE",
    "rank0_env": "TORCHX_RANK0_HOST",
    **dict.fromkeys(("img_root", "base_img_root"), ""),
}
_MACRO: Final = re.compile(rf"\$\{{({'|'.join(_MACROS)})\}}|\$\$")
_QUOTED: Final = re.compile(r"'(\$\{(?:app_id|replica_id)\})'")
_NAMES: Final = {"None": "null", "True": "true", "False": "false"}
_IGNORED: Final = {
    "port_map": "the nodes of a job reach each other on all ports",
    "retry_policy": "a retry restarts the whole job",
    "mounts": "nothing is mounted; write the path of the site's own file system in the command",
    **dict.fromkeys(("workspace", "base_image", "overrides", "metadata"), "it is for TorchX's schedulers"),
}
_VARIABLES: Final = {
    "TORCHX_RANK0_HOST": "$HPCDIST_HEAD_ADDRESS",
    "TORCHX_JOB_ID": "$HPCDIST_JOB_ID",
    "TORCHX_REPLICA_IDX": "$HPCDIST_NODE",
}


class TorchX(Form):
    """The importer of applications."""

    def as_yaml(self, text: str) -> str | None:
        """Return the application in the output of ``torchx run --dryrun``, which is written as Python."""
        return _printed(text)

    def recognises(self, data: Map) -> bool:
        """Tell by the list of roles, each with its program."""
        roles = data.get("roles")
        roles = roles if isinstance(roles, list) else []
        return any(isinstance(role, Map) and "entrypoint" in role for role in roles)

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when it has several roles, or no command.
        """
        if (number := len(data["roles"])) > 1:
            hint = "write an experiment with `replicas` for them"
            Reading(data).fail("roles", 1, why=f"the {number} roles run different programs", hint=hint)
        role = ("roles", 0)
        read, job = node_job.begin(data, {"metadata": _IGNORED["metadata"]}, {})
        ignore_set_keys(read, _IGNORED, *role)
        read.get(*role, "name")
        if (image := read.word(*role, "image")) and not image.startswith(("/", ".")):
            job.image = Sourced(escape_templates(image), (*role, "image"))
        for key in read.keys(*role, "env"):
            node_job.take_variable(
                read, job, key, _filled(read.word(*role, "env", key) or ""), *role, "env", key
            )
        if retries := read.whole(*role, "max_retries"):
            job.set("environment.max_restarts", retries, *role, "max_retries")
        nodes = read.whole(*role, "num_replicas", least=1) or 1
        if read.get(*role, "min_replicas") not in (None, nodes):
            read.warn(*role, "min_replicas", why=f"the job has {nodes} replicas from start to end")
        needs = _resources(read, *role, "resource")
        found = (nodes, (*role, "num_replicas"), needs, _command(read, role), (*role, "args"), _VARIABLES)
        node_job.put(read, job, node_job.NodeJob("TorchX", *found))
        return node_job.finish(read, job)


IMPORTER: Final = TorchX()


def _resources(read: Reading, *path: str | int) -> Role:
    ignore_set_keys(
        read, dict.fromkeys(("capabilities", "devices", "tags"), "the site has its own machines"), *path
    )
    found = {"gpu": read.get(*path, "gpu"), "cpu": read.get(*path, "cpu"), "memory": read.get(*path, "memMB")}
    amounts = {name: number for name, number in found.items() if isinstance(number, (int, float))}
    return node_job.role_of("", amounts, path, (*path, "gpu"))


def _filled(text: str) -> str:
    """Return a script with TorchX's macros as variables of the job: ``$$`` is ``$``."""
    text = _QUOTED.sub(r'"\1"', text)
    return _MACRO.sub(lambda match: _MACROS[match[1]] if match[1] else "$", text)


def _command(read: Reading, role: Path) -> str:
    """Return the entrypoint and its arguments; the script itself of ``bash -c``."""
    words = [read.word(*role, "entrypoint") or ""]
    read.get(*role, "args")
    words += [read.word(*role, "args", at) or "" for at, _ in read.items(*role, "args")]
    if script := script_of(words):
        return _filled(script)
    return "" if words[0] in ("", "<MISSING>") else " ".join(map(_word, words))


def _word(word: str) -> str:
    """Return a word for the shell, which expands the macros in it."""
    parts, end = [], 0
    for match in _MACRO.finditer(word):
        value = _MACROS[match[1]] if match[1] else in_double_quotes("$")
        parts += [in_double_quotes(word[end : match.start()]), value]
        end = match.end()
    return f'"{"".join(parts)}{in_double_quotes(word[end:])}"' if parts else quote(word)


def _printed(text: str) -> str | None:
    """Return an application that ``torchx run --dryrun`` prints as JSON, with its lines; None for others."""
    before, found, rest = text.partition("=== APPLICATION ===")
    body = re.sub(r"<\w+\.\w+: ('\w+')>", r"\1", (rest if found else text).partition("=== SCHEDULER")[0])
    if not re.search(r"\A\s*\{[^\0]*'entrypoint':", body):
        return None
    words, strings, lines = [], list[str](), before.count("\n") if found else 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(body).readline):
            if token.type in (tokenize.NL, tokenize.NEWLINE):
                lines += 1
                continue
            if not strings or token.type != tokenize.STRING:
                words += [json.dumps("".join(strings))] * bool(strings) + ["\n" * lines]
                strings, lines = [], 0
            if token.type == tokenize.STRING:
                strings.append(literal_eval(token.string))
            else:
                words.append(_NAMES.get(token.string, token.string))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return " ".join(words)
