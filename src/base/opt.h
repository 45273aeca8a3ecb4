/* SPDX-License-Identifier: BSD-3-Clause */
/* opt.h - the options of a command: one table for the parser, --help, the man page, the defaults
 * and the record of a run, so they cannot disagree.
 *
 *   owner    parsed strings point into argv; the caller owns the struct of arguments
 *   units    TS_OPT_SIZE takes 4096, 64K, 64M, 2G, 1T (powers of 1024) and stores bytes;
 *            TS_OPT_DURATION takes 250ms, 30s, 5m, 11h30m, 2d and 0 and stores nanoseconds
 *   errors   0 or TS_EARG with a message that suggests the nearest name
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
    TS_OPT_CHOICE,   /* int: position among the words of `arg`, separated by '|' */
    /* const char *: "all", or numbers or names separated by commas. The value is optional: it is
     * the next argument if that consists of digits and commas, or would be one operand too many;
     * otherwise it is "all" */
    TS_OPT_MODES,
    TS_OPT_LIST,    /* struct ts_opt_list: may be given many times */
    TS_OPT_NUMBERS, /* struct ts_opt_numbers: one whole number, or several separated by commas */
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
    const char *arg;  /* the name of the value in --help, "N", "SIZE"; for CHOICE its words */
    const char *help; /* one or more sentences, lower-case start, no full stop at the end */
};

/* Another name for an option, such as that of another language. option: the name of a row. */
struct ts_opt_alias {
    const char *name, *option;
};

/* A command: its texts for help, and its options. */
struct ts_cmd {
    const char *program;  /* name of the program, as "tshard" */
    const char *name;     /* name of the command; NULL if the program has only one */
    const char *operands; /* operands in the usage: "FILE...", "[TENSOR.tsh]" or "" */
    uint32_t min_operands, max_operands;
    const char *summary;  /* one line about the command */
    const char *text;     /* paragraphs for --help and the man page, separated by blank lines */
    const char *examples; /* lines of "command\n  what it does\n" or NULL */
    const struct ts_opt *opts;
    /* headings of the sections of --help, in order; NULL ends the list. NULL: there are no
     * sections */
    const char *const *headings;
    const unsigned char *section; /* the number of the heading over each of opts */
    /* options that -h shows, separated by blanks; NULL: -h shows the same as --help */
    const char *brief;
    /* old names, which help does not show; a name of NULL ends the list. NULL: none */
    const struct ts_opt_alias *aliases;
    /* old options or aliases, separated by blanks, for which help shows the other name. NULL:
     * none */
    const char *old_names;
    int (*run)(const struct ts_cmd *cmd, int argc, char **argv);
};

/* Sets every option of the table to its default. */
void ts_opt_defaults(const struct ts_cmd *cmd, void *args);

/* Finds an option by its name or an alias of it, which has `len` bytes. NULL: not found. */
const struct ts_opt *ts_opt_named(const struct ts_cmd *cmd, const char *name, size_t len);

/* Returns the option with the name that help shows: that of its alias if its own name is old. */
struct ts_opt ts_opt_shown(const struct ts_cmd *cmd, const struct ts_opt *opt);

/* Returns the first old name in argv[1..argc-1], or NULL. *instead: the option's name in help. */
const char *ts_opt_old(const struct ts_cmd *cmd, int argc, char **argv, const char **instead);

/* Parses argv[1..argc-1] (argv[0] is the command's name) into args, after setting the defaults.
 * Options may stand between operands; `--` ends them. `--name=value`, `--name value`, `-nvalue` and
 * `-n value` are accepted. operand: room for argc operands, in order. Returns 0; 1 for --help or 2
 * for -h, without further parsing; or TS_EARG. *given (may be NULL): bit i is set if option i was
 * given. */
int ts_opt_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
                 char **operand, uint64_t *given, struct ts_err *err);

/* Writes the complete --help of a command. */
void ts_opt_help(const struct ts_cmd *cmd, FILE *to);

/* Writes -h: usage, the options of cmd->brief with the first sentence of each, the first example,
 * and where the other options are explained. If cmd->brief is NULL, it writes the same as
 * --help. */
void ts_opt_brief(const struct ts_cmd *cmd, FILE *to);

/* Writes the sections of the manual page that come from the table: SYNOPSIS, DESCRIPTION, OPTIONS
 * and EXAMPLES, for man(7). */
void ts_opt_man(const struct ts_cmd *cmd, FILE *to);

/* Writes the value of an option as a user would type it: "16", "64M" as bytes "67108864", "5m" as
 * seconds "300s" (or "1500ms"), "" without a value, the items of a LIST and NUMBERS separated by
 * ','. It is cut off at `size` bytes. */
void ts_opt_text(const struct ts_opt *opt, const void *args, char *buf, size_t size);

/* Sets an option from its text as a user would type it. */
int ts_opt_set(const struct ts_opt *opt, void *args, const char *text, struct ts_err *err);

/* Parses a size: "64M" gives 67108864. */
int ts_opt_size(const char *text, uint64_t *ret, struct ts_err *err);

/* Parses a duration: "1h30m" gives 5400000000000. Units are d, h, m, s and ms, each at most once
 * and in this order. A number without a unit must be 0. */
int ts_opt_duration(const char *text, uint64_t *ret, struct ts_err *err);

/* Returns the entry of names[] (NULL ends) that is nearest to `word`, or NULL if none is near. */
const char *ts_opt_nearest(const char *word, const char *const names[]);

#endif
