#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check.py - what packages, recipes, images and examples say fits the tree; prints what does not.

  versions   the recipes name the version of configure.ac
  needs      each library of setup.py is among the needs of every recipe and image
  stages     each stage that .ci/run knows by name alone is in the table of docs/install.md
  lists      scripts that use bare roots have no `A && B` that hides a failure of A
  workflows  what they call exists; that of a release calls scripts/release and nothing else
  schemas    examples/kubernetes, by the schemas that kubernetes-validate ships; an MPIJob by
             mpijob.schema.json, and its pods by those of Kubernetes

The last two need PyYAML and kubernetes-validate. Without these they are left out, which the last
line says; --all makes that an error.
"""
import ast
import json
import os
import re
import sys

try:
    import yaml
except ImportError:
    yaml = None
try:
    import jsonschema
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KUBERNETES = ("1.29", "1.34")  # the oldest and the newest that examples are checked for
# Packages of Spack for the conda names of setup.py, where they differ
SPACK = {"c-compiler": "c", "make": "gmake", "pkg-config": "pkgconfig", "lz4-c": "lz4",
         "zlib": "zlib-api"}
found = []


def bad(text):
    found.append(text)


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def tables_of_setup():
    """NEEDED and WANTED of setup.py: name, (apt, dnf, conda), how."""
    tables = {}
    for node in ast.parse(read("setup.py")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("NEEDED", "WANTED"):
            tables[node.targets[0].id] = ast.literal_eval(node.value)
    return tables["NEEDED"] + tables["WANTED"]


def check_versions():
    version = re.search(r"AC_INIT\(\[tstream\], \[([^]]+)\]", read("configure.ac"))[1]
    for name, pattern in (("packaging/conda/recipe.yaml", r'^  version: "([^"]+)"$'),
                          ("packaging/spack/package.py", r'^    version\("([^"]+)"'),
                          ("packaging/spack/package.py", r'^    url = .*/tstream-(.+)\.tar\.gz"$'),
                          ("debian/changelog", r"\Atstream \(([^)]+)\)")):
        named = re.findall(pattern, read(name), re.M)
        if named[:1] != [version]:
            bad(f"{name} names version {named}, and configure.ac {version}")
    numpy = re.search(r'"numpy >= ([0-9.]+)"', read("pyproject.toml"))[1]
    if f"numpy >={numpy}\n" not in read("packaging/conda/recipe.yaml"):
        bad(f"packaging/conda/recipe.yaml names another NumPy than pyproject.toml: {numpy}")
    if f'"py-numpy@{numpy}:"' not in read("packaging/spack/package.py"):
        bad(f"packaging/spack/package.py names another NumPy than pyproject.toml: {numpy}")


def words(name):
    return set(re.findall(r"[a-z0-9][a-z0-9+.-]*", read(name)))


def check_needs():
    rows = tables_of_setup()
    if len(rows) < 8:
        bad("setup.py: NEEDED and WANTED have few rows: the search for them is broken")
    conda = words("packaging/conda/recipe.yaml") | {"c-compiler"}
    spack = set(re.findall(r'depends_on\("([a-z0-9-]+)', read("packaging/spack/package.py")))
    debian = words("debian/control")
    image = words("packaging/containers/build.sh")
    for what, (apt, _, of_conda), _ in rows:
        if of_conda not in conda:
            bad(f"packaging/conda/recipe.yaml lacks {of_conda} for {what}")
        if SPACK.get(of_conda, of_conda) not in spack:
            bad(f"packaging/spack/package.py lacks {SPACK.get(of_conda, of_conda)} for {what}")
        for package in apt.split():
            if package not in image:
                bad(f"packaging/containers/build.sh lacks {package} for {what}")
            if package not in debian | {"gcc", "libc6-dev", "make"}:  # build-essential has these
                bad(f"debian/control lacks {package} for {what}")


def check_stages():
    """Each stage that runs only when it is named has a line in the table, with its last run."""
    text = read(".ci/run")
    by_name = text[text.rindex("    case $stage in\n"):]
    names = re.findall(r"^    ([a-z]+)\) ", by_name[:by_name.index("esac")], re.M)
    rows = [row for row in read("docs/install.md").splitlines() if row.startswith("|")]
    for name in names:
        if name in ("bits", "stranger"):  # these ask about the source
            continue
        if not any(f"`.ci/run {name}`" in row for row in rows):
            bad(f"docs/install.md: no row of a table names `.ci/run {name}`")
    if len(names) < 5:
        bad(".ci/run: few stages are found: the search for them is broken")


def without_groups(text):
    """A statement without what is in its quotes of one line, parentheses and braces."""
    before = None
    while before != text:
        before = text
        text = re.sub(r"\([^()]*\)|(?<= )\{ [^{}]*\}|\"[^\"\n]*\"", "", text)
    return text


def hiding(text):
    """Statements `A && B` of a script, of which `sh -e` ignores a failure of A. One that ends a
    function is its status."""
    harmless = r"^ *(?:#|if |while |until )|&& (?:break|continue|return\b.*)$"
    statements = re.sub(r"(?:\\|(?<=&&)|(?<=\|\|))\n\s*", " ", text).split("\n")
    for statement, after in zip(statements, statements[1:] + [""]):
        words = without_groups(statement)
        if (" && " in words and "||" not in words and after.strip() != "}" and
                not re.search(harmless, words)):
            yield statement.strip()


def check_lists():
    names = sorted(os.listdir(os.path.join(TOP, "scripts")))
    of_roots = [name for name in names if "scripts/bare-root" in read("scripts/" + name)]
    for name in of_roots:
        for statement in hiding(read("scripts/" + name)):
            bad(f"scripts/{name}: a failure is ignored, write two lines: {statement}")
    if len(of_roots) < 6:
        bad("few scripts use scripts/bare-root: the search for them is broken")


def check_workflow():
    for name in ("ci", "docs", "release"):
        jobs = yaml.safe_load(read(f".github/workflows/{name}.yml")).get("jobs", {})
        lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        calls = {call for line in lines
                 for call in re.findall(r"(?:scripts|tests|\.ci)/[\w-]+", line)}
        if not calls:
            bad(f".github/workflows/{name}.yml has no jobs that call the project")
        for call in sorted(calls):
            if not os.access(os.path.join(TOP, call), os.X_OK):
                bad(f".github/workflows/{name}.yml calls {call}, which is no program")
        if name == "release" and calls != {"scripts/release"}:
            bad(f".github/workflows/release.yml calls {sorted(calls)}, not scripts/release alone")


def complain_of(name, data):
    """A resource of Kubernetes, by each version of its schemas."""
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(data, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            bad(f"{name}, Kubernetes {version}: {e.message if hasattr(e, 'message') else e}")


def mpijob(name, data):
    schema = json.loads(read("packaging/mpijob.schema.json"))
    for error in jsonschema.Draft7Validator(schema).iter_errors(data):
        bad(f"{name}: {'.'.join(map(str, error.absolute_path))}: {error.message}")
    for role, replica in data["spec"]["mpiReplicaSpecs"].items():
        complain_of(f"{name}: {role}", {"apiVersion": "v1", "kind": "PodTemplate",
                                        "metadata": {"name": role.lower()},
                                        "template": replica.get("template")})


def resource(name, data):
    if data["kind"] == "MPIJob":
        mpijob(name, data)
    else:
        complain_of(name, data)


def check_schemas():
    names = sorted(os.listdir(os.path.join(TOP, "examples/kubernetes")))
    for name in names:
        resource(name, yaml.safe_load(read(f"examples/kubernetes/{name}")))
    if names != ["job.yaml", "mpijob.yaml"]:
        bad(f"examples/kubernetes has {names}")
    # what the check is worth: it refuses a word that is no field, and a number that is text
    before = len(found)
    job = yaml.safe_load(read("examples/kubernetes/job.yaml"))
    job["spec"]["template"]["spec"]["containers"][0]["comand"] = ["true"]
    resource("job with a fault", job)
    middle = len(found)
    several = yaml.safe_load(read("examples/kubernetes/mpijob.yaml"))
    several["spec"]["slotsPerWorkers"] = 1
    resource("MPIJob with a fault", several)
    after = len(found)
    worker = yaml.safe_load(read("examples/kubernetes/mpijob.yaml"))
    worker["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] = 1
    resource("pod with a fault", worker)
    last = len(found)
    del found[before:]
    if not before < middle < after < last:
        bad("check.py takes faults in examples/kubernetes")


def main():
    left = []
    checks = [check_versions, check_needs, check_stages, check_lists]
    if yaml is not None:
        checks.append(check_workflow)
    else:
        left.append("workflows")
    if yaml is not None and kubernetes_validate is not None:
        checks.append(check_schemas)
    else:
        left.append("schemas")
    for check in checks:
        check()
    for text in found:
        print(text)
    if left:
        print("left out: " + ", ".join(left))
    sys.exit(bool(found) or bool(left and "--all" in sys.argv[1:]))


main()
