"""A pod template of a Kubeflow job: its main container, and remarks about the rest.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import Path
from hpcdist.importers import container
from hpcdist.importers.job import Role, product_type
from hpcdist.importers.reading import Reading

# --- What a Kubernetes container runs, ``command`` and ``args``, as shell text
#
# A reference ``$(NAME)`` in it or in a variable is Kubernetes' own, expanded before any shell reads it.

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


def words_of(read: Reading, path: Path) -> list[str] | str | None:
    """Return the words of ``command`` and ``args``, one text if the command is one."""
    command, args = (container.words(read, *path, key) for key in ("command", "args"))
    if isinstance(command, str) and command.strip():
        return command if not args else [*_split(command), *_listed(args)]
    words = _listed(command) if isinstance(command, list) and any(command) else []
    rest = _listed(args)
    if not words and rest:
        if not container.is_program(rest[0]):
            return None
        why = "the image's own entrypoint is not started: `args` is used as the whole command"
        read.warn(*path, "args", why=why, hint="write them as `command`")
    return [*words, *rest] or None


def shell_text(command: list[str] | str, env: Mapping[str, str], elsewhere: frozenset[str]) -> str:
    """Return the command as shell text; a script of ``sh -c`` is returned itself."""
    names = frozenset(elsewhere - env.keys())
    if isinstance(command, str):
        return filled_in(command, env, names)
    script = container.script_of(command)
    if script is not None:
        return filled_in(script, env, names)
    return quoted_words(command, env, names)


def quoted_words(words: Sequence[str], env: Mapping[str, str], names: frozenset[str]) -> str:
    """Return the words for a shell, which expands the references to ``names``."""
    return " ".join(_quoted(word, env, names) for word in words)


def filled_in(text: str, env: Mapping[str, str], names: frozenset[str] | tuple[str, ...]) -> str:
    """Expand the references in a text; references to ``names`` become shell variables."""

    def one(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return env[name] if name in env else f"${{{name}}}" if name in names else match[0]

    return _REFERENCE.sub(one, text)


def arguments_of(read: Reading, path: Path) -> list[str]:
    """Return the words of ``args``, which replace the CMD of an image whose ENTRYPOINT is the program."""
    return _listed(container.words(read, *path, "args"))


def _listed(words: list[str] | str | None) -> list[str]:
    return [words] if isinstance(words, str) else list(words or ())


def _split(text: str) -> list[str]:
    """Return the words of a shell line; the line itself if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _quoted(word: str, env: Mapping[str, str], names: frozenset[str]) -> str:
    """Quote a word for the shell, except references that only the job can expand."""
    parts, at = [], 0
    for match in _REFERENCE.finditer(word):
        if match[1] in names:
            parts += [word[at : match.start()], f'"${match[1]}"']
            at = match.end()
    parts.append(word[at:])
    texts = [part if index % 2 else _plain(part, env) for index, part in enumerate(parts)]
    return "".join(texts) or "''"


def _plain(text: str, env: Mapping[str, str]) -> str:
    return shlex.quote(filled_in(text, env, ())) if text else ""


# --- Labels of Kubernetes nodes that name a GPU, by which files select nodes
#
# Labels: from NVIDIA's GPU feature discovery and the clouds; instance types: the lists of AWS and
# Google.

_PRODUCTS: Final = frozenset({
    "nvidia.com/gpu.product", "nvidia.com/gpu.family", "amd.com/gpu.product-name", "accelerator",
    "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name", "gpu.nvidia.com/model", "gpu.nvidia.com/class",
})  # fmt: skip
_INSTANCES: Final = frozenset({"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"})
_OF_INSTANCES: Final = {
    "p2": "k80", "p3": "v100", "p4d": "a100-40g", "p4de": "a100-80g", "p5": "h100", "p5e": "h200",
    "p5en": "h200", "p6-b200": "b200", "g4dn": "t4", "g5": "a10g", "g6": "l4", "g6e": "l40s",
    "a2-highgpu": "a100-40g", "a2-megagpu": "a100-40g", "a2-ultragpu": "a100-80g", "a3-highgpu": "h100",
    "a3-megagpu": "h100", "a3-ultragpu": "h200", "a4-highgpu": "b200", "g2-standard": "l4",
}  # fmt: skip


def gpu_type(labels: Mapping[str, object]) -> tuple[str, str]:
    """Return the label that names a GPU, and its type in native form; two empty texts if none does."""
    for label, value in labels.items():
        if label in _PRODUCTS and (name := product_type(str(value))):
            return label, name
        instance = re.sub(r"^ml\.|\.[^.]*$|-\d+g$|-\d+$", "", str(value).lower())
        if label in _INSTANCES and instance in _OF_INSTANCES:
            return label, _OF_INSTANCES[instance]
    return "", ""


# --- A pod template of a Kubeflow job

_NODES: Final = (
    "the batch system chooses the nodes; select them with `batch.partition` and `batch.constraint`"
)
_LABEL: Final = "metadata.labels['training.kubeflow.org/{}']"
_FIELDS: Final = {
    **dict.fromkeys(("status.podIP", "status.hostIP", "spec.nodeName"), "$HPCDIST_ADDRESS"),
    "metadata.name": "$HPCDIST_ROLE-$HPCDIST_INDEX",
    _LABEL.format("replica-index"): "$HPCDIST_INDEX",
    _LABEL.format("replica-type"): "$HPCDIST_ROLE",
}
"""A task's equivalent of a field of its pod."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_RIGHTS: Final = "the job runs as you, with your own rights"
_NETWORK: Final = "a job's nodes reach each other by their own names"
_POD: dict[str, str] = {
    **dict.fromkeys(
        ("affinity", "tolerations", "nodeName", "schedulerName", "topologySpreadConstraints",
         "runtimeClassName", "overhead", "readinessGates", "schedulingGates", "os"), _NODES,
    ),
    **dict.fromkeys(
        ("priorityClassName", "priority", "preemptionPolicy"), "`batch.qos` sets the priority",
    ),
    **dict.fromkeys(
        ("serviceAccountName", "serviceAccount", "automountServiceAccountToken", "securityContext",
         "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"), _RIGHTS,
    ),
    **dict.fromkeys(("imagePullSecrets", "imagePullPolicy"), "the site's container runtime gets images"),
    **dict.fromkeys(
        ("hostNetwork", "dnsPolicy", "dnsConfig", "enableServiceLinks", "hostname", "subdomain",
         "setHostnameAsFQDN", "hostAliases"), _NETWORK,
    ),
    "terminationGracePeriodSeconds": "the batch system sets the grace period",
}  # fmt: skip
_SIDECARS: Final = re.compile(
    r"istio|linkerd|envoy|proxy|fluent|filebeat|promtail|logg|exporter|tensorboard|tcpx|rxdm|fastrak",
    re.IGNORECASE,
)
"""Containers for network, logs or monitoring, which the program does not need."""
_WAITS: Final = re.compile(
    r"\b(?:nslookup|getent|ping|nc\s+-\w*z\w*|wait-for\S*|discover_hosts)\b|(?:until|!)\s+ssh\b"
)
_SLEEPS: Final = re.compile(r"(?:\S*sh -\w*c )?sleep \S+")


class Pod(NamedTuple):
    """What one replica runs; ``command`` is shell text, None for the image's entrypoint with ``args``.

    ``path``: the container's path, ``command_path``: its command's; ``folder``: the directory;
    ``resources`` is in native form.
    """

    path: Path
    command_path: Path
    command: str | None
    args: str
    folder: str
    env: dict[str, str]
    resources: dict[str, dict[str, object]]
    image: str | None
    nodes: object

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return self.replicas().gpus

    def replicas(self, count: int | None = None, *source: str | int) -> Role:
        """Return ``count`` replicas of it; ``source`` is the key of their number."""
        where, nodes = (*self.path, "resources"), (*self.path[:-2], "nodeSelector")
        return Role(count, source, self.resources, where, self.nodes, nodes)


def pod(read: Reading, *path: str | int, main: str = "", preset: frozenset[str] = frozenset()) -> Pod | None:
    """Read a pod template; None, with an error, where the pod has no container.

    ``main`` names the main container, by default the first; ``preset``: the variables that the
    operator sets for each replica, as hpcdist does here.
    """
    spec = (*path, "spec")
    read.ignore(*path, "metadata", why="labels and annotations of pods are for Kubernetes")
    for key, value in (("apiVersion", "v1"), ("kind", "Pod")):
        if read.peek(*path, key) == value:
            read.get(*path, key)
    read.ignore_all(_POD, *spec)
    restart(read, *spec)
    if read.peek(*spec, "activeDeadlineSeconds") is not None:
        hint = "write it under `runPolicy`, or `batch: {walltime: ...}`"
        read.refuse(*spec, "activeDeadlineSeconds", why="a job has one time limit", hint=hint)
    _init_containers(read, *spec)
    container.check_claims(read, *spec, "resourceClaims")
    chosen = _main(read, spec, main)
    if chosen is None:
        return None
    _volumes(read, spec, chosen)
    return container_of(read, chosen, _selector(read, spec), preset)


def _selector(read: Reading, spec: Path) -> object:
    """Take the node selector; a label that names a GPU, also one of ``nodeAffinity``, becomes its type."""
    labels = read.get(*spec, "nodeSelector")
    if labels is not None and not isinstance(labels, Mapping):
        return labels
    affinity = (*spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms", 0, "matchExpressions")
    required = {
        str(item["key"]): values[0]
        for _, item in read.items(*affinity)
        if isinstance(item, Mapping) and "key" in item and len(values := _sequence(item.get("values"))) == 1
    }
    label, kind = gpu_type(required | {**(labels or {})})
    if not kind:
        return labels
    where = (*spec, "nodeSelector", label) if label in (labels or ()) else affinity
    read.warn(*where, why=f"the node's label {label} is read as the type of its GPUs, {kind}")
    return {name: value for name, value in (labels or {}).items() if name != label} | {"gpu_type": kind}


def restart(read: Reading, *path: str | int) -> None:
    """Take ``restartPolicy``; a batch job behaves like ``Never``."""
    if read.peek(*path, "restartPolicy") == "Never":
        read.get(*path, "restartPolicy")
    why = "a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job"
    if read.peek(*path, "restartPolicy") not in (None, "Never"):
        read.ignore(*path, "restartPolicy", why=why)


def _init_containers(read: Reading, *spec: str | int) -> None:
    """Check ``initContainers``: containers that wait for other pods are ignored, others are refused."""
    for index, item in read.items(*spec, "initContainers"):
        where = (*spec, "initContainers", index)
        fields = item if isinstance(item, Mapping) else {}
        words = " ".join(map(str, [*_sequence(fields.get("command")), *_sequence(fields.get("args"))]))
        if _WAITS.search(words) or _SLEEPS.fullmatch(words):
            read.get(*where)
            why = "this init container has no effect: it waits for other replicas, and all start together"
            read.warn(*where, why=why)
        else:
            hint = "do it beforehand, or in front of the command, and remove it here"
            read.refuse(*where, why="what this init container prepares would be missing", hint=hint)


def _sequence(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _main(read: Reading, spec: Path, main: str) -> Path | None:
    names = [read.peek(*spec, "containers", index, "name") for index, _ in read.items(*spec, "containers")]
    if not names and read.peek(*spec, "containers"):
        hint = "write `containers: [{image: ..., command: [...]}]`"
        read.refuse(*spec, "containers", why="expected a list", hint=hint)
        return None
    if not names:
        hint = "write `template: {spec: {containers: [{image: ..., command: [...]}]}}`"
        read.refuse(*spec, "containers", why="the pod has no container", hint=hint)
        return None
    at = names.index(main) if main in names else 0
    for index, name in enumerate(names):
        where = (*spec, "containers", index)
        label = f"{name} {read.peek(*where, 'image')}"
        if index == at:
            continue
        if _SIDECARS.search(label):
            read.get(*where)
            read.warn(*where, why=f"the container {name!r} is not started: only the program itself is")
        else:
            hint = "remove it, or start what it does in the command of the main container"
            read.refuse(*where, why=f"the container {name!r} cannot run next to the program", hint=hint)
    return (*spec, "containers", at)


def _volumes(read: Reading, spec: Path, chosen: Path) -> None:
    """Warn of each volume that is not mounted, with its path."""
    mounts: dict[str, list[str]] = {}
    for index, item in read.items(*chosen, "volumeMounts"):
        if isinstance(item, Mapping) and isinstance(item.get("mountPath"), str):
            read.get(*chosen, "volumeMounts", index)
            mounts.setdefault(str(item.get("name")), []).append(item["mountPath"])
    for index, item in read.items(*spec, "volumes"):
        where = (*spec, "volumes", index)
        name = str(item.get("name")) if isinstance(item, Mapping) else ""
        paths = mounts.pop(name, [])
        read.get(*where)
        if paths == ["/dev/shm"]:  # noqa: S108 - the pod's
            read.warn(*where, why=f"the volume {name!r} has no effect: each node has its own /dev/shm")
        else:
            _unmounted(read, where, name, paths)
    for name, paths in mounts.items():
        _unmounted(read, (*chosen, "volumeMounts"), name, paths)


def _unmounted(read: Reading, where: Path, name: str, paths: list[str]) -> None:
    at = f" at {', '.join(paths)}" if paths else ""
    hint = "put its files where the nodes can read them, and write that path in the command" if paths else ""
    read.warn(*where, why=f"the volume {name!r} is not mounted{at}", hint=hint)


def container_of(
    read: Reading, path: Path, nodes: object, preset: frozenset[str], amounts: str = "resources"
) -> Pod:
    """Read a container; ``amounts`` is the key of its resources, ``nodes`` the selector of its pod."""
    read.word(*path, "name")
    if read.peek(*path, "lifecycle"):
        read.refuse(*path, "lifecycle", why="lifecycle hooks are not run", hint="write it in the command")
    handled = {"name", "volumeMounts", "lifecycle"}
    read.ignore_all({key: why for key, why in container.IGNORED.items() if key not in handled}, *path)
    env = _variables(read, path, preset)
    container.read_env_from(read, *path, "envFrom")
    named = {str(read.peek(*path, "env", index, "name")) for index, _ in read.items(*path, "env")}
    known = {name: value for name, value in env.items() if "$HPCDIST_" not in value}
    elsewhere = preset | (named - known.keys())
    command, command_path = words_of(read, path), container.command_path(read, *path)
    text = None if command is None else shell_text(command, known, elsewhere)
    return Pod(
        path=path,
        command_path=command_path,
        command=text and container.drop_waits(read, text, *command_path),
        args=quoted_words(arguments_of(read, path), known, frozenset(elsewhere - known.keys())),
        folder=filled_in(read.word(*path, "workingDir") or "", known, ()),
        env=env,
        resources=container.amounts(read, *path, amounts),
        image=read.word(*path, "image"),
        nodes=nodes,
    )


def _variables(read: Reading, path: Path, preset: frozenset[str]) -> dict[str, str]:
    """Take the variables, except those that the operator overrides."""
    namespace = read.word("metadata", "namespace") or "default"
    values = container.variables(read, *path, "env", fields=_FIELDS | {"metadata.namespace": namespace})
    for name in [name for name in values if name in preset]:
        why = f"{name} has no effect: hpcdist sets it for each replica"
        read.warn(*place_of_variable(read, (*path, "env"), name), why=why)
    return {name: filled_in(value, values, ()) for name, value in values.items() if name not in preset}


def place_of_variable(read: Reading, path: Path, name: str) -> Path:
    """Return the path of a variable's value, the given path if the list does not have it."""
    found = (index for index, _ in read.items(*path) if read.peek(*path, index, "name") == name)
    return next(((*path, index, "value") for index in found), path)
