# SPDX-License-Identifier: BSD-3-Clause
# The recipe for Spack. scripts/release fills in address and checksum of the tarball. The recipe
# itself is not built in this project: scripts/recipes takes configure_args and the steps after the
# install from it, and runs them in a bare Debian. Spack is 1.0 or newer: since then, packages import
# the classes of build systems from its own repository of packages.
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Tstream(AutotoolsPackage, CudaPackage):
    """CP decomposition of sparse tensors that do not fit in memory: programs for CPU cores, GPUs
    and several machines, a library for C, and a Python package."""

    url = "https://packages.invalid/tstream-0.2.0.tar.gz"

    license("BSD-3-Clause", checked_by="tstream")

    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("mpi", default=False, description="tshard-mpi and tstream-mpi, for several machines")
    variant("hdf5", default=True, description="Read dense tensors from HDF5")
    variant("python", default=True, description="The Python package")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("liburing")
    depends_on("lz4")
    depends_on("zlib-api")
    depends_on("xxhash")
    depends_on("isa-l")
    depends_on("zstd")
    depends_on("xz")
    depends_on("bzip2")
    depends_on("hdf5", when="+hdf5")
    depends_on("mpi", when="+mpi")
    depends_on("nccl@2.18:", when="+cuda")

    extends("python@3.10:", when="+python")
    depends_on("py-numpy@1.23:", type=("build", "run"), when="+python")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def configure_args(self):
        spec = self.spec
        args = [f"--with-hdf5={'yes' if spec.satisfies('+hdf5') else 'no'}"]
        if spec.satisfies("+cuda"):
            args.append(f"--with-cuda={spec['cuda'].prefix}")
            args.append(f"--with-nccl={spec['nccl'].prefix}")
            numbers = [n for n in spec.variants["cuda_arch"].value if n != "none"]
            if numbers:
                args.append("--with-cuda-arch=" + ",".join(f"sm_{n}" for n in numbers))
        else:
            args.append("--with-cuda=no")
        if spec.satisfies("+mpi"):
            args.append("--with-mpi=yes")
        else:
            args.append("--with-mpi=no")
        return args

    @run_after("install")
    def python_package(self):
        if self.spec.satisfies("+python"):
            python("scripts/python_package", python_platlib,
                   join_path(self.prefix.lib, "libtstream.so.0"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(join_path(self.prefix.bin, "tshard"))("--version")
        Executable(join_path(self.prefix.bin, "tstream"))("--version")
