#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Versions, needs and stages that packages, recipes and docs/install.md name, and lists of commands
# of scripts (packaging/check.py), and that faults in these are found.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2> /dev/null ||
    { echo "there is no Python 3"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -B "$top/packaging/check.py"

mkdir -p "$tmp/docs" "$tmp/.github"
for name in packaging debian examples .ci setup.py pyproject.toml configure.ac docs/install.md \
    .github/workflows scripts; do
    cp -R "$top/$name" "$tmp/$name"
done
chmod -R u+w "$tmp"
# takes TEXT FILE EDIT: a fault that must be found by these words
finds()
{
    cp "$tmp/$2" "$tmp/whole"
    sed "$3" "$tmp/whole" > "$tmp/$2"
    if python3 -B "$tmp/packaging/check.py" > "$tmp/out"; then
        echo "check.py takes $2 with $3"
        exit 1
    fi
    grep -qF "$1" "$tmp/out" || { echo "check.py: no '$1' in: $(cat "$tmp/out")"; exit 1; }
    cp "$tmp/whole" "$tmp/$2"
}
finds "names version" configure.ac 's/AC_INIT(\[tstream\], \[/&9/'
finds "names version" packaging/conda/recipe.yaml 's/  version: "/&9/'
finds "names version" packaging/spack/package.py 's/    version("/&9/'
finds "lacks liburing" packaging/conda/recipe.yaml '/- liburing$/d'
finds "lacks isa-l" packaging/spack/package.py '/"isa-l"/d'
finds "lacks libzstd-dev" debian/control '/libzstd-dev/d'
finds "lacks liblz4-dev" packaging/containers/build.sh 's/liblz4-dev//'
finds "a failure is ignored" scripts/deb-test 's/^    tshard --version/    true \&\&&/'
finds "no row of a table" docs/install.md '/ci.run deb/d'
