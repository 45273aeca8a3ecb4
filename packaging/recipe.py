#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""recipe.py conda|spack packages|steps - what a recipe says, for scripts/recipes in a bare Debian.

packages  the packages of Debian for its needs, by the names that setup.py has for each library
steps     a script of its steps: build, install, and its own tests, in the folder of the source
          below PREFIX. Those of Spack come from package.py, by a stand-in for spack.package
conda needs PyYAML.
"""
import ast
import os
import re
import shlex
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
PREFIX = "/opt/tstream"
SYSTEMS = "spack_repo.builtin.build_systems"
# Packages of Debian for needs that are no libraries of setup.py
OTHERS = {"python": "python3", "numpy": "python3-numpy", "py-numpy": "python3-numpy",
          "hdf5": "libhdf5-dev", "c": "gcc libc6-dev", "gmake": "make", "pkgconfig": "pkg-config",
          "lz4": "liblz4-dev", "zlib-api": "zlib1g-dev"}


def site():
    return PREFIX + "/lib/python%d.%d/site-packages" % sys.version_info[:2]


def debian(needs):
    """Packages of Debian for needs of a recipe."""
    with open(os.path.join(TOP, "setup.py"), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    names = dict(OTHERS)
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("NEEDED", "WANTED"):
            names.update({conda: apt for _, (apt, _, conda), _ in ast.literal_eval(node.value)})
    return sorted({package for need in needs for package in names[need].split()})


# ---- conda-forge ----
def recipe():
    import yaml
    with open(os.path.join(HERE, "conda", "recipe.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(f)


def conda_packages():
    requirements = recipe()["requirements"]
    needs = [re.sub(r"^\$\{\{ (?:compiler|stdlib)\('c'\) \}\}$", "c", need).split()[0]
             for kind in ("build", "host", "run") for need in requirements[kind]]
    return debian(needs)


def conda_steps():
    whole = recipe()
    lines = [f"export PREFIX={PREFIX} SP_DIR={site()} PYTHON=/usr/bin/python3",
             "export CPU_COUNT=$(nproc)",
             'mkdir -p "$PREFIX/bin"', 'ln -s "$PYTHON" "$PREFIX/bin/python"',
             "export PATH=$PREFIX/bin:$PATH PYTHONPATH=$SP_DIR",
             "export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig",
             "bash -eu packaging/conda/" + whole["build"]["script"]]
    for test in whole["tests"]:
        lines += ["here=$(mktemp -d)",
                  "cp -R " + " ".join(test["files"]["source"]) + ' "$here"',
                  '(cd "$here"', *test["script"], ")"]
    return lines


# ---- Spack ----
class Variants:
    """The spec of a package with the variants that are on."""

    def __init__(self, on):
        self.on = on

    def satisfies(self, what):
        return what[1:] in self.on if what[0] == "+" else what[1:] not in self.on


class Stand:
    """What package.py finds in modules of Spack 1.0. Directives are kept, commands become lines."""

    def __init__(self):
        self.needs, self.on, self.after, self.lines = [], set(), [], []

    def modules(self):
        """By name. Each has what Spack has there, and nothing of the others."""
        made = {}
        for name in ("spack.package", SYSTEMS + ".autotools", SYSTEMS + ".cuda"):
            parts = name.split(".")
            for n in range(1, len(parts) + 1):
                made.setdefault(".".join(parts[:n]), types.ModuleType(".".join(parts[:n])))
        made[SYSTEMS + ".autotools"].AutotoolsPackage = type("AutotoolsPackage", (), {})
        made[SYSTEMS + ".cuda"].CudaPackage = type("CudaPackage", (), {})
        made["spack.package"].__dict__.update(
            depends_on=lambda need, when=None, type=None: self.needs.append((need, when)),
            extends=lambda need, when=None: self.needs.append((need, when)),
            variant=lambda name, default, description: default and self.on.add(name),
            run_after=lambda phase: self.kept, on_package_attributes=lambda **_: lambda f: f,
            Executable=lambda path: lambda *words: self.command(path, *words),
            python=lambda *words: self.command("python3", *words), python_platlib=site(),
            join_path=os.path.join,
            **{name: lambda *_, **__: None for name in ("license", "version", "conflicts")})
        return made

    def kept(self, method):
        self.after.append(method)
        return method

    def command(self, *words):
        self.lines.append(shlex.join(words))


def spack():
    stand = Stand()
    sys.modules.update(stand.modules())
    path = os.path.join(HERE, "spack", "package.py")
    world = {"__name__": "package"}
    with open(path, encoding="utf-8") as f:
        exec(compile(f.read(), path, "exec"), world)
    package = world["Tstream"]()
    package.spec = Variants(stand.on)
    package.prefix = types.SimpleNamespace(bin=PREFIX + "/bin", lib=PREFIX + "/lib")
    return stand, package


def spack_packages():
    stand, package = spack()
    return debian({re.split("[@%+~]", need)[0] for need, when in stand.needs
                   if when is None or package.spec.satisfies(when)})


def spack_steps():
    stand, package = spack()
    stand.command("./configure", "--prefix=" + PREFIX, *package.configure_args())
    stand.lines += ["make -j$(nproc)", "make install"]
    for method in stand.after:
        method(package)
    return [f"export PATH={PREFIX}/bin:$PATH PYTHONPATH={site()}", *stand.lines]


STEPS = {("conda", "packages"): conda_packages, ("conda", "steps"): conda_steps,
         ("spack", "packages"): spack_packages, ("spack", "steps"): spack_steps}
if __name__ == "__main__":
    print("\n".join(STEPS[tuple(sys.argv[1:])]()))
