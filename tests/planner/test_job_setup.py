"""What the job's shell is given before anything starts: the lines, and what a real bash makes of them.

Stand-ins for ``module`` and ``spack`` tell what they were asked for in ``$TRACE``. They return what the real
ones were seen to return (Environment Modules 5.2, Lmod 8.6, both of Debian 12), and what Modules 3.2 does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.plan.model import Plan
from hpcdist.plan.values import Origin, Word
from hpcdist.planner.make_plan import make_plan
from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from tests.experiments import experiment
from tests.plans import LOCAL, changed, planned, warnings_of
from tests.sites import site
from tests.tiers import examples
from tests.wording import Wording

BASH = shutil.which("bash") or "bash"
NODE = os.uname().nodename
ONE_PROCESS = changed(LOCAL, launcher="processes")

LMOD = """
export LMOD_CMD=/x/lmod
module() {
  [[ $1 == load && $2 != no/* ]] || { echo "Lmod has detected an error" >&2; return 1; }
  export TRACE="${TRACE:-}$2 " LOADEDMODULES="${LOADEDMODULES:+$LOADEDMODULES:}$2"
}
"""
MODULES_3 = """
module() {
  case $2 in
  no/*) echo "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for '$2'" >&2 ;;
  *)
    [[ :$LOADEDMODULES: == *:"$2"[:/]* ]] ||
      export TRACE="${TRACE:-}$2 " LOADEDMODULES="${LOADEDMODULES:+$LOADEDMODULES:}$2"
    ;;
  esac
  return 0
}
"""
SPACK = """() {
  [[ $1 == env && $2 == activate ]] || return 2
  printf '%s\\0' "${@:3}" >"$SPACK_WORDS"
  [[ ${*: -1} != no* ]] || { echo "==> Error: no such environment" >&2; return 1; }
  export SPACK_ENV=/active TRACE="${TRACE:-}spack "
}
"""


class Node:
    """A machine of its own for a script: its programs, the files of its login shells, its variables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = folder / "words"
        self.environ = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "SPACK_WORDS": str(self.words)}

    def has(self, path: str, text: str, mode: int = 0o644) -> str:
        """Put a file there; return its path."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return str(file)

    def with_modules(self, text: str = LMOD) -> Node:
        self.has("profile.d/modules.sh", text)
        return self

    def with_spack(self) -> Node:
        self.has("spack/share/spack/setup-env.sh", f"spack{SPACK}")
        self.environ["SPACK_ROOT"] = f"{self.folder}/spack"
        return self

    def run(self, machine: Site = ONE_PROCESS, **batch: Any) -> tuple[int, list[str]]:
        """Run a job that tells its ``$TRACE``; return its exit code and what it says."""
        return self.run_plan(planned(machine, batch=batch, run={"cmd": 'echo "$TRACE"'}))

    def run_plan(self, plan: Plan) -> tuple[int, list[str]]:
        """Return a job's exit code and what it says."""
        script = render(plan)
        file = self.has("job.sh", script.replace("/etc/profile.d/", f"{self.folder}/profile.d/"))
        done = subprocess.run(
            [BASH, file],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        said = done.stdout.replace(f"{file}: ", "").replace(f"{self.folder}/", "/etc/")
        return done.returncode, said.splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


UNLOADING = """
shopt -s extglob
module() {
  local own=${2:-}
  case $1 in
  load) LOADEDMODULES="${LOADEDMODULES:+$LOADEDMODULES:}$2" ;;
  purge) LOADEDMODULES=sticky ;;
  reset) [[ $LOADEDMODULES != *old ]] || return 1; LOADEDMODULES=default ;;
  unload) LOADEDMODULES=${LOADEDMODULES//$own*([!:])/} ;;
  esac
  export LOADEDMODULES TRACE="${TRACE:-}$* "
}
LMOD_CMD=/x/lmod
"""


@pytest.mark.parametrize(
    ("modules", "code", "said"),
    [
        (["-gcc", "cuda"], 0, "load gcc/12 unload gcc load cuda "),
        (["purge", "cuda"], 0, "load gcc/12 purge load cuda "),
        (["reset", "cuda"], 0, "load gcc/12 reset load cuda "),
        (["old", "reset"], 86, f"hpcdist: 'module reset' failed (exp.yml batch.modules[1]) on {NODE}"),
    ],
)
def test_modules_are_unloaded(node: Node, modules: list[str], code: int, said: str) -> None:
    machine = changed(ONE_PROCESS, modules=("gcc/12",))
    assert node.with_modules(UNLOADING).run(machine, modules=modules) == (code, [said])


APPTAINER = """#!/bin/bash
case $1 in
pull) [[ $4 != docker://no ]] && echo "$4" >"$3" && echo pulled ;;
exec) while [[ $1 != *.sif ]]; do shift; done; shift; exec "$@" ;;
esac
"""


def test_an_image_is_fetched_once_and_kept(node: Node) -> None:
    node.has("bin/apptainer", APPTAINER, 0o755)
    machine = changed(ONE_PROCESS, container=site(container={"runtime": "apptainer"}).container)
    plan = planned(machine, build={"image": "a/x:1"}, run={"cmd": "echo ran"})
    assert node.run_plan(plan) == (0, ["pulled", "ran"])
    assert (node.folder / "x-1.sif").read_text() == "docker://a/x:1\n"
    assert node.run_plan(plan) == (0, ["ran"])
    missing = planned(machine, build={"image": "no"}, run={"cmd": "echo ran"})
    assert node.run_plan(missing) == (86, [f"hpcdist: apptainer cannot fetch docker://no on {NODE}"])


def test_a_variable_for_programs_that_link_a_library(node: Node) -> None:
    entry = {"value": 1, "links": "libc.so", "otherwise": 0}
    fabric = {"env": {"OF_C": entry, "OF_NCCL": {"value": 1, "links": "libnccl.so"}}}
    machine = site(scheduler="local", launcher="processes", fabric=fabric)
    for cmd, value in (
        ("/bin/sh -c 'echo $OF_C ${OF_NCCL-none}' # * ?", "1 none"),
        ("declare -p OF_C", '"0"'),
    ):
        code, [said] = node.run_plan(planned(machine, run={"cmd": cmd}))
        assert (code, said.removeprefix("declare -x OF_C=")) == (0, value)


# --- The lines


GCC = """module load gcc/12 || fail "'module load gcc/12' failed (site x: modules) on $(uname -n)\""""


def test_setup_lines_are_in_order_with_origins() -> None:
    machine = site(modules=["gcc/12", "cuda/12.4"], source=["$HOME/env.sh"], setup=["ulimit -c 0"])
    plan = planned(machine, batch={"modules": ["nccl/2.22"], "spack_env": "ml/torch"})
    assert plan.environment.setup == (
        Word.raw(
            "if [[ -r $HOME/env.sh ]]; then source $HOME/env.sh; "
            'else fail "there is no $HOME/env.sh on $(uname -n)"; fi',
            Origin("site", "x", "source"),
        ),
        Word.raw(GCC, Origin("site", "x", "modules")),
        Word.raw(GCC.replace("gcc/12", "cuda/12.4"), Origin("site", "x", "modules")),
        Word.raw("ulimit -c 0", Origin("site", "x", "setup")),
        Word.raw(
            GCC.replace("gcc/12", "nccl/2.22").replace("site x: modules", "exp.yml batch.modules[0]"),
            Origin("place", "exp.yml batch.modules[0]"),
        ),
        Word.raw(
            "[[ $(type -t spack) == function ]] || source "
            '"${SPACK_ROOT:-$(spack location --spack-root)}/share/spack/setup-env.sh" ||\n'
            '  fail "there is no Spack on $(uname -n); load its module, or set SPACK_ROOT"',
            Origin("place", "exp.yml batch.spack_env"),
        ),
        Word.raw(
            """spack env activate ml/torch || fail "'spack env activate ml/torch' failed """
            """(exp.yml batch.spack_env) on $(uname -n)\"""",
            Origin("place", "exp.yml batch.spack_env"),
        ),
    )
    assert (plan.environment.modules, plan.environment.spack_env) == (
        ("gcc/12", "cuda/12.4", "nccl/2.22"),
        "ml/torch",
    )
    assert (
        msgspec.json.decode(msgspec.json.encode(plan.environment.setup), type=tuple[Word, ...])
        == plan.environment.setup
    )


@pytest.mark.parametrize("place", ["/projects/torch", "./torch", "."])
def test_spack_env_given_as_a_path(place: str) -> None:
    plan = planned(batch={"spack_env": place})
    _, word = plan.environment.setup
    assert word.text.startswith(f"spack env activate --dir {place} || fail ")


def test_modules_have_no_effect_in_a_container(wording: Wording) -> None:
    machine = site(container={"runtime": "apptainer"}, walltime="1h")
    batch = {"modules": ["gcc"], "spack_env": "torch"}
    plan = planned(machine, build={"image": "/images/torch.sif"}, batch=batch)
    wording(warnings_of(plan))


@pytest.mark.parametrize(("version", "warned"), [("5.0.8", True), ("4.1.6", False)])
def test_the_lint_knows_versions_by_modules(version: str, *, warned: bool) -> None:
    section = {"env_vars": {"OMPI_MCA_btl": "^openib"}}
    plan = planned(batch={"modules": [f"openmpi/{version}"]}, environment=section)
    assert any("OMPI_MCA_btl" in warning for warning in warnings_of(plan)) == warned


# --- Modules, in a job


@pytest.mark.parametrize("system", [LMOD, MODULES_3])
def test_all_is_there_in_order(node: Node, system: str) -> None:
    file = node.with_modules(system).with_spack().has("site.sh", 'export TRACE="${TRACE:-}source "\n')
    machine = changed(ONE_PROCESS, modules=("site/1",), source=(file,), setup=('TRACE+="setup "',))
    found = node.run(machine, modules=["gcc/9", "cuda"], spack_env="torch")
    assert found == (0, ["source site/1 setup gcc/9 cuda spack "])


def test_modules_are_found_where_login_shells_find_them(node: Node) -> None:
    node.has("profile.d/00-modulepath.sh", 'export TRACE="path "\n')
    node.has("profile.d/lang.sh", 'export TRACE="odd "\n')
    node.has("profile.d/z00_lmod.sh", LMOD)
    assert node.run(modules=["gcc/9"]) == (0, ["path gcc/9 "])


def test_a_function_that_is_inherited_is_used(node: Node) -> None:
    node.environ["BASH_FUNC_module%%"] = '() { export TRACE="$* " LOADEDMODULES="$2"; }'
    assert node.run(modules=["gcc/9"]) == (0, ["load gcc/9 "])


def test_there_is_no_module_command(node: Node, wording: Wording) -> None:
    code, said = node.run(modules=["gcc/9"])
    assert code == 86
    wording("\n".join(said).replace(NODE, "NODE"))


@pytest.mark.parametrize(
    "system",
    [LMOD, MODULES_3],
    ids=["Lmod", "Modules 3"],
)
def test_there_is_no_such_module(node: Node, system: str, wording: Wording) -> None:
    code, said = node.with_modules(system).run(modules=["gcc/9", "no/1"])
    assert code == 86
    wording("\n".join(said).replace(NODE, "NODE"))


@pytest.mark.parametrize("loaded", ["gcc/9", "a:gcc/9:b", "a:gcc/9/cuda"])
def test_one_that_is_loaded_already(node: Node, loaded: str) -> None:
    node.with_modules(MODULES_3).environ["LOADEDMODULES"] = loaded
    assert node.run(modules=["gcc/9"]) == (0, [""])


# --- Spack, in a job


def test_an_environment_by_name_and_by_path(node: Node) -> None:
    node.with_spack()
    assert node.run(spack_env="torch") == (0, ["spack "])
    assert node.words.read_text() == "torch\0"
    assert node.run(spack_env="./torch") == (0, ["spack "])
    assert node.words.read_text() == "--dir\0./torch\0"


def test_only_the_program_is_there(node: Node) -> None:
    root = node.with_spack().environ.pop("SPACK_ROOT")
    node.has("bin/spack", f'#!{BASH}\n[[ $* == "location --spack-root" ]] && echo "{root}"\n', 0o755)
    assert node.run(spack_env="torch") == (0, ["spack "])


def test_a_module_brings_spack(node: Node) -> None:
    root = node.with_spack().environ.pop("SPACK_ROOT")
    node.with_modules(f"{LMOD}\nexport SPACK_ROOT={root}\n")
    assert node.run(modules=["spack/1.1"], spack_env="torch") == (0, ["spack/1.1 spack "])


def test_a_login_shell_has_the_function(node: Node) -> None:
    node.environ["BASH_FUNC_spack%%"] = SPACK
    assert node.run(spack_env="torch") == (0, ["spack "])


def test_there_is_no_spack(node: Node, wording: Wording) -> None:
    code, said = node.run(spack_env="torch")
    assert code == 86
    wording("\n".join(said).replace(NODE, "NODE"))


def test_there_is_no_such_environment(node: Node, wording: Wording) -> None:
    code, said = node.with_spack().run(spack_env="no-torch")
    assert code == 86
    wording("\n".join(said).replace(NODE, "NODE"))


HOSTILE = st.text(st.sampled_from("'\"\\`!*~# ;&|<>(){}\u00e9-x"), max_size=12)


@examples(25)
@given(place=HOSTILE.map("/{}".format), file=HOSTILE)
def test_hostile_words_arrive(tmp_path: Path, place: str, file: str) -> None:
    node = Node(tmp_path).with_spack()
    asked = experiment(batch={"spack_env": place}, run={"cmd": "true"})
    plan = make_plan(asked, ONE_PROCESS, lambda _: Origin("place", f"{file}.yml:1"))
    assert node.run_plan(plan) == (0, [])
    assert node.words.read_text() == f"--dir\0{place}\0"


# --- What they change reaches other nodes


def launched(node: Node, launcher: str, program: str, line: str, **section: Any) -> str:
    """Return the words with which a job on two nodes calls its launcher."""
    node.has(f"bin/{program}", f'#!{BASH}\necho "$*"\n', 0o755)
    node.has("bin/scontrol", f"#!{BASH}\nprintf '%s\\n' n0 n1\n", 0o755)
    node.environ |= {"OLD": "old", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[0-1]"}
    machine = site(launcher=launcher, setup=(line,))
    keys = {"replicas": {"n_workers": 1, "per_node": 1}, **section}
    code, (words, *_) = node.run_plan(planned(machine, framework="mpi", environment=keys))
    assert code == 0
    return words


@pytest.mark.parametrize(
    ("launcher", "program", "word"), [("mpirun", "mpirun", "-x NEW"), ("hydra", "mpiexec.hydra", ",NEW")]
)
def test_a_launcher_that_wants_names_is_given_those_that_changed(
    node: Node, launcher: str, program: str, word: str
) -> None:
    words = launched(node, launcher, program, "export NEW=1")
    assert (word in words, "OLD" in words) == (True, False)


def test_mpirun_is_given_no_mca_parameter_by_name(node: Node) -> None:
    line = "export NEW=1 OMPI_MCA_btl=self PRTE_MCA_plm=slurm"
    own = {"OMPI_MCA_pml": "ob1", "OWN": "1"}
    words = launched(node, "mpirun", "mpirun", line, env_vars=own)
    assert ("-x NEW" in words, "-x OWN" in words, "_MCA_" in words) == (True, True, False)
