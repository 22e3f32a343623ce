from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyHpcdist(PythonPackage):
    """One experiment file; any supercomputer: distributed training jobs from a Polyaxon-style YAML file."""

    # There is no URL to fetch: spack.yaml builds its own checkout (`develop`). So `spack audit packages`
    # reports that it has no version with a URL.
    license("Apache-2.0")

    version("0.1.0")

    variant("mpi", default=False, description="mpi4py, for programs that use MPI themselves")
    variant("horovod", default=False, description="Horovod for PyTorch, over MPI")

    depends_on("py-hatchling@1.26:", type="build")

    # The same as in pyproject.toml; a test compares them.
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-msgspec@0.18:", type=("build", "run"))
    depends_on("py-pyyaml@6.0:", type=("build", "run"))
    depends_on("py-rich@13.0:", type=("build", "run"))

    depends_on("py-mpi4py@4.0:", type="run", when="+mpi")

    depends_on("py-horovod@0.28.1: frameworks=pytorch controllers=mpi", type="run", when="+horovod")
    depends_on("py-setuptools", type="run", when="+horovod")
