"""Tables of comma-separated values are read as columns, each cell with its place."""

from __future__ import annotations

import pytest

from hpcdist.base.errors import ConfigError, Place
from hpcdist.loading.named_files import columns
from tests.wording import Wording


def test_a_column_of_numbers_has_numbers_in_their_spelling() -> None:
    found = columns('lr,opt,n\n1e-2,sgd,1\n0.10,"a, b",x\n\n', "p.csv")
    assert found == {"lr": [0.01, 0.1], "opt": ["sgd", "a, b"], "n": ["1", "x"]}
    assert found["lr"].texts == {0: "1e-2", 1: "0.10"}
    assert found["opt"].place_of(1) == Place("p.csv", 3, 1)
    assert columns("", "p.csv") == {}


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1\n",
        "a,a\n1,2\n",
        pytest.param(f'a\n"{"x" * 200_000}"\n', id="a field of 200000 characters"),
    ],
)
def test_what_is_no_table_is_an_error(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        columns(text, "p.csv")
    wording(str(caught.value))
