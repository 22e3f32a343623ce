"""The replicas of a Kubeflow job, and their conversion to one native experiment.

Where kinds have different commands, one command selects by ``$HPCDIST_ROLE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.errors import Key, Path, did_you_mean
from hpcdist.experiment.program import by_role
from hpcdist.importers.job import ForeignJob, Sourced, take_image
from hpcdist.importers.kubeflow.pod import Pod, place_of_variable, pod, restart
from hpcdist.importers.launch_lines import refuse_launch_per_replica
from hpcdist.importers.reading import Reading
from hpcdist.words import in_double_quotes, join_commands, quote

_OF_PODS: Final = re.compile(
    r"(?:NCCL|GLOO|TP|BYTEPS|DMLC)_(?:SOCKET_IFNAME|INTERFACE)|OMPI_MCA_btl_tcp_if_include|UCX_NET_DEVICES"
)
"""Variables that name an interface of the network of pods, such as eth0."""
_OF_THE_OPERATOR: Final = re.compile(
    r"OMPI_MCA_(?:plm_rsh_\w+|orte_default_hostfile|orte_keep_fqdn_hostnames|orte_set_default_slots)"
    r"|I_MPI_(?:HYDRA_(?:HOST_FILE|BOOTSTRAP\w*)|PERHOST)|HYDRA_(?:HOST_FILE|LAUNCHER\w*)"
)
"""Variables that configure how mpirun reaches the pods (mpi-operator, ``mpi_job_controller.go``)."""
HOSTFILE: Final = "/etc/mpi/hostfile"
"""Where the mpi-operator writes the hosts of the job."""
_ROLES: Final = "launcher|worker|master|chief|ps|evaluator|scheduler|server"


class Role(NamedTuple):
    """One kind of replica: ``number`` of them run ``pod``; ``path`` is its section of the file."""

    path: Path
    number: int
    pod: Pod


class Part(NamedTuple):
    """What the replicas of one native role run; ``before`` are shell lines that come first.

    ``command``: the command, or the arguments where the image's entrypoint is the program.
    """

    role: str
    pod: Pod
    command: str
    before: tuple[str, ...] = ()


def roles(
    read: Reading,
    path: Path,
    names: Mapping[str, str],
    main: str,
    operator_variables: frozenset[str] = frozenset(),
) -> dict[str, Role]:
    """Take the kinds of replicas: keys of a section, or items of a list (v1alpha1)."""
    found: dict[str, Role] = {}
    for where, kind in _kinds(read, path):
        name = names.get(kind.lower())
        if name is None or name in found:
            why, hint = f"replica type {kind!r} is given twice", "keep one"
            if name is None:
                why = f"unknown replica type {kind!r}"
                hint = did_you_mean(kind.lower(), names)
            read.refuse(*where, why=why, hint=hint)
        elif role := _role(read, where, main, operator_variables):
            found[name] = role
    return found


def _kinds(read: Reading, path: Path) -> list[tuple[Path, str]]:
    """Return the path of each kind of replica, and what it is called."""
    kinds: list[tuple[Path, str]] = [((*path, key), key) for key in read.keys(*path)]
    for index, _ in read.items(*path):
        where = (*path, index)
        types = [key for key in read.keys(*where) if re.fullmatch(r"(?:tf|mx)?_?replica_?type", key.lower())]
        for key in ("tfPort", "tf_port", "PsRootPort", "masterPort", "IsDefaultPS"):
            read.ignore(*where, key, why="every task gets its port and its servers from the job")
        kinds.append((where, str(read.word(*where, types[0])) if types else "MASTER"))
    return kinds


def _role(read: Reading, path: Path, main: str, operator_variables: frozenset[str]) -> Role | None:
    if not isinstance(read.peek(*path), Mapping):
        read.refuse(*path, why="expected keys and values", hint="write `replicas: 1` and a `template`")
        return None
    count = read.whole(*path, "replicas")
    read.ignore(*path, "imagePullPolicy", why="the site's container runtime gets images")
    restart(read, *path)
    found = pod(read, *path, "template", main=main, operator_variables=operator_variables)
    return Role(path, 1 if count is None else count, found) if found else None


def images_of(read: Reading, members: Iterable[Pod]) -> list[Sourced]:
    """Return the images of pods."""
    return [
        Sourced(literal(read, member.image, member.path), (*member.path, "image"))
        for member in members
        if member.image
    ]


def put_program(read: Reading, job: ForeignJob, parts: Sequence[Part]) -> None:
    """Take the command of all replicas, and their variables."""
    if any(part.pod.command is None for part in parts):
        _put_entrypoint(read, job, parts)
        return
    for where, command in {part.pod.command_path: part.command for part in parts}.items():
        refuse_pod_names(read, command, where)
    shared = {
        name: value
        for name, value in parts[0].pod.env.items()
        if all(part.pod.env.get(name) == value for part in parts)
    }
    texts = {part.role: _text(read, part, shared) for part in parts}
    giver = next((part.pod for part in parts if read.peek(*part.pod.path, "env")), parts[0].pod)
    first = put_variables(read, job, shared, *giver.path, "env")
    command = by_role(texts) if len(set(texts.values())) > 1 else next(iter(texts.values()))
    put_command(read, job, command, parts[0].pod.command_path, first)


def _put_entrypoint(read: Reading, job: ForeignJob, parts: Sequence[Part]) -> None:
    """Put the image's entrypoint as the program, with the arguments of each role."""
    first = parts[0].pod
    for part in parts:
        refuse_pod_names(read, part.command, part.pod.command_path)
        if (part.pod.folder, part.pod.env) != (first.folder, first.env):
            why = "all replicas start the image's entrypoint with the same variables in the same directory"
            read.refuse(*part.pod.path, why=why, hint="write the program of each as its `command`")
    lines = [*put_variables(read, job, first.env, *first.path, "env"), *parts[0].before]
    if lines:
        why = f"only a command can do this: {lines[0]}"
        read.refuse(*first.path, Key("image"), why=why, hint="write the image's program as `command`")
    job.set("run.entrypoint", "image", *first.path, "image")
    texts = {part.role: literal(read, part.command, part.pod.command_path) for part in parts}
    if len(set(texts.values())) > 1:
        job.set("run.args", texts, *first.command_path)
    elif first.args:
        job.set("run.args", texts[parts[0].role], *first.command_path)
    if first.folder:
        job.set("run.workdir", literal(read, first.folder, first.path), *first.path, "workingDir")


def put_command(
    read: Reading, job: ForeignJob, command: str, source: Path, first: Sequence[str] = ()
) -> None:
    """Take the command, with its source path, after the lines ``first``."""
    job.command = Sourced(literal(read, "\n".join([*first, command]), source), source)


def _text(read: Reading, part: Part, shared: Mapping[str, str]) -> str:
    own = {name: value for name, value in part.pod.env.items() if name not in shared}
    exports = [_export(read, name, value, (*part.pod.path, "env")) for name, value in own.items()]
    return in_folder(part.pod.folder, "\n".join([*exports, *part.before, part.command]))


def in_folder(folder: str, command: str) -> str:
    """Return the command with a change to that directory."""
    return join_commands([f"cd {quote(folder)}", command]) if folder else command


def put_variables(
    read: Reading, job: ForeignJob, variables: Mapping[str, str], *path: str | int
) -> list[str]:
    """Take the variables, except those for pods; return lines that set variables for the program only.

    With such a PATH the site's launcher might not be found; and the hostfile is known only in the job.
    """
    lines = []
    for name, value in variables.items():
        if why := _pod_only_reason(name, value):
            read.warn(*path, why=f"{name}={value} has no effect: {why}")
        elif name == "PATH" or _expanded_in_the_job(name).search(value):
            lines.append(_export(read, name, value, path))
        else:
            refuse_pod_names(read, value, place_of_variable(read, path, name))
            job.env[name] = Sourced(literal(read, value, path), path)
    return lines


def _pod_only_reason(name: str, value: str) -> str:
    if _OF_PODS.fullmatch(name) and re.match(r"=?eth\d", value):
        return "it names an interface of pods, and the site file names the site's"
    return "the batch system starts the processes" if _OF_THE_OPERATOR.fullmatch(name) else ""


def _expanded_in_the_job(name: str) -> re.Pattern[str]:
    """Return the pattern of what only the job knows: the variable itself (``$PATH:/opt/bin``), and ours."""
    return re.compile(rf"(\$\{{{name}\}}|\${name}(?!\w))|\$(HPCDIST_[A-Z]+)|{HOSTFILE}")


def _export(read: Reading, name: str, value: str, path: Path) -> str:
    where = place_of_variable(read, path, name)
    refuse_pod_names(read, value, where)
    text, end = "", 0
    for match in _expanded_in_the_job(name).finditer(value):
        if match[1]:
            why = f"{name} in it is expanded in the job; Kubernetes would pass {value!r} on unchanged"
            read.warn(*where, why=why)
        expanded = name if match[1] else match[2] or "HPCDIST_HOSTFILE"
        text += f"{in_double_quotes(value[end : match.start()])}${{{expanded}}}"
        end = match.end()
    if not text:
        return f"export {name}={quote(value)}"
    return f'export {name}="{text}{in_double_quotes(value[end:])}"'


def refuse_pod_names(read: Reading, text: str, path: Path) -> None:
    """Refuse a text that names a pod of the job, which no node has."""
    name = str(read.peek("metadata", "name") or read.peek("metadata", "generateName") or "").rstrip("-")
    number = r"(?:-\d[-.\w]*|-\w{5}\b|\.[-.\w]+)"
    one = rf"(?:(?<=//)|(?<![\w/.-])){re.escape(name)}-(?:{_ROLES}){number}"
    if name and (match := re.search(one, text)):
        hint = "the first node is `$HPCDIST_HEAD_ADDRESS` in the command, and all are in `$HPCDIST_HOSTFILE`"
        read.refuse(*path, why=f"{match[0]} is the name of a pod, and a batch job has none", hint=hint)


def literal(read: Reading, text: str, path: Path) -> str:
    """Return a text with its braces escaped for the native form."""
    if "{{" not in text and "{%" not in text:
        return text
    if "endraw" in text:
        read.refuse(
            *path, why="a text with both {{ and endraw cannot be converted", hint="write it in a file"
        )
        return ""
    return f"{{% raw %}}{text}{{% endraw %}}"


def refuse_missing_command(read: Reading, role: Role) -> None:
    """Refuse a container without a command."""
    hint = "write it as `command: [python, ...]`"
    where = Key("image") if role.pod.image else Key("name")
    if read.peek(*role.pod.path, "args"):
        where = Key("args")
    why = "the program is in the image, and this file does not name it"
    read.refuse(*role.pod.path, where, why=why, hint=hint)


# --- What the jobs of Kubeflow's training operator share: their kinds of replicas and the commands of these
#
# The names of the earlier operators, one for each kind, are accepted too.

_ORDER: Final = ("master", "worker", "ps", "evaluator")
_OF_JOBS: Final = dict.fromkeys(
    ("selector", "manualSelector", "completionMode", "podFailurePolicy", "podReplacementPolicy",
     "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"), "there are no pods",
)  # fmt: skip
_ADVICE: Final = (
    "write an MPIJob with `slotsPerWorker`, whose Launcher runs {program} for all of them; or "
    "`framework: {framework}`, and the program alone"
)


def one_pod(read: Reading, job: ForeignJob) -> None:
    """Read a Job of Kubernetes that is one pod."""
    for key in ("parallelism", "completions"):
        if (read.whole("spec", key) or 1) > 1:
            why = "a trial is one job, and its pods do not know each other"
            read.refuse("spec", key, why=why, hint="write 1, or a PyTorchJob, MPIJob or TFJob")
    read.ignore_all(_OF_JOBS, "spec")
    if found := pod(read, "spec", "template"):
        role = {"master": Role(("spec", "template"), 1, found)}
        put_replicas(read, job, role, parts_of(read, role))


def replicas_of(
    read: Reading,
    specs: Sequence[str],
    names: Mapping[str, str],
    main: str,
    operator_variables: frozenset[str],
) -> dict[str, Role]:
    """Return the kinds of replicas with a number above 0; ``specs`` are the keys that may hold them."""
    keys = [key for key in specs if read.peek("spec", key) is not None]
    if not keys:
        hint = f"write `{specs[0]}: {{{next(iter(names)).title()}: ...}}`"
        read.refuse("spec", why="the job has no replicas", hint=hint)
        return {}
    found = roles(read, ("spec", keys[0]), names, main, operator_variables)
    present = {name: role for name, role in found.items() if role.number}
    if found and not present:
        read.refuse("spec", keys[0], why="all replica counts are 0", hint="write `replicas: 1` or more")
    return present


def only_one(read: Reading, role: Role | None, name: str) -> None:
    """Refuse more than one replica of a kind."""
    if role and role.number > 1:
        why = f"there can be one {name}, not {role.number}"
        read.refuse(*role.path, "replicas", why=why, hint="write 1")


def worker_first(read: Reading, found: dict[str, Role], what: str) -> dict[str, Role]:
    """Make the first worker the master; unchanged, with an error, where that is not possible.

    ``what`` is what changes for the program, "" for nothing.
    """
    worker = found.get("worker")
    if worker is None:
        why = "there is neither a chief nor a worker"
        read.refuse("spec", why=why, hint="write one of them")
        return found
    if what and (len(found) > 1 or worker.number > 1):
        read.warn(*worker.path, why=f"the first worker is the master: {what}")
    others = {name: role for name, role in found.items() if name != "worker"}
    return with_master(worker) | others


def with_master(worker: Role) -> dict[str, Role]:
    """Return the first worker as the master, and the rest."""
    rest = {"worker": worker._replace(number=worker.number - 1)} if worker.number > 1 else {}
    return {"master": worker._replace(number=1), **rest}


def parts_of(read: Reading, found: Mapping[str, Role]) -> list[Part]:
    """Return what each native role runs; none, with an error, if only some name it, or one is not run."""
    silent = {role.path: role for role in found.values() if role.pod.command is None}
    if any(role.pod.command is not None or not role.pod.image for role in found.values()):
        for role in silent.values():
            refuse_missing_command(read, role)
        if silent:
            return []
    pods = {name: found[name].pod for name in _ORDER if name in found}
    parts = [Part(name, pod, pod.args if pod.command is None else pod.command) for name, pod in pods.items()]
    return parts if _check_launches(read, parts, sum(role.number for role in found.values())) else []


def _check_launches(read: Reading, parts: Sequence[Part], total: int) -> bool:
    """Refuse a launch that hpcdist runs once, where Kubeflow runs it in every pod and there are several."""
    commands = {part.pod.command_path: part.command for part in parts}
    refused = [
        refuse_launch_per_replica(read, text, total, where, advice=_ADVICE)
        for where, text in commands.items()
    ]
    return not any(refused)


def put_replicas(read: Reading, job: ForeignJob, found: Mapping[str, Role], parts: list[Part]) -> None:
    """Take the replicas of a job with a master."""
    for name, role in found.items():
        source = role.path if name == "evaluator" else (*role.path, "replicas")
        job.roles[name] = role.pod.replicas(role.number, *source)
    pods = {role.path: role.pod for role in found.values()}
    take_image(job, read, images_of(read, pods.values()))
    if parts:
        put_program(read, job, parts)
