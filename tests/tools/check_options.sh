#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every command of every program: --help, the man page and the parser tell the same, lines fit a
# terminal, mistakes exit 2 with one sentence that offers the nearest name.
set -eu

bin=${TOP_BUILDDIR:?}/tools
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
complain()
{
    echo "$*" >&2
    failed=1
}

# expect_usage SENTENCE PROGRAM ARGS...: exit 2, nothing on standard output, the sentence on error.
expect_usage()
{
    sentence=$1
    shift
    code=0
    "$@" > "$tmp/out" 2> "$tmp/err" < /dev/null || code=$?
    [ "$code" -eq 2 ] || complain "$*: exits $code, expected 2"
    [ ! -s "$tmp/out" ] || complain "$*: prints to standard output"
    grep -qF -e "$sentence" "$tmp/err" || complain "$*: no '$sentence' in: $(cat "$tmp/err")"
}

version=$(sed -n 's/^AC_INIT(\[tstream\], \[\(.*\)\])/\1/p' "${TOP_SRCDIR:?}/configure.ac")
# check_page PAGE [COMMAND]: what the program prints is the page that make has made, and what man takes; it is in
# $tmp/man afterwards
check_page()
{
    "$tool" --help-man ${2+"$2"} > "$tmp/man"
    cmp -s "$tmp/man" "${TOP_BUILDDIR:?}/man/$1.1" || complain "man/$1.1 is not what $program prints of itself"
    if command -v mandoc > /dev/null; then
        mandoc -T lint -W warning < "$tmp/man" | grep -v 'missing date' > "$tmp/lint" || true
        [ ! -s "$tmp/lint" ] || complain "mandoc $1: $(head -n 3 "$tmp/lint")"
    fi
    if command -v man > /dev/null && man --version > /dev/null 2>&1; then
        LC_ALL=C MANROFFSEQ='' MANWIDTH=80 man --warnings -l "$tmp/man" > "$tmp/page" 2> "$tmp/err" ||
            complain "man $1 fails"
        [ ! -s "$tmp/err" ] || complain "man $1 warns: $(head -3 "$tmp/err")"
        awk 'length > 80 { print; n++ } END { exit n > 0 }' "$tmp/page" > "$tmp/wide" ||
            complain "man $1: more than 80 columns: $(head -n 3 "$tmp/wide")"
    fi
}

for program in tshard tstream; do
    tool=$bin/$program
    # --version: the one of configure.ac, a commit, and what config.h says is built in
    "$tool" --version > "$tmp/version"
    grep -Eq "^$program $version \(commit ([0-9a-f]{7,}(-dirty)?|unknown)\)\$" "$tmp/version" ||
        complain "$program --version: $(head -n 1 "$tmp/version")"
    grep -Eq '^GPUs: (not built in|CUDA [0-9]+\.[0-9] for sm_)' "$tmp/version" ||
        complain "$program --version: GPUs"
    if grep -q '^#define HAVE_ISAL 1' "${TOP_BUILDDIR:?}/config.h"; then gzip=ISA-L; else gzip=zlib; fi
    grep -q "^gzip: $gzip [0-9]" "$tmp/version" || complain "$program --version: gzip"
    grep -q '^vector code on this machine: ' "$tmp/version" || complain "$program --version: vector code"
    "$tool" --help > "$tmp/help"
    check_page "$program"
    for section in COMMANDS FILES ENVIRONMENT SIGNALS 'EXIT STATUS' 'SEE ALSO'; do
        grep -q "^.SH $section\$" "$tmp/man" || complain "man $program: no $section"
    done
    cp "$tmp/man" "$tmp/overview"
    expect_usage "unknown option '--help-man'" "$tool" --help-man nonsense
    commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' "$tmp/help")
    [ -n "$commands" ] || complain "$program --help lists no commands"
    for command in $commands; do
        "$tool" "$command" --help > "$tmp/help"
        awk -v who="$program $command" 'length($0) > 79 { print who ": " $0; bad = 1 }
                                        END { exit bad }' "$tmp/help" || failed=1
        grep -q "^Usage: $program $command " "$tmp/help" || complain "$program $command: usage line"
        grep -q "^.BR $program.-$command (1)\$" "$tmp/overview" || complain "man $program: no $program-$command(1)"
        check_page "$program-$command" "$command"
        for section in SYNOPSIS DESCRIPTION OPTIONS SIGNALS 'EXIT STATUS' 'SEE ALSO'; do
            grep -q "^.SH $section\$" "$tmp/man" || complain "man $program-$command: no $section"
        done
        # the pages it names
        sed -n '/^.SH SEE ALSO/,$s/^.BR \([a-z\\-]*\) (1),*$/\1/p' "$tmp/man" | tr -d '\\' > "$tmp/pages"
        [ -s "$tmp/pages" ] || complain "man $program-$command: sees no other page"
        while read -r other; do
            [ -s "${TOP_BUILDDIR:?}/man/$other.1" ] || complain "man $program-$command: there is no $other(1)"
        done < "$tmp/pages"
        # every long option of --help: in the man page, known to the parser
        for option in $(sed -n 's/^  \(-.,\|   \) --\([a-z0-9-]*\).*/\2/p' "$tmp/help"); do
            escaped=$(echo "$option" | sed 's/-/\\\\-/g')
            sed -n '/^.SH OPTIONS/,/^.SH/p' "$tmp/man" |
                grep -q -e "\\\\-\\\\-$escaped" ||
                complain "$program $command --$option: not in the man page"
            [ "$option" = help ] && continue
            code=0
            "$tool" "$command" "--$option=1" --help > "$tmp/out" 2> "$tmp/err" < /dev/null || code=$?
            if grep -q 'unknown option' "$tmp/err"; then
                complain "$program $command --$option: in --help, but unknown"
            fi
            # the last letter doubled is still nearest to the option itself, or to one as near
            last=${option#"${option%?}"}
            expect_usage "unknown option '--$option$last'; did you mean '--" \
                "$tool" "$command" "--$option$last"
        done
    done
    # -h: the options that matter, on one screen; where there is no choice of them, it is --help
    for command in $commands; do
        "$tool" "$command" --help > "$tmp/help"
        "$tool" "$command" -h > "$tmp/brief"
        cmp -s "$tmp/help" "$tmp/brief" && continue
        awk 'length > 80 { exit 1 } END { exit NR > 24 }' "$tmp/brief" || complain "$program $command -h: $(cat "$tmp/brief")"
        [ "$(grep -c '^  \(-.,\|   \) --' "$tmp/brief")" -eq 10 ] || complain "$program $command -h: not ten options"
        grep -qF "'$program $command --help' shows all options" "$tmp/brief" || complain "$program $command -h: where is the rest?"
        echo "$program $command" >> "$tmp/short"
    done
    expect_usage "unknown option '--hepl'; did you mean '--help'?" "$tool" --hepl
    expect_usage "a command is missing" "$tool"
    [ "$(wc -l < "$tmp/err")" -eq 5 ] || complain "$program: not five lines without a command: $(cat "$tmp/err")"
    for command in $(sed -n "s/^  $program \([a-z]*\) .*/\1/p" "$tmp/err"); do
        echo "$commands" | grep -qx "$command" || complain "$program shows $command, which is no command"
    done
    awk 'length > 80 { exit 1 }' "$tmp/err" || complain "$program: more than 80 columns without a command"
    expect_usage "unknown command 'xyzzy'" "$tool" xyzzy
done
expect_usage "unknown command 'biuld'; did you mean 'build'?" "$bin/tshard" biuld
expect_usage "unknown command 'mtkrp'; did you mean 'mttkrp'?" "$bin/tstream" mtkrp
expect_usage "unknown option '--rnak'; did you mean '--rank'?" "$bin/tstream" cp --rnak 5
expect_usage "unknown option '--memry'; did you mean '--memory'?" "$bin/tshard" build --memry=1G x
expect_usage "is missing" "$bin/tshard" build
expect_usage "standard input (-) can be given once" "$bin/tshard" build - x.tns - -o "$tmp/x.tsh"
# where results go is -o, --output in every command that writes; the old name is taken, with a note
for program in tshard tstream; do
    for command in $("$bin/$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p'); do
        "$bin/$program" "$command" --help > "$tmp/help"
        if grep -q -e '--out[= ]' "$tmp/help"; then complain "$program $command --help shows --out"; fi
        ! grep -q -e ' -o, ' "$tmp/help" || grep -q -e '^  -o, --output=' "$tmp/help" ||
            complain "$program $command: -o is not --output"
    done
done
(
    cd "$tmp"
    "$bin/tshard" gen --dims 9x8x7 -n 99 -q -o w.tsh > log
    for option in '-o x' '--output x' '--output=x' '--out x' '--out=x'; do
        for command in 'tstream cp w.tsh --cpu -q -r 1 -i 1 --force' 'tstream plan w.tsh --cpu -q -r 1' \
            'tshard part w.tsh --part 1/1 -q --force'; do
            rm -rf x
            # shellcheck disable=SC2086
            "$bin"/$command $option > log 2> err || complain "$command $option: $(cat err)"
            case $option in
            --out[\ =]*) [ "$(grep -c -e ': --out is an old name, which the next release drops: use --output$' err)" -eq 1 ] ;;
            *) ! grep -q 'old name' err ;;
            esac || complain "$command $option: $(cat err)"
            case $command in *' cp '*) grep -q '"out":"x"' x/run.json || complain "$command $option: $(cat x/run.json)" ;; esac
        done
    done
    exit "$failed"
) || failed=1
[ "$(tr "\n" " " < "$tmp/short")" = "tshard build tshard plan tstream cp tstream plan " ] || complain "commands with a short help: $(cat "$tmp/short")"
exit "$failed"
