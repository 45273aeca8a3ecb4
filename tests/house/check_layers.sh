#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No include points up the layers:
#   base <- format <- { source, stream } <- { build, cpu, gpu, mpi, model } <- cpd <- engine <- api <- tools.
# A file includes only its own folder and those to its left, by full path; folders in one pair of braces
# do not include each other; cpd includes nothing of cpu, gpu and mpi; HAVE_CUDA appears only in engine, and what else configure finds of CUDA in gpu. Of the library the programs include
# tstream.h, api/tools.h and the rows of base/settings.def alone, and use what these name; what api/tools.h includes needs no CUDA. Headers of src/gpu name nothing of CUDA, but for gpu_types.h. No sentence in src/ names an option. The check is first shown to work, on a small tree
# where these rules are broken.
set -eu

# From the lowest: a folder includes those of a lower number. docs/architecture.py draws the same.
levels='base 1 format 2 source 3 stream 3 build 4 cpu 4 gpu 4 mpi 4 model 4 cpd 5 engine 6 api 7 tools 8'

# Prints the offences in the tree $1, one a line.
offences()
{
    (cd "$1" && find src tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh') | sort |
    while read -r file; do
        awk -v file="$file" -v levels="$levels" '
            function rank(folder) { return (folder in level) ? level[folder] : 0 }
            BEGIN {
                n = split(levels, word, " ")
                for (i = 1; i < n; i += 2)
                    level[word[i]] = word[i + 1]
                own = file; sub(/^src\//, "", own); sub(/\/.*/, "", own)
            }
            /^[ \t]*#[ \t]*include[ \t]*"/ {
                name = $0; sub(/^[^"]*"/, "", name); sub(/".*/, "", name)
                if (name == "config.h")
                    next
                folder = name; if (!sub(/\/.*/, "", folder)) folder = ""
                if (rank(folder) == 0)
                    print file ":" FNR ": \"" name "\" is no path from src/ or tools/"
                else if (own == "tools" && folder != own && name != "api/tools.h" && name != "base/settings.def")
                    print file ":" FNR ": tools must not include \"" name "\", but \"api/tools.h\""
                else if (own == "cpd" && (folder == "cpu" || folder == "gpu" || folder == "mpi"))
                    print file ":" FNR ": cpd must not include \"" name "\": a method sees no processor, but the table of stream/backend.h"
                else if (folder != own && rank(folder) >= rank(own))
                    print file ":" FNR ": " own " must not include \"" name "\""
            }
            # the sentences of src/ are read by users of C and of Python too: base/setting.h. Options of
            # other programs are named with them; base/opt.c is what makes those of ours
            own != "tools" && file !~ /^src\/base\/(opt|opt_help|setting)\.[ch]$/ && /"[^"]*--[%a-z]/ {
                text = $0; gsub(/\/\*([^*]|\*[^\/])*(\*\/|$)/, "", text)
                gsub(/(nvidia-smi|zstdcat) --[a-z-]+|--[a-z-]+ of configure/, "", text)
                if (text ~ /"[^"]*--[%a-z]/)
                    print file ":" FNR ": a sentence names an option; base/setting.h has marks for them"
            }
            /HAVE_CUDA/ && own != "engine" {
                print file ":" FNR ": HAVE_CUDA outside of engine"
            }
            # kernels of another vendor can stand beside these: src/gpu/team/gpu_types.h says what differs
            file ~ /^src\/gpu\/.*\.h$/ && file !~ /\/gpu_types\.h$/ && !/^ *\*/ && /cuda[A-Z_]|<cuda|CU[a-z]*_st/ {
                text = $0; gsub(/\/\*([^*]|\*[^\/])*(\*\/|$)/, "", text)
                if (text ~ /cuda[A-Z_]|<cuda|CU[a-z]*_st/)
                    print file ":" FNR ": a header of src/gpu names what is of CUDA; gpu/team/gpu_types.h has other names"
            }
            /HAVE_NCCL|NCCL_LIBRARY|CUDA_ARCHITECTURES/ && own != "gpu" {
                print file ":" FNR ": what configure found of CUDA, outside of gpu"
            }
        ' "$1/$file"
    done
    tool_offences "$1"
    cuda_offences "$1"
}

# A directory that another process may replace is opened once, and its files through that. What is looked
# at by its path instead is counted, by file, in the list $2.
path_offences()
{
    (cd "$1" && find src/format src/model src/cpd src/engine src/api tools -name '*.c' 2> /dev/null) | sort |
    while read -r file; do
        n=$(sed 's/"\([^"\\]\|\\.\)*"//g' "$1/$file" |
            grep -vE '^(int|static|FILE|const|char|struct ts_[a-z_]* \*)[^;=]*\)?$|^ *(/?\*)' |
            grep -oE '(^|[^a-z_>.])(open|fopen|access|l?stat|opendir|ts_models_(there|kept)|ts_state_open|ts_file_read_(open|small))\(' |
            wc -l)
        [ "$n" -eq 0 ] || printf '%d\t%s\n' "$n" "$file"
    done > "$tmp/by_path"
    awk -F '\t' '
        FNR == NR { if (!/^#/) listed[$2] = $1; next }
        { found[$2] = $1; if ($1 != listed[$2] + 0)
            print $2 ": looks at " $1 " files by path, tests/house/by_path.tsv lists " listed[$2] + 0 \
                ": open their directory once (base/files/open_dir.h), or say there why not" }
        END { for (file in listed) if (!(file in found)) print file ": is listed in tests/house/by_path.tsv and looks at no file by path" }
    ' "$2" "$tmp/by_path"
}

# Programs without CUDA include api/tools.h, too.
cuda_offences()
{
    (
        cd "$1/src"
        todo=api/tools.h seen=
        while
            # shellcheck disable=SC2086 # names without blanks
            set -- $todo
            [ $# -gt 0 ]
        do
            todo=
            for file; do
                case " $seen " in *" $file "*) continue ;; esac
                seen="$seen $file"
                [ -f "$file" ] || continue
                grep -n '^#include <cuda' "$file" | sed "s|^|src/$file: api/tools.h includes it, line |"
                todo="$todo $(sed -n 's/^#include "\(.*\)"/\1/p' "$file" | tr '\n' ' ')"
            done
        done
    )
}

# What tools/ call of the library is named in one of the two headers, and what api/tools.h names is called.
tool_offences()
{
    named=$1/src/api/tools.h
    grep -ow 'ts_[a-z0-9_]*' "$1/include/tstream.h" | sort -u > "$tmp/public"
    sed -n '/^#define TS_API_TOOLS_H/,$p' "$named" | grep -ow 'ts_[a-z0-9_]*' | sort -u > "$tmp/named"
    # without comments, sentences, directives, types; fields and locals are not called ts_
    find "$1/tools" -name '*.[ch]' -exec cat {} + | sed 's/"\([^"\\]\|\\.\)*"/""/g' | awk '
        /^[ \t]*#/ && !/^[ \t]*#[ \t]*define/ { next }
        {
            line = $0
            while (1) {
                if (inside) {
                    if ((i = index(line, "*/")) == 0) { line = ""; break }
                    line = substr(line, i + 2); inside = 0
                }
                if ((i = index(line, "/*")) == 0) break
                printf "%s ", substr(line, 1, i - 1)
                line = substr(line, i + 2); inside = 1
            }
            print line
        }' | tr -s ' \t\n' ' ' | sed 's/\(struct\|enum\|union\) ts_[a-z0-9_]*//g' |
        grep -ow 'ts_[a-z0-9_]*' | sort -u > "$tmp/called"
    cat "$tmp/public" "$tmp/named" | sort -u | comm -23 "$tmp/called" - |
        sed 's|$|: tools use it, and neither tstream.h nor src/api/tools.h names it|'
    comm -13 "$tmp/called" "$tmp/named" | sed 's|$|: src/api/tools.h names it, and tools do not use it|'
    comm -12 "$tmp/public" "$tmp/named" | sed 's|$|: src/api/tools.h names what tstream.h has|'
}

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/src/base" "$tmp/src/format" "$tmp/src/cpu" "$tmp/src/gpu" "$tmp/src/engine" "$tmp/src/cpd" "$tmp/tools"
printf '#include "format/a.h"\n' > "$tmp/src/base/up.h"
printf '#include "gpu/a.h"\n' > "$tmp/src/cpu/sideways.c"
printf '#include "cpu/a.h"\n#include "mpi/a.h"\n#include "model/a.h"\n' > "$tmp/src/cpd/method.c"
printf '  # include "tools/a.h"\n' > "$tmp/src/gpu/kernel.cu"
printf '#include "a.h"\n' > "$tmp/src/format/short.c"
printf '#ifdef HAVE_CUDA\n#endif\n#ifdef HAVE_NCCL\n#endif\n' > "$tmp/src/format/cuda.c"
printf '#include "config.h"\n#include "base/a.h"\n#include "format/b.h"\n' > "$tmp/src/format/fine.c"
printf '#include "cpd/a.h"\n#include "tools/a.h"\n#ifdef HAVE_CUDA\n#endif\n' > "$tmp/src/engine/up_too.c"
cat > "$tmp/src/base/sentence.c" << 'END'
int a = fail("give a lower --rank");
int b = fail("--%s is wrong", name); /* "--memory" */
int c = fail("see nvidia-smi --compute-mode"); /* as "--memory" does */
int d = fail("(--with-cuda of configure)" TS_SET_RANK);
END
mkdir "$tmp/src/api" "$tmp/include"
printf 'int ts_open(void);\nint ts_close(void);\n' > "$tmp/include/tstream.h"
printf '#include "gpu/b.h"\n' > "$tmp/src/gpu/a.h"
printf '#include <cuda_runtime.h>\n' > "$tmp/src/gpu/b.h"
printf '/* as cudaMalloc\n * gives; cudaFree */\nint f(void *p); /* cudaFree */\nint g(cudaStream_t s);\n' > "$tmp/src/gpu/c.h"
printf 'typedef struct CUstream_st *ts_gpu_stream;\n' > "$tmp/src/gpu/gpu_types.h"
printf '/* ts_far */\n#define TS_API_TOOLS_H\n#include "gpu/a.h"\n/* ts_used, ts_unused, ts_close */\n' > "$tmp/src/api/tools.h"
cat > "$tmp/tools/fine.c" << 'END'
#include <tstream.h>
#include "api/tools.h"
#include "tools/a.h"
/* ts_far is only spoken of, /* and
 * ts_beyond, */ struct ts_near a = { 0, "ts_\"word" }; enum
ts_kind k; int b = /* */ ts_used(&a) + ts_open() + ts_close(); /* ts_behind */
END
cat > "$tmp/tools/not.c" << 'END'
#include "gpu/a.h"
#include "api/api.h"
int c = /* ts_used */ ts_far(); int (*d)(void) = ts_passed;
END
found=$(offences "$tmp" | wc -l)
if [ "$found" -ne 20 ]; then
    echo "the check itself is broken: it finds $found of 20 offences:" >&2
    offences "$tmp" >&2
    exit 1
fi

printf 'int f(void)\n{\n    return open("a", 0) + ts_models_there(b) + d->open(c); /* x */\n}\n' > "$tmp/src/engine/path.c"
printf 'int f(void)\n{\n    return stat(path, &st);\n}\n' > "$tmp/src/cpd_path.c" # in no folder of these
printf '3\tsrc/engine/path.c\n1\tsrc/engine/gone.c\n' > "$tmp/list"
if [ "$(path_offences "$tmp" "$tmp/list" | wc -l)" -ne 2 ]; then
    echo "the check of paths is broken:" >&2
    path_offences "$tmp" "$tmp/list" >&2
    exit 1
fi
found=$(path_offences "$top" "$top/tests/house/by_path.tsv")
if [ -n "$found" ]; then
    echo "$found" >&2
    exit 1
fi

found=$(offences "$top")
if [ -n "$found" ]; then
    echo "$found" >&2
    exit 1
fi

# Each folder has its level; the picture has the same, and the pages write it as one line.
for folder in "$top"/src/*/; do
    case " $levels " in
    *" $(basename "$folder") "*) ;;
    *) echo "src/$(basename "$folder") has no level" >&2; exit 1 ;;
    esac
    grep -q "^| .src/$(basename "$folder"). |" "$top/docs/house.md" ||
        { echo "docs/house.md: the table of folders has no row of src/$(basename "$folder")" >&2; exit 1; }
done
# Files that the page names are there.
grep -o '`[a-z]*/[a-z/_]*\(\.[a-z]*\)`' "$top/docs/house.md" | tr -d '`' | sort -u | while read -r file; do
    [ -e "$top/$file" ] || { echo "docs/house.md: names $file, which is not there" >&2; exit 1; }
done
if command -v python3 > /dev/null; then
    drawn=$(python3 "$top/docs/architecture.py" --levels | grep -v '^python ' | sort)
    if [ "$drawn" != "$(echo "$levels" | xargs -n 2 | sort)" ]; then
        echo "docs/architecture.py draws other levels: $drawn" >&2
        exit 1
    fi
fi
line=$(echo "$levels" | xargs -n 2 | awk '
    { if ($2 != last) { if (NR > 1) close_group(); folders = $1; n = 1; last = $2 } else { folders = folders ", " $1; n++ } }
    function close_group() { line = line (line == "" ? "" : " <- ") (n > 1 ? "{ " folders " }" : folders) }
    END { close_group(); print line }')
for page in docs/architecture.md docs/contributing.md; do
    grep -qF "$line" "$top/$page" || { echo "$page does not say: $line" >&2; exit 1; }
done

# scripts/climbs finds calls of members that reach a higher layer: of a tree of four files there are two.
if command -v python3 > /dev/null; then
    mkdir -p "$tmp/up/src/base" "$tmp/up/src/cpd" "$tmp/up/tools"
    printf 'int ts_low(struct x *p)\n{\n    /* p->other(1) */ return p->call(p, 1) + p->near(2);\n}\n' > "$tmp/up/src/base/low.c"
    printf 'static int near_one(int n)\n{\n    return n;\n}\nint ts_mid(struct x *p)\n{\n    p->near = near_one;\n    return ts_low(p);\n}\n' > "$tmp/up/src/cpd/mid.c"
    printf 'int high(struct x *p, int n)\n{\n    return n;\n}\nint more(int n)\n{\n    return n;\n}\n' > "$tmp/up/tools/high.c"
    printf 'static int run_one(void)\n{\n    struct x a = { .call = high, .other = more };\n    return ts_mid(&a);\n}\nint not_reached(struct x *p)\n{\n    p->near = more;\n    return 0;\n}\n' > "$tmp/up/tools/tstream_cp.c"
    said=$("$top/scripts/climbs" "$tmp/up")
    [ "$said" = "4 files, 6 functions, 2 climbs" ] || { echo "scripts/climbs of a small tree: $said" >&2; exit 1; }
    # scripts/tokens counts code alone, and scripts/quiz draws it.
    { printf '/* a "b" */ #define X "c d" // e\nint f(void)\n{\n'; yes '    x += y->z; /* w */' | head -n 98; printf '}\n'; } > "$tmp/up/src/cpd/long.c"
    said=$("$top/scripts/tokens" "$tmp/up" | sed -n 's/^src\/cpd  *2  *//p; /long.c/p' | xargs)
    [ "$said" = "111 633 src/cpd/long.c: f has 101 lines" ] || { echo "scripts/tokens of a small tree: $said" >&2; exit 1; }
    printf '    low_sum += mid_sum * high_sum;\n' >> "$tmp/up/src/cpd/long.c"
    said=$("$top/scripts/quiz" -n 1 --answers 3 "$tmp/up" | xargs)
    [ "$said" = "1. low_sum += mid_sum * high_sum; src/cpd/long.c:103" ] || { echo "scripts/quiz of a small tree: $said" >&2; exit 1; }
fi

# File names are unique in the tree, so that ts_<file>_ names one file.
same=$(cd "$top" && find src tools -name '*.[ch]' -o -name '*.cu' | sed 's|.*/||' | sort | uniq -d)
if [ -n "$same" ]; then
    echo "file names that are used twice: $same" >&2
    exit 1
fi

# No struct that owns something is copied by value.
if command -v python3 > /dev/null; then
    python3 "$top/tests/house/owners.py" "$top" >&2 || exit 1
fi

# No file of src/cpd calls itself through others, once it is built.
methods=${TOP_BUILDDIR:-$top/build}/src/libts_cpd.a
if [ -f "$methods" ] && command -v python3 > /dev/null && command -v nm > /dev/null; then
    python3 "$top/tests/house/circles.py" "$methods" >&2 || exit 1
fi
