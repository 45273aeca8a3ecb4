# SPDX-License-Identifier: BSD-3-Clause
"""bits_build.py - one of the two sides of tests/bits: a commit, built in a folder of its own.

Files are written only where they are others, so that a second build is short.
"""
import io
import os
import shutil
import subprocess
import tarfile


class BuildError(Exception):
    """A side cannot be built; the text names the log."""


class Side:
    def __init__(self, name, folder, top, commit, args, build_dir=None):
        self.name, self.folder, self.top, self.commit = name, folder, top, commit
        self.cc, self.configure = args.cc, args.configure + ([] if args.gpu else ["--with-cuda=no"])
        self.source = os.path.join(folder, "tree")
        self.build_dir = os.path.abspath(build_dir or os.path.join(self.source, "build"))
        self.log = os.path.join(folder, "build.log")
        self.door = os.path.join(self.build_dir, "bits_door")

    def tool(self, program):
        return os.path.join(self.build_dir, "tools", program)

    def has_mpi(self):
        return os.path.exists(self.tool("tstream-mpi"))

    def _git(self, *words):
        return subprocess.run(["git", "-C", self.top, *words], check=True,
                              stdout=subprocess.PIPE).stdout

    def _files(self):
        """Name, mode and bytes of each file of the commit, or of the working tree."""
        if self.commit is not None:
            with tarfile.open(fileobj=io.BytesIO(self._git("archive", self.commit))) as tar:
                for member in tar:
                    if member.issym():
                        yield member.name, "link", member.linkname.encode()
                    elif member.isfile():
                        yield (member.name, "program" if member.mode & 0o100 else "file",
                               tar.extractfile(member).read())
            return
        for name in filter(None, self._git("ls-files", "-z").decode().split("\0")):
            path = os.path.join(self.top, name)
            if os.path.islink(path):
                yield name, "link", os.readlink(path).encode()
            elif os.path.isfile(path):
                yield name, "program" if os.access(path, os.X_OK) else "file", _read(path)

    def export(self):
        known = set()
        stamp = os.path.join(self.folder, "exported")
        if self.commit is not None and os.path.exists(stamp) and \
                _read(stamp).decode() == self.commit:
            return
        for name, kind, data in self._files():
            known.add(name)
            path = os.path.join(self.source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if kind == "link":
                remove(path)
                os.symlink(data.decode(), path)
            elif not os.path.exists(path) or _read(path) != data:
                with open(path, "wb") as f:
                    f.write(data)
                os.chmod(path, 0o755 if kind == "program" else 0o644)
        for gone in self._exported() - known:
            remove(os.path.join(self.source, gone))
        with open(os.path.join(self.folder, "files"), "w", encoding="utf-8") as f:
            f.write("\0".join(sorted(known)))
        with open(stamp, "w", encoding="ascii") as f:
            f.write(self.commit or "")

    def _exported(self):
        path = os.path.join(self.folder, "files")
        return set(_read(path).decode().split("\0")) if os.path.exists(path) else set()

    def _do(self, words, cwd):
        with open(self.log, "ab") as log:
            log.write(f"$ {' '.join(words)}\n".encode())
            log.flush()
            if subprocess.run(words, cwd=cwd, stdout=log, stderr=log,
                              stdin=subprocess.DEVNULL).returncode != 0:
                raise BuildError(f"{self.name}: '{' '.join(words[:3])}' failed; see {self.log}")

    def build(self, jobs):
        """The programs and the library, whose kernels TS_BITS_ISA chooses."""
        os.makedirs(self.build_dir, exist_ok=True)
        open(self.log, "wb").close()
        self.export()
        if not os.path.exists(os.path.join(self.source, "configure")):
            self._do(["./bootstrap"], self.source)
        basis = " ".join([self.cc, *self.configure])
        stamp = os.path.join(self.build_dir, "bits.basis")
        if not os.path.exists(stamp) or _read(stamp).decode() != basis:
            self._do([os.path.join(self.source, "configure"), f"CC={self.cc}",
                      *self.configure], self.build_dir)
            with open(stamp, "w", encoding="utf-8") as f:
                f.write(basis)
        tests = os.path.join(self.top, "tests")  # of this script, whichever commit is built
        isa = os.path.join(self.build_dir, "bits_isa.o")
        cc = self.cc.split()
        self._do([*cc, "-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-c", "-o", isa,
                  f"-I{self.source}/src", os.path.join(tests, "bits_isa.c")], self.build_dir)
        targets = ["tools/tstream", "tools/tshard", "lib/libtstream.so"]
        if b'S["HAVE_MPI_TRUE"]=""' in _read(os.path.join(self.build_dir, "config.status")):
            targets += ["tools/tstream-mpi", "tools/tshard-mpi"]
        self._do(["make", f"-j{jobs}", f"LDFLAGS={isa} -Wl,--wrap=ts_isa_here,--wrap=ts_isa_best",
                  "stamp-flags", *targets], self.build_dir)
        self._do([*cc, "-std=gnu11", "-O1", "-o", self.door, f"-I{self.source}/include",
                  os.path.join(tests, "bits_door.c"), "-Llib", "-ltstream", "-lm"], self.build_dir)

    def vector_code(self, isa):
        """What kernels the program has when this instruction set is the best that it may use."""
        env = dict(os.environ)
        if isa is not None:
            env["TS_BITS_ISA"] = isa
        said = subprocess.run([self.tool("tstream"), "--version"], env=env, check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        return next(line for line in said.splitlines() if line.startswith("vector code"))


def _read(path):
    with open(path, "rb") as f:
        return f.read()


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
