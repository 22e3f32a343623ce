"""Images by their names, and repositories that are cloned for a job."""

from __future__ import annotations

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.base.units import Memory
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.model import Build, Experiment
from hpcdist.experiment.problems import repository_problems
from hpcdist.experiment.program import Run
from hpcdist.experiment.sources import Image, image_of, is_ref, url_error, without_credentials
from tests.wording import Wording


@pytest.mark.parametrize(
    ("text", "image", "host"),
    [
        ("python", Image("registry", "python"), ""),
        ("pytorch/pytorch:2.4", Image("registry", "pytorch/pytorch:2.4"), ""),
        ("docker://nvcr.io/nvidia/x:1", Image("registry", "nvcr.io/nvidia/x:1"), "nvcr.io"),
        ("nvcr.io#nvidia/x:1", Image("registry", "nvcr.io/nvidia/x:1"), "nvcr.io"),
        ("localhost/x", Image("registry", "localhost/x"), "localhost"),
        ("here:5000/x@sha256:ab", Image("registry", "here:5000/x@sha256:ab"), "here:5000"),
        ("/images/torch", Image("file", "/images/torch"), ""),
        ("./my image", Image("file", "./my image"), ""),
        ("x.sif", Image("file", "x.sif"), ""),
        ("nvidia+x.sqsh", Image("file", "nvidia+x.sqsh"), ""),
        ("oras://ghcr.io/x:1", Image("address", "oras://ghcr.io/x:1"), ""),
    ],
)
def test_image_forms(text: str, image: Image, host: str) -> None:
    assert (image_of(text), image_of(text).host) == (image, host)


@pytest.mark.parametrize(
    "text",
    [
        "~/x.sif",
        "a b",
        "docker://",
    ],
)
def test_invalid_images(text: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        image_of(text)
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://me:pw@example.org/x.git", "https://example.org/x.git"),
        ("https://token@example.org/x.git?private_token=1#x", "https://example.org/x.git"),
        ("ssh://git:pw@example.org:22/x", "ssh://git@example.org:22/x"),
        ("git@example.org:lab/x.git", "git@example.org:lab/x.git"),
        ("HTTPS://a@b@example.org/x", "HTTPS://example.org/x"),
        ("/home/me/x@y", "/home/me/x@y"),
        ("", ""),
    ],
)
def test_urls_without_credentials(url: str, clean: str) -> None:
    assert without_credentials(url) == clean


@pytest.mark.parametrize(
    "url", ["--upload-pack=touch x", "ext::sh -c x", "https://a:b@c/d", "https://c/d?token=1", "x\ny", " x"]
)
def test_urls_that_are_refused(url: str) -> None:
    assert url_error(url)


@pytest.mark.parametrize(
    "url", ["https://c/d.git", "git@c:d/e", "ssh://git@c/d", "/srv/git/x", "../x", "file:///x"]
)
def test_urls_that_are_tried(url: str) -> None:
    assert url_error(url) == ""


def test_refs() -> None:
    good = ("main", "v1.2", "feature/x-1", "0123abcd", "HEAD", "a+b", "HEAD~1"[:4])
    bad = (
        "-x",
        "--upload-pack=x",
        "a..b",
        "a:b",
        "+a",
        "a b",
        "a//b",
        "a.lock",
        "a/",
        "",
        "a@{1}",
        "a^",
        "a~1",
    )
    assert [*filter(is_ref, good)] == [*good]
    assert [*filter(is_ref, bad)] == []


def test_problems_are_those_of_code_that_is_cloned(wording: Wording) -> None:
    build = Build(git="https://me:secret@example.org/x", commit="a b", branch="-b")
    run = Run(cmd="true")
    assert [*repository_problems(Experiment(run=run, build=build, batch=Batch(code="snapshot")))] == []
    cloned = repository_problems(Experiment(run=run, build=build, batch=Batch(code="git")))
    unused = repository_problems(Experiment(run=run, batch=Batch(max_code_size=Memory(1))))
    wording(map(str, (*cloned, *unused)))
