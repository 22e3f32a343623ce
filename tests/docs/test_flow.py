"""The picture of the flow is what its script draws."""

from __future__ import annotations

import subprocess

from tests.docs.pages import CHECKOUT, DOCS


def test_the_picture_is_what_the_script_draws() -> None:
    drawn = subprocess.run([CHECKOUT / "tools/draw-flow"], check=True, capture_output=True, text=True)
    assert (DOCS / "explanation/flow.svg").read_text() == drawn.stdout
