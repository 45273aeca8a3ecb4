#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No include points up the layers:
#   base <- format <- { source, stream } <- { build, cpu, gpu, model } <- cpd <- engine <- api <- tools.
# A file includes only its own folder and those to its left, by full path; folders in one pair of braces
# do not include each other; HAVE_CUDA appears only in engine and tools. The check is first shown to work, on
# a small tree where each of these rules is broken once.
set -eu

# Prints the offences in the tree $1, one a line.
offences()
{
    (cd "$1" && find src tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh') | sort |
    while read -r file; do
        awk -v file="$file" '
            function rank(folder) { return (folder in level) ? level[folder] : 0 }
            BEGIN {
                level["base"] = 1; level["format"] = 2; level["source"] = level["stream"] = 3
                level["build"] = level["cpu"] = level["gpu"] = level["model"] = 4
                level["cpd"] = 5; level["engine"] = 6; level["api"] = 7; level["tools"] = 8
                own = file; sub(/^src\//, "", own); sub(/\/.*/, "", own)
            }
            /^[ \t]*#[ \t]*include[ \t]*"/ {
                name = $0; sub(/^[^"]*"/, "", name); sub(/".*/, "", name)
                if (name == "config.h")
                    next
                folder = name; if (!sub(/\/.*/, "", folder)) folder = ""
                if (rank(folder) == 0)
                    print file ":" FNR ": \"" name "\" is no path from src/ or tools/"
                else if (folder != own && rank(folder) >= rank(own))
                    print file ":" FNR ": " own " must not include \"" name "\""
            }
            /HAVE_CUDA/ && own != "tools" && own != "engine" {
                print file ":" FNR ": HAVE_CUDA outside of engine and tools"
            }
        ' "$1/$file"
    done
}

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/src/base" "$tmp/src/format" "$tmp/src/cpu" "$tmp/src/gpu" "$tmp/src/engine" "$tmp/tools"
printf '#include "format/a.h"\n' > "$tmp/src/base/up.h"
printf '#include "gpu/a.h"\n' > "$tmp/src/cpu/sideways.c"
printf '  # include "tools/a.h"\n' > "$tmp/src/gpu/kernel.cu"
printf '#include "a.h"\n' > "$tmp/src/format/short.c"
printf '#ifdef HAVE_CUDA\n#endif\n' > "$tmp/src/format/cuda.c"
printf '#include "config.h"\n#include "base/a.h"\n#include "format/b.h"\n' > "$tmp/src/format/fine.c"
printf '#include "cpd/a.h"\n#include "tools/a.h"\n#ifdef HAVE_CUDA\n#endif\n' > "$tmp/src/engine/up_too.c"
printf '#include "tools/a.h"\n#include "gpu/a.h"\n#ifdef HAVE_CUDA\n#endif\n' > "$tmp/tools/fine.c"
found=$(offences "$tmp" | wc -l)
if [ "$found" -ne 6 ]; then
    echo "the check itself is broken: it finds $found of 6 offences" >&2
    exit 1
fi

found=$(offences "$top")
if [ -n "$found" ]; then
    echo "$found" >&2
    exit 1
fi

# File names are unique in the tree, so that ts_<file>_ names one file.
same=$(cd "$top" && find src tools -name '*.[ch]' -o -name '*.cu' | sed 's|.*/||' | sort | uniq -d)
if [ -n "$same" ]; then
    echo "file names that are used twice: $same" >&2
    exit 1
fi
