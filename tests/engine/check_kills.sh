#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A dozen kills of tshard build and tstream cp, and some of methods with a state of their own: kill_campaign.sh makes as many as one likes.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
tools=${TOP_BUILDDIR:-$top}/tools
sh "$top/tests/engine/kill_campaign.sh" -n 12 -s 1 "$tools"
sh "$top/tests/engine/kill_campaign.sh" -n 6 -s 2 "$tools" --cpu --simplex 1 --accelerate
sh "$top/tests/engine/kill_campaign.sh" -n 6 -s 3 "$tools" --cpu --nonneg --restarts 3
