from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyMsgspec(PythonPackage):
    """Serialization and validation of JSON, MessagePack, YAML and TOML."""

    # Not every release of Spack's own packages has it; this recipe takes precedence.
    homepage = "https://jcristharif.com/msgspec/"
    pypi = "msgspec/msgspec-0.20.0.tar.gz"

    license("BSD-3-Clause")

    version("0.20.0", sha256="692349e588fde322875f8d3025ac01689fead5901e7fb18d6870a44519d62a29")
    version("0.19.0", sha256="604037e7cd475345848116e89c553aa9a233259733ab51986ac924ab1b976f8e")

    depends_on("c", type="build")
    depends_on("python@3.9:", type=("build", "link", "run"))
    depends_on("python@:3.13", type=("build", "link", "run"), when="@:0.19")

    # As in its pyproject.toml; that of 0.19 has no bound.
    depends_on("py-setuptools", type="build")
    depends_on("py-setuptools@80:", type="build", when="@0.20:")
    depends_on("py-setuptools-scm@8:", type="build", when="@0.20:")
