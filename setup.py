# SPDX-License-Identifier: BSD-3-Clause
"""The wheel holds libtstream and both programs: they are built as everywhere else, by configure and make.

TSTREAM_BUILD names a folder where they are built already; TSTREAM_CONFIGURE holds options for configure.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

top = os.path.dirname(os.path.abspath(__file__))
made = ["lib/libtstream.so.0", "tools/tstream", "tools/tshard"]


def version():
    with open(os.path.join(top, "configure.ac"), encoding="utf-8") as f:
        return re.search(r"AC_INIT\(\[tstream\], \[([^]]+)\]", f.read())[1]


class BuildNative(build_py):
    def run(self):
        super().run()
        script = os.path.join(top, "scripts", "python_settings")
        if os.path.exists(script):  # else the file of the package is taken as it is
            with open(os.path.join(self.build_lib, "tstream", "_settings.py"), "w", encoding="utf-8") as f:
                subprocess.check_call([sys.executable, "-B", script, top], stdout=f)
        folder = os.environ.get("TSTREAM_BUILD")
        if folder is None:
            folder = os.path.abspath(os.path.join(self.get_finalized_command("build").build_temp, "native"))
            os.makedirs(folder, exist_ok=True)
            if not os.path.exists(os.path.join(top, "configure")):
                subprocess.check_call(["./bootstrap"], cwd=top)
            options = shlex.split(os.environ.get("TSTREAM_CONFIGURE", ""))
            subprocess.check_call([os.path.join(top, "configure"), *options], cwd=folder)
            jobs = len(os.sched_getaffinity(0))
            subprocess.check_call(["make", f"-j{jobs}"], cwd=folder)
        to = os.path.join(self.build_lib, "tstream", "_native")
        os.makedirs(to, exist_ok=True)
        for name in made:
            shutil.copy2(os.path.join(folder, name), to)


class Native(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    """For any CPython, on this kind of machine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(version=version(), distclass=Native,
      cmdclass={"build_py": BuildNative, "bdist_wheel": Wheel})
