#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh [PACKAGE...] - the last stage of an image, once what build.sh made lies in /usr/local: the
# packages that it needs and these, and a user without rights.
set -eu

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# word splitting of the names is meant
# shellcheck disable=SC2046
apt-get install -qq -y --no-install-recommends python3 python3-numpy \
    $(cat /usr/local/share/tstream/packages) "$@"
rm -rf /var/lib/apt/lists/*
ldconfig
useradd --create-home --uid 10001 --user-group tstream
