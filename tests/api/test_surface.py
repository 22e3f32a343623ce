"""What `import hpcdist` costs and has; `tests/docs/test_interface.py` holds the names and signatures."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import hpcdist
from hpcdist.base import errors


def test_importing_it_imports_nothing_and_its_names_are_listed() -> None:
    program = (
        "import sys, json; before = {*sys.modules}; import hpcdist; after = {*sys.modules} - before\n"
        "names = [name for name in dir(hpcdist) if not name.startswith('_')]\n"
        "print(json.dumps([sorted(after - {'typing', '__future__'}), names]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported, names = json.loads(done.stdout)
    ours = [name for name in imported if name.partition(".")[0] in {"hpcdist", "msgspec", "yaml", "click"}]
    assert ours == ["hpcdist"]
    assert [name for name in names if name not in {"Any", "TYPE_CHECKING", "annotations"}] == hpcdist.__all__


def test_names_that_are_not_public_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="module 'hpcdist' has no attribute 'runz'"):
        hpcdist.__getattr__("runz")


def test_every_error_of_the_tree_is_public() -> None:
    tree = {name for name, value in vars(errors).items() if isinstance(value, type)}
    of_tree = {name for name in tree if issubclass(getattr(errors, name), hpcdist.HpcdistError)}
    assert of_tree <= {*hpcdist.__all__}
