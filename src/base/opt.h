/* SPDX-License-Identifier: BSD-3-Clause */
/* opt.h - the options of a command: one table that the parser, --help, the man page, the defaults
 * and the record that a run prints of itself all read, so they cannot disagree.
 *
 *   owner    strings parsed point into argv; the struct of arguments is the caller's
 *   units    TS_OPT_SIZE takes 4096, 64K, 64M, 2G, 1T (powers of 1024) and stores bytes;
 *            TS_OPT_DURATION takes 250ms, 30s, 5m, 11h30m, 2d and 0 and stores nanoseconds
 *   errors   0 or TS_EARG with a sentence that offers the nearest name
 */
#ifndef TS_BASE_OPT_H
#define TS_BASE_OPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum ts_opt_type {
    TS_OPT_FLAG,     /* int: 1 when given; takes no value */
    TS_OPT_U32,      /* uint32_t */
    TS_OPT_U64,      /* uint64_t; takes 10M, 2G as powers of 1000, 1e9 too */
    TS_OPT_SIZE,     /* uint64_t, bytes, powers of 1024 */
    TS_OPT_DURATION, /* uint64_t, nanoseconds */
    TS_OPT_DOUBLE,   /* double */
    TS_OPT_STRING,   /* const char * */
    TS_OPT_CHOICE,   /* int: position in `arg`, the words divided by '|' */
    /* const char *: "all", or numbers or names divided by commas. The value may be left out: it is
     * the next argument where that is of digits and commas, or would be an operand too many; else
     * "all" */
    TS_OPT_MODES,
    TS_OPT_LIST,    /* struct ts_opt_list: may be given many times */
    TS_OPT_NUMBERS, /* struct ts_opt_numbers: one whole number, or several divided by commas */
};

#define TS_OPT_LIST_MAX 64
struct ts_opt_list {
    uint32_t n;
    const char *item[TS_OPT_LIST_MAX];
};

#define TS_OPT_NUMBERS_MAX 64
struct ts_opt_numbers {
    uint32_t n, at[TS_OPT_NUMBERS_MAX];
};

struct ts_opt {
    const char *name; /* long name, without the dashes; NULL ends the table */
    char letter;      /* short name, or 0 */
    enum ts_opt_type type;
    size_t at;        /* offset in the struct of arguments */
    const char *def;  /* default as a user would type it; NULL: none (0, NULL) */
    const char *arg;  /* the name of the value in --help, "N", "SIZE"; the words of a CHOICE */
    const char *help; /* one or more sentences, lower-case start, no full stop at the end */
};

/* Another name for an option, as that of another language. `option` is the name of a row. */
struct ts_opt_alias {
    const char *name, *option;
};

struct ts_cmd {
    const char *program;  /* "tshard" */
    const char *name;     /* "build"; NULL when the program has one command */
    const char *operands; /* "FILE...", "[TENSOR.tsh]" or "" */
    uint32_t min_operands, max_operands;
    const char *summary;  /* one line */
    const char *text;     /* paragraphs for --help and the man page, divided by blank lines */
    const char *examples; /* lines of "command\n  what it does\n" or NULL */
    const struct ts_opt *opts;
    /* headings of the sections of --help, in order; NULL ends the list. NULL: there are no
     * sections */
    const char *const *headings;
    const unsigned char *section; /* the number of the heading over each of opts */
    /* options that -h shows, divided by blanks; NULL: -h shows what --help does */
    const char *brief;
    /* old names, which help does not show; a name of NULL ends the list. NULL: none */
    const struct ts_opt_alias *aliases;
    /* options or aliases of before, divided by blanks: help shows the other name. NULL: none */
    const char *old_names;
    int (*run)(const struct ts_cmd *cmd, int argc, char **argv);
};

/* Sets every option of the table to its default. */
void ts_opt_defaults(const struct ts_cmd *cmd, void *args);

/* Finds an option by its own or its second name, which has `len` bytes. NULL: not found. */
const struct ts_opt *ts_opt_named(const struct ts_cmd *cmd, const char *name, size_t len);

/* The option with the name that help shows: that of its alias if its own is an old one. */
struct ts_opt ts_opt_shown(const struct ts_cmd *cmd, const struct ts_opt *opt);

/* The first old name in argv[1..argc-1]. *instead: the option's name in help. NULL: there is no old
 * name. */
const char *ts_opt_old(const struct ts_cmd *cmd, int argc, char **argv, const char **instead);

/* Parses argv[1..argc-1] (argv[0] is the command's name) into args, after setting the defaults.
 * Options may stand between operands; `--` ends them. `--name=value`, `--name value`, `-nvalue` and
 * `-n value` are all taken. operand gets the operands in order (room for argc). Returns 0; 1 for
 * --help and 2 for -h (then nothing else is done); or TS_EARG. *given (may be NULL): bit i is set
 * when option i was given. */
int ts_opt_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
                 char **operand, uint64_t *given, struct ts_err *err);

/* --help of one command, complete. */
void ts_opt_help(const struct ts_cmd *cmd, FILE *to);

/* -h: usage, the options of cmd->brief with the first sentence of each, the first example, and
 * where the rest is. A command without a brief shows what --help does. */
void ts_opt_brief(const struct ts_cmd *cmd, FILE *to);

/* The sections of the command's manual page that follow from the same table: SYNOPSIS, DESCRIPTION,
 * OPTIONS and EXAMPLES, for man(7). */
void ts_opt_man(const struct ts_cmd *cmd, FILE *to);

/* Writes the value of an option as a user would type it: "16", "64M" as bytes "67108864", "5m" as
 * seconds "300s" (or "1500ms"), "" when there is none, the items of a LIST and NUMBERS divided by
 * ','. Cut to `size` when longer. */
void ts_opt_text(const struct ts_opt *opt, const void *args, char *buf, size_t size);

/* Sets an option from what a user would type. */
int ts_opt_set(const struct ts_opt *opt, void *args, const char *text, struct ts_err *err);

/* "64M" -> 67108864 */
int ts_opt_size(const char *text, uint64_t *ret, struct ts_err *err);

/* "1h30m" -> 5400000000000. Units d, h, m, s and ms, each at most once and in this order. A number
 * without a unit must be 0. */
int ts_opt_duration(const char *text, uint64_t *ret, struct ts_err *err);

/* The entry of names[] (NULL ends) nearest to `word`, or NULL when none is near. */
const char *ts_opt_nearest(const char *word, const char *const names[]);

#endif
