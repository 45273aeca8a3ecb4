#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A dozen kills of tshard build and tstream cp: kill_campaign.sh makes as many as one likes.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
exec sh "$top/tests/kill_campaign.sh" -n 12 -s 1 "${TOP_BUILDDIR:-$top}/tools"
