"""`check` of a job script: what is wrong with it, for people and for CI, and its mended copy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Hpcdist
from tests.wording import Wording

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
#SBATCH --time=3-00:00:00
#SBATCH --output=logs/%j.txt
export MASTER_ADDR=$(hostname -I)
#SBATCH --cpus-per-task=8
srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 a.py
"""


def own(text: str) -> str:
    """Return what is printed without the number of changes by the import, which other tests have."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if "`hpcdist submit` runs it" not in line)


@pytest.fixture
def script(folder: Path) -> str:
    (folder / "job.sh").write_text(SCRIPT)
    (folder / "job.sh").chmod(0o755)
    return "job.sh"


def test_a_script_is_checked_without_a_site(script: str, hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("check", script)
    assert result.code == 0
    wording([result.out, own(result.err)])


def test_a_script_is_checked_on_a_site(script: str, folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    (folder / "logs").mkdir()
    result = hpcdist("check", script, "--site", "perlmutter")
    assert (result.code, result.out) == (3, "")
    wording(own(result.err))
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -n 1 -t 9\n#SBATCH -A x\n./a\n")
    wording(own(hpcdist("check", script, "--site", "lumi").err))


def test_a_script_that_stays_a_body_is_checked(folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -n 2\nconda activate x\nsrun ./a\nsrun ./b &\n")
    wording(own(hpcdist("check", "job.sh").err))


def test_variables_of_another_fabric_warn_in_a_body(folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    text = "#SBATCH -N 2 -t 9 -A m1_g -C gpu --gpus-per-node=4\nexport A=b NCCL_IB_RETRY_CNT=10\n"
    (folder / "job.sh").write_text(
        f"#!/bin/bash\n{text}X=$Y\nexport NCCL_IB_TIMEOUT=$X\nsrun ./a\nsrun ./b\n"
    )
    wording(own(hpcdist("check", "job.sh", "--site", "perlmutter").err))
    wording(own(hpcdist("check", "job.sh").err))


def test_a_script_that_cannot_be_imported_is_checked(
    folder: Path, hpcdist: Hpcdist, wording: Wording
) -> None:
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -n 2\n#SBATCH hetjob\nsrun ./a &\n")
    alone = hpcdist("check", "job.sh")
    assert alone.code == 0
    wording(own(alone.err))
    result = hpcdist("check", "job.sh", "--site", "slurm")
    assert (result.code, result.out) == (2, "")
    wording(own(result.err))


def test_problems_are_printed_as_annotations_of_github(
    script: str, hpcdist: Hpcdist, wording: Wording
) -> None:
    result = hpcdist("check", script, "--format", "github", "--site", "perlmutter")
    assert (result.code, result.err) == (3, "")
    wording(result.out)


def test_problems_are_printed_as_sarif(script: str, hpcdist: Hpcdist) -> None:
    result = hpcdist("check", script, "--format", "sarif", "--set", "run.cmd=")
    [run] = json.loads(result.out)["runs"]
    assert result.err == ""
    assert run["results"][1] == {
        "ruleId": "all-addresses",
        "level": "warning",
        "message": {
            "text": "`$(hostname -I)` is all addresses of the host, with blanks between them; write "
            '`$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)`'
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "job.sh"},
                    "region": {"startLine": 5, "startColumn": 20},
                }
            }
        ],
    }
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [
        *dict.fromkeys(one["ruleId"] for one in run["results"])
    ]
    assert run["tool"]["driver"]["rules"][1] == {"id": "all-addresses", "help": {"text": "hostname(1)"}}


def test_problems_of_an_experiment_are_printed_for_ci(folder: Path, hpcdist: Hpcdist) -> None:
    (folder / "exp.yml").write_text("run: {cmd: 'a%'}\nbatch: {site: local, wall: 1h}\n")
    result = hpcdist("check", "exp.yml", "--format", "github")
    assert (result.code, result.err) == (2, "")
    assert result.out.startswith("::error file=exp.yml,line=2,col=22,title=batch.wall::unknown key 'wall'")


def test_a_mended_copy_is_written_beside_the_script(script: str, folder: Path, hpcdist: Hpcdist) -> None:
    result = hpcdist("check", script, "--fix")
    assert "note: job.fixed.sh: 2 mended; see `diff job.sh job.fixed.sh`\n" in result.err
    copy = folder / "job.fixed.sh"
    first = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    lines = SCRIPT.replace("$(hostname -I)", first).splitlines()
    lines.insert(4, lines.pop(5))
    assert copy.read_text().splitlines() == lines
    assert copy.stat().st_mode & 0o777 == 0o755
    assert (folder / "job.sh").read_text() == SCRIPT
    again = hpcdist("check", script, "--fix")
    assert (again.code, again.out) == (2, "")
    assert again.err.splitlines()[-1] == "error: job.fixed.sh exists; remove it: --fix overwrites no file"


def test_nothing_is_written_where_no_mend_is_certain(folder: Path, hpcdist: Hpcdist) -> None:
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -n 1\n./a\n")
    result = hpcdist("check", "job.sh", "--fix")
    assert result.code == 0
    assert result.err == "note: job.sh: no mend is certain, so that no copy is written\n"
    assert [*folder.glob("job*")] == [folder / "job.sh"]


def test_fix_is_for_scripts_and_format_not_for_json(folder: Path, hpcdist: Hpcdist) -> None:
    (folder / "exp.yml").write_text("run: {cmd: a}\nbatch: {site: local}\n")
    assert hpcdist("check", "exp.yml", "--fix").err.endswith("Error: --fix is for job scripts.\n")
    both = hpcdist("check", "exp.yml", "--json", "--format", "sarif")
    assert both.err.endswith("Error: --format cannot be combined with --json.\n")


def test_what_the_import_changes_is_counted(script: str, hpcdist: Hpcdist) -> None:
    counted = hpcdist("check", script).err.splitlines()[-1]
    assert re.fullmatch(
        r"note: job.sh: `hpcdist submit` runs it with \d+ changes?; `hpcdist import job.sh` lists them",
        counted,
    )
