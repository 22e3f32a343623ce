"""The files that leave a run directory, and what is taken out of them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.runs import copying
from hpcdist.runs.copying import MASK, Masked
from tests.docs.pages import CHECKOUT
from tests.tracking.made import made

KEY = "sesame-open-12345"


def test_only_these_files_leave_it(tmp_path: Path) -> None:
    run = made(tmp_path)
    for name in ("experiment.yml", "job.sh", "secret", "nodes", "code.diff"):
        (run.directory.path / name).write_text(f"of {name}")
    (run.directory.path / "code.json").symlink_to("secret")
    with pytest.raises(OSError, match="symbolic link"):
        copying.read(run.directory, {})
    (run.directory.path / "code.json").unlink()
    texts, _ = copying.read(run.directory, {})
    assert [*texts] == ["experiment.yml", "plan.json", "job.sh", "code.diff"]
    assert texts["job.sh"] == "of job.sh"


@pytest.mark.parametrize(
    "text",
    [
        f"WANDB_API_KEY: {KEY}",
        f"env_vars: {{HF_TOKEN: '{KEY}', OTHER: 1}}",
        f"  export AWS_SECRET_ACCESS_KEY={KEY}",
        f"password = {KEY}",
        f'{{"github_token": "{KEY}"}}',
        f"train.py --api-key {KEY} --lr 1",
        f"train.py --auth-token={KEY}",
        f'{{"name": "HF_TOKEN",\n "value": "{KEY}"}}',
        f"git clone https://me:{KEY}@example.org/x",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_all_of_them(tmp_path: Path, text: str) -> None:
    run = made(tmp_path)
    (run.directory.path / "job.sh").write_text(f"{text}\n")
    (run.directory.path / "code.diff").write_text(f"+ a line with {KEY}\n")
    texts, masked = copying.read(run.directory, {})
    assert texts["job.sh"] == f"{text}\n".replace(KEY, MASK)
    assert (texts["code.diff"], masked(f"x{KEY}")) == (f"+ a line with {MASK}\n", f"x{MASK}")


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096000",
        "tokenizer: bert-base-uncased",
        "pad_token: '<|endoftext|>'",
        "HF_TOKEN: $MY_OWN_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS: /home/me/key.json",
        "use_auth_token: true",
        "http://example.org:8080/a@b",
        "secret_refs: [wandb-credentials]",
    ],
)
def test_what_only_sounds_like_one_stays(text: str) -> None:
    assert copying.secrets_in([text], {}) == set()


def test_no_script_of_the_examples_has_any() -> None:
    scripts = [file.read_text() for file in sorted((CHECKOUT / "tests" / "golden").rglob("*.sh"))]
    assert len(scripts) > 10
    assert copying.secrets_in(scripts, {}) == set()


def test_what_is_the_same_in_every_script_is_not_searched() -> None:
    runtime = "\n# --- The runtime of hpcdist 0.1.0: the same in every job\n"
    assert copying.secrets_in([f"{runtime}API_KEY={KEY}", f"API_KEY=of-the-job{runtime}"], {}) == {
        "of-the-job"
    }


def test_params_with_such_names(tmp_path: Path) -> None:
    run = made(tmp_path, identity={"params": {"api_key": KEY, "lr": 1}})
    texts, _ = copying.read(run.directory, {"api_key": KEY, "lr": 1, "tokens": 4096000})
    assert KEY not in texts["plan.json"]


@given(st.text(min_size=1))
def test_no_form_of_a_secret_is_left(secret: str) -> None:
    masked = Masked([secret])
    for form in (secret, json.dumps(secret), shlex.quote(secret)):
        assert MASK in masked(f"a {form} b")


def test_the_secrets_of_each_element_are_masked(tmp_path: Path) -> None:
    """Trials of a search have a param of one name, with a value each."""
    run = made(tmp_path)
    _, masked = copying.read(run.directory, {"api_key": KEY}, {"api_key": f"{KEY}-of-the-second"})
    assert [masked(text) for text in (KEY, f"{KEY}-of-the-second")] == [MASK, MASK]


@pytest.mark.extended
@pytest.mark.parametrize(
    "piece",
    ["-", "a-", "--x", " ", "=", "token ", "--token ", "://", "a:", '"', "\\", "@", "_key", "-token", "a"],
)
def test_a_long_text_is_searched_to_its_end(piece: str) -> None:
    """A search that took as many steps as the square of its length would use up the CPU that it may have."""
    program = (
        "import resource, sys; from hpcdist.runs import copying; "
        "from hpcdist.experiment import replicas; "
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); text = (sys.argv[1] * 100_000)[:100_000]; "
        "copying.secrets_in([text], {text: 'x'}); replicas._FILE.findall(text)"
    )
    subprocess.run([sys.executable, "-c", program, piece], check=True)


def test_options_that_hold_a_secret_are_found_wherever_they_stand() -> None:
    texts = [
        f"x --my-token {KEY}1",
        f"a--token {KEY}2",
        f"'-secret {KEY}3",
        f"--token {KEY}4",
        f"my token {KEY}5",
    ]
    assert copying.secrets_in(texts) == {f"{KEY}{number}" for number in range(1, 5)}
