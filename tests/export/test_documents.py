"""The files that leave a run directory, and what is taken out of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.export import documents
from hpcdist.export.documents import MASK, Masked
from tests.export.made import made

KEY = "sesame-open-12345"


def test_only_these_files_leave_it(tmp_path: Path) -> None:
    run = made(tmp_path)
    for name in ("experiment.yml", "job.sh", "secret", "nodes", "code.diff"):
        (run.directory.path / name).write_text(f"of {name}")
    (run.directory.path / "code.json").symlink_to("secret")
    with pytest.raises(OSError, match="symbolic link"):
        documents.read(run.directory, {})
    (run.directory.path / "code.json").unlink()
    texts, _ = documents.read(run.directory, {})
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
        f"git clone https://me:{KEY}@example.org/x",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_all_of_them(tmp_path: Path, text: str) -> None:
    run = made(tmp_path)
    (run.directory.path / "job.sh").write_text(f"{text}\n")
    (run.directory.path / "code.diff").write_text(f"+ a line with {KEY}\n")
    texts, masked = documents.read(run.directory, {})
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
    assert Masked([text], {})(text) == text


def test_params_with_such_names(tmp_path: Path) -> None:
    run = made(tmp_path, identity={"params": {"api_key": KEY, "lr": 1}})
    texts, _ = documents.read(run.directory, {"api_key": KEY, "lr": 1})
    assert KEY not in texts["plan.json"]


@given(st.text(st.characters(exclude_characters="\"'\n\r", exclude_categories=["Cs", "Cc"]), min_size=6))
def test_no_form_of_a_secret_is_left(secret: str) -> None:
    import json
    import shlex

    from hpcdist.export.documents import _HARMLESS

    if not _HARMLESS.fullmatch(secret):
        masked = Masked([f'password: "{secret}"'], {})
        for form in (secret, json.dumps(secret), shlex.quote(secret)):
            assert MASK in masked(f"a {form} b")
