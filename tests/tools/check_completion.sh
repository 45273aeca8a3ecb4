#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Completions of bash, zsh and fish, each asked by the shell itself where it is installed: every command
# and every option of --help is offered, the words that an option takes, and files where there are files.
set -eu

bin=${TOP_BUILDDIR:?}/tools
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 asked=0
complain()
{
    echo "$*" >&2
    failed=1
}

# offered SHELL WORD... : what the shell offers for the last word, one a line
offered()
{
    shell=$1
    shift
    case $shell in
    bash)
        bash --norc --noprofile -c '. "$1"; shift
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            "_$1"; printf "%s\n" "${COMPREPLY[@]}"' bash "$tmp/$1.bash" "$@" ;;
    fish)
        # shellcheck disable=SC2016
        HOME=$tmp fish --no-config -c 'source $argv[1]; complete -C (string join " " -- $argv[2..])' \
            "$tmp/$1.fish" "$@" | cut -f 1 ;;
    zsh)
        # the functions of zsh that take what _tstream describes, and print it
        # shellcheck disable=SC2016
        zsh -f -c 'name=$1 file=$2; shift 2
            _describe() { print -l -- ${commands%%:*} }
            _arguments() { print -rl -- "$@" | sed "s/^([^)]*)//; s/^[*]//; s/\[.*//; s/[=+-]*\$//" }
            _files() {}
            words=("$@") CURRENT=$#
            . "$file"' zsh "$1" "$tmp/$1.zsh" "$@" ;;
    esac
}

for shell in bash zsh fish; do
    command -v $shell > /dev/null || continue
    asked=$((asked + 1))
    for program in tshard tstream; do
        file=$tmp/$program.$shell
        "$bin/$program" --help-completion $shell > "$file"
        $shell -n "$file" || complain "$program: $shell does not read its completion"
        commands=$("$bin/$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p')
        offered $shell "$program" '' > "$tmp/offered"
        for command in $commands; do
            grep -qx "$command" "$tmp/offered" || complain "$shell: $program $command is not offered"
            "$bin/$program" "$command" --help |
                sed -n 's/^  \(-.,\|   \) --\([a-z0-9-]*\).*/--\2/p' > "$tmp/options"
            offered $shell "$program" "$command" -- > "$tmp/long"
            while read -r option; do
                grep -qx -e "$option" "$tmp/long" ||
                    complain "$shell: $program $command $option is not offered"
            done < "$tmp/options"
        done
    done
done

# expect SHELL "WORDS" THE WORDS...: is what is offered for the last of them
expect()
{
    shell=$1 words=$2
    shift 2
    command -v "$shell" > /dev/null || return 0
    offered "$shell" "$@" | sort | tr '\n' ' ' > "$tmp/words"
    [ "$(cat "$tmp/words")" = "$words" ] || complain "$shell: '$*' is completed to: $(cat "$tmp/words")"
}
expect bash "compare cp " tstream c
expect bash "float32 float64 " tstream cp --precision ''
expect bash "float64 " tstream cp --precision = float6
expect bash "float64 " tstream cp -p float6
# every loss, one with a number up to its colon, and the default, which help shows behind the others
losses=$({ "$bin/tstream" cp --help | sed -n 's/^ *--loss=//p' | tr '|' '\n' | sed 's/:.*/:/'; echo least-squares; } | sort | tr '\n' ' ')
[ "$(echo "$losses" | wc -w)" -ge 6 ] || complain "few losses are found: $losses"
expect bash "$losses" tstream cp --loss ''
expect bash "ktensor npy splatt " tstream cp --format ''
expect bash "f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 " tstream cp --dtype ''
expect bash "binary log1p scale= " tshard build --transform ''
expect bash "exchange " tstream bench ''
expect bash "--host-memory " tstream cp --host
expect fish "float32 float64 " tstream cp --precision ''
expect fish "exchange " tstream bench ''
touch "$tmp/amazon.tns"
cd "$tmp"
expect fish "amazon.tns " tshard build ama
[ "$asked" -gt 0 ] || { echo "skipped: there is no shell with completions here"; exit 77; }
exit "$failed"
