# SPDX-License-Identifier: BSD-3-Clause
"""The wheel of the GPU part holds libtstream-cuda.so. scripts/wheel-cuda makes both.

Environment variables:

TSTREAM_BUILD  a folder in which configure has run with --enable-cuda-module
"""

import os
import re
import shutil

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LIBRARY = "libtstream-cuda.so"


def configured(pattern):
    """Names and versions have one place: configure.ac."""
    with open(os.path.join(top, "configure.ac"), encoding="utf-8") as f:
        return re.search(pattern, f.read())[1]


version = configured(r"AC_INIT\(\[tstream\], \[([^]]+)\]")
name = configured(r'AC_DEFINE\(\[GPU_PACKAGE\], \["([^"]+)"')
folder = configured(r'AC_DEFINE\(\[GPU_PYTHON\], \["([^"]+)"')
cuda = re.search(r"\d+$", name)[0]


class BuildNative(build_py):
    def run(self):
        super().run()
        made = os.path.join(os.environ["TSTREAM_BUILD"], "lib", LIBRARY)
        shutil.copy2(made, os.path.join(self.build_lib, folder))


class Native(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    """For any CPython, on this kind of machine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(name=name, version=version, distclass=Native,
      description=f"The GPU part of tstream, with kernels of CUDA {cuda}",
      license="BSD-3-Clause", python_requires=">= 3.10",
      packages=[folder], package_dir={folder: "part"},
      install_requires=[f"tstream == {version}"],
      extras_require={"nccl": [f"nvidia-nccl-cu{cuda} >= 2.18"]},
      cmdclass={"build_py": BuildNative, "bdist_wheel": Wheel})
