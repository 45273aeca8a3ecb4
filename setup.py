# SPDX-License-Identifier: BSD-3-Clause
"""The wheel holds libtstream and both programs, which configure and make build as everywhere else.

Environment variables:

TSTREAM_CUDA       1, or the folder of a CUDA toolkit: GPU kernels are compiled as well
TSTREAM_CONFIGURE  options for configure
TSTREAM_BUILD      a folder in which configure has run: `make wheel` in it makes what is missing
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
parts = ["libtstream.so.0", "tstream", "tshard"]
CPU_SECONDS = 150  # of one core for all that is compiled, without kernels for GPUs
MAKES = re.compile(r"  (CC|CCLD|AR|NVCC|GEN) ")

# What is needed: name, (apt, dnf, conda), and how it is found: a program, or a module of
# pkg-config with its header.
NEEDED = [
    ("a C compiler", ("gcc libc6-dev", "gcc", "c-compiler"), "CC"),
    ("make", ("make", "make", "make"), "make"),
    ("pkg-config", ("pkg-config", "pkgconf-pkg-config", "pkg-config"), "PKG_CONFIG"),
    ("liburing", ("liburing-dev", "liburing-devel", "liburing"), ("liburing", "liburing.h")),
    ("LZ4", ("liblz4-dev", "lz4-devel", "lz4-c"), ("liblz4", "lz4.h")),
    ("zlib", ("zlib1g-dev", "zlib-devel", "zlib"), ("zlib", "zlib.h")),
    ("xxHash", ("libxxhash-dev", "xxhash-devel", "xxhash"), ("libxxhash", "xxhash.h")),
]
BOOTSTRAP = [  # a release has ./configure, a checkout makes it
    ("autoconf", ("autoconf", "autoconf", "autoconf"), "autoreconf"),
    ("automake", ("automake", "automake", "automake"), "automake"),
]
WANTED = [
    ("ISA-L", ("libisal-dev", "isa-l-devel", "isa-l"), (None, "isa-l.h")),
    ("zstd", ("libzstd-dev", "libzstd-devel", "zstd"), ("libzstd", "zstd.h")),
    ("xz", ("liblzma-dev", "xz-devel", "xz"), ("liblzma", "lzma.h")),
    ("bzip2", ("libbz2-dev", "bzip2-devel", "bzip2"), (None, "bzlib.h")),
]
INSTALL = ["Debian, Ubuntu:  sudo apt-get install ", "Fedora, RHEL:    sudo dnf install ",
           "conda:           conda install -c conda-forge "]


def version():
    with open(os.path.join(top, "configure.ac"), encoding="utf-8") as f:
        return re.search(r"AC_INIT\(\[tstream\], \[([^]]+)\]", f.read())[1]


class Teller:
    """Tells of a build: in lines of the output, which pip keeps to itself, and on the terminal."""

    def __init__(self):
        self.shown = False
        try:
            self.terminal = open("/dev/tty", "w", encoding="utf-8")
            if os.tcgetpgrp(self.terminal.fileno()) != os.getpgrp():  # in the background
                self.terminal = None
        except OSError:
            self.terminal = None

    def line(self, text):
        print(text, flush=True)
        self.show("\n" + text + "\n")

    def count(self, done, total):
        if done * 10 // total != (done - 1) * 10 // total:
            print(f"{done} of {total} steps", flush=True)
        self.show(f"\rtstream: {done} of {total} steps" + ("\n" if done == total else ""))

    def show(self, text):
        if self.terminal is not None:
            self.terminal.write(text)
            self.terminal.flush()


def settings():
    """Options for configure, and the environment with the variables among them."""
    given = shlex.split(os.environ.get("TSTREAM_CONFIGURE", ""))
    env = dict(os.environ)
    env.update(word.split("=", 1) for word in given if re.match(r"[A-Za-z_]\w*=", word))
    cuda = os.environ.get("TSTREAM_CUDA", "")
    options = ["--with-cuda=" + {"": "no", "0": "no", "1": "yes"}.get(cuda, cuda), "--with-mpi=no"]
    if "CFLAGS" not in env:
        options.append("CFLAGS=-O3")
    if "LDFLAGS" not in env:
        options.append("LDFLAGS=-s")
    return options + given, env


def is_there(how, env):
    """Whether a program, or a module of pkg-config (else its header), is there."""
    path = env.get("PATH")
    compiler = shlex.split(env.get("CC", "")) or [shutil.which("gcc", path=path) or "cc"]
    if how == "CC":
        return has_header("stdio.h", compiler, env)
    if how == "PKG_CONFIG":
        how = env.get("PKG_CONFIG") or "pkg-config"
    if isinstance(how, str):
        return shutil.which(how, path=path) is not None
    module, header = how
    tool = shutil.which(env.get("PKG_CONFIG") or "pkg-config", path=path)
    if module is None or tool is None:
        return has_header(header, compiler, env)
    if subprocess.run([tool, "--exists", module], env=env, check=False).returncode == 0:
        return True
    return module.removeprefix("lib").upper() + "_LIBS" in env  # which configure takes instead


def has_header(header, compiler, env):
    command = [*compiler, *shlex.split(env.get("CPPFLAGS", "")), "-E", "-x", "c", "-"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, input=f"#include <{header}>\n".encode(), env=env,
                              check=False, **quiet).returncode == 0
    except OSError:
        return False


def install_lines(missing):
    """How each kind of system installs what is missing."""
    return ["  " + how + " ".join(packages[i] for _, packages, _ in missing)
            for i, how in enumerate(INSTALL)]


def check_needs(env):
    """Ends with a sentence and the lines that help, where something needed is missing."""
    has_configure = os.path.exists(os.path.join(top, "configure"))
    needed = NEEDED + ([] if has_configure else BOOTSTRAP)
    missing = [row for row in needed if not is_there(row[2], env)]
    wanted = [row for row in WANTED if not is_there(row[2], env)]
    if missing:
        sys.exit("\n".join(["tstream cannot be compiled here without "
                            + ", ".join(row[0] for row in missing) + ".",
                            *install_lines(missing + wanted),
                            "Install them, and run pip again. A wheel needs none of "
                            "them, but there is none on a package index yet."]))
    return wanted


class BuildNative(build_py):
    def run(self):
        folder = os.environ.get("TSTREAM_BUILD")
        if folder is None:
            folder = self.build()
        elif not all(os.path.exists(os.path.join(folder, "wheel", name)) for name in parts):
            subprocess.check_call(["make", "wheel"], cwd=folder)
        super().run()
        script = os.path.join(top, "scripts", "python_settings")
        if os.path.exists(script):  # else the file of the package is taken as it is
            made = os.path.join(self.build_lib, "tstream", "_settings.py")
            with open(made, "w", encoding="utf-8") as f:
                subprocess.check_call([sys.executable, "-B", script, top], stdout=f)
        to = os.path.join(self.build_lib, "tstream", "_native")
        os.makedirs(to, exist_ok=True)
        for name in [*parts, "libraries", "licences"]:
            made = os.path.join(folder, "wheel", name)
            if name in parts or os.path.exists(made):
                shutil.copy2(made, to)

    def build(self):
        """Builds in a folder of its own, which is returned."""
        options, env = settings()
        wanted = check_needs(env)
        tell = Teller()
        jobs = len(os.sched_getaffinity(0))
        gpus = [o for o in options if o.startswith("--with-cuda")][-1] != "--with-cuda=no"
        tell.line(f"tstream: compiles a library and two programs for CPU cores"
                  f"{' and GPUs' if gpus else ', not for GPUs (TSTREAM_CUDA=1)'}: about "
                  f"{CPU_SECONDS // jobs + 15} s on {jobs} idle core{'s' * (jobs > 1)}"
                  + (", and minutes more for the kernels of GPUs" if gpus else ""))
        if wanted:
            tell.line("\n".join(["tstream: without " + ", ".join(row[0] for row in wanted)
                                 + ", packed text is read more slowly or not at all:",
                                 *install_lines(wanted)]))
        temporary = self.get_finalized_command("build").build_temp
        folder = os.path.abspath(os.path.join(temporary, "native"))
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(os.path.join(top, "configure")):
            self.step(["./bootstrap"], top, tell)
        self.step([os.path.join(top, "configure"), "-q", *options], folder, tell)
        self.step(["make", "wheel", f"-j{jobs}"], folder, tell,
                  steps=len(re.findall('echo "' + MAKES.pattern, self.planned(folder))))
        return folder

    def planned(self, folder):
        return subprocess.run(["make", "-n", "wheel"], cwd=folder, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def step(self, command, folder, tell, steps=0):
        """Runs a command; its output is shown where it fails."""
        done, lines = 0, []
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            for line in process.stdout:
                lines.append(line)
                if MAKES.match(line):
                    done += 1
                    if done <= steps:
                        tell.count(done, steps)
        if process.returncode != 0:
            sys.exit("".join(lines[-30:]) + f"tstream: {' '.join(command)} failed in {folder}")


class Native(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    """For any CPython, on this kind of machine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(version=version(), distclass=Native,
      cmdclass={"build_py": BuildNative, "bdist_wheel": Wheel})
