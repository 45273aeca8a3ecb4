# SPDX-License-Identifier: BSD-3-Clause
# make_alone.sh - `make` in the build folder $build, from inside a test: one at a time, as two that link or
# write the same file take it from each other, and without the flags of the make that runs the tests.
make_alone()
{
    flock "$build/config.status" env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$build" "$@"
}
