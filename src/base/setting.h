/* SPDX-License-Identifier: BSD-3-Clause */
/* setting.h - names of settings in messages.
 *
 * The reader of a message uses a program, tstream.h or the Python package, and knows a setting as
 * an option, a field or a keyword. So a message contains a mark, as in
 *
 *     ts_fail(err, TS_EARG, "give less with " TS_SET_HOST_MEMORY);
 *
 * and ts_fail replaces it by the name that the reader knows. setting.c has the names;
 * tests/python/check_settings.sh compares them with the option tables, tstream.h and the package.
 * Settings that only a program has are named with the program.
 *
 * A number that counts from 1 for a user of the programs counts from 0 in Python. A message marks
 * such a number, and the argument counts from 1:
 *
 *     ts_fail(err, TS_EARG, "there is no " TS_NTH_MODE, mode + 1);
 *
 * tests/python/check_settings.sh finds numbers of modes or components without the mark.
 *
 *   threads  any thread; ts_setting_words is called at the start of a program
 *   errors   none
 */
#ifndef TS_BASE_SETTING_H
#define TS_BASE_SETTING_H

#include <stddef.h>
#include <stdint.h>

/* The character before and after each mark. Text between such characters that is no mark of
 * setting.c is not changed, since it may be part of a path or of a text that was read. */
#define TS_SET_MARK   '\x1f'
#define TS_SET_(name) "\x1f" name "\x1f"

/* Marks the number of a mode, component or row in a message. `conversion` prints it, counted from
 * 1. */
#define TS_NTH(conversion) "\x1f#" conversion "\x1f"
#define TS_NTH_MODE        "mode " TS_NTH("%u")
#define TS_NTH_COMPONENT   "component " TS_NTH("%u")
#define TS_NTH_COLUMN      "column " TS_NTH("%u")
#define TS_NTH_INDEX       TS_NTH("%" PRIu64)
#define TS_NTH_COUNTED     "counted from " TS_NTH("1") /* says from which number modes count */

/* The long name of an option, which is not replaced by a field or keyword. For errors in options
 * that were typed, or that are stored in a file. */
#define TS_SET_OPTION(name) "\x1f=" name "\x1f"

/* settings of runs */
#define TS_SET_RANK        TS_SET_("rank")
#define TS_SET_PRECISION   TS_SET_("precision")
#define TS_SET_SWEEPS      TS_SET_("sweeps")
#define TS_SET_ACCELERATE  TS_SET_("accelerate")
#define TS_SET_NONNEG      TS_SET_("nonneg")
#define TS_SET_OBSERVED    TS_SET_("observed")
#define TS_SET_HOST_MEMORY TS_SET_("host memory")
#define TS_SET_GPU_MEMORY  TS_SET_("gpu memory")
#define TS_SET_GPUS        TS_SET_("gpus")
#define TS_SET_CPU         TS_SET_("cpu")
#define TS_SET_THREADS     TS_SET_("threads")
#define TS_SET_TRACE       TS_SET_("trace")

/* settings of results */
#define TS_SET_OUT       TS_SET_("out")
#define TS_SET_OUTPUT    TS_SET_("output") /* the result of a build */
#define TS_SET_REPLACE   TS_SET_("replace")
#define TS_SET_RESUME    TS_SET_("resume") /* in messages, a path follows */
#define TS_SET_ROWS_USED TS_SET_("rows used")
#define TS_SET_NO_LABELS TS_SET_("no labels")
#define TS_SET_SAVE_INIT TS_SET_("save init")

/* settings of builds */
#define TS_SET_MEMORY           TS_SET_("memory")
#define TS_SET_TMP              TS_SET_("tmp")
#define TS_SET_NO_SPACE_CHECK   TS_SET_("no space check")
#define TS_SET_SHARD            TS_SET_("shard")
#define TS_SET_SIZES            TS_SET_("sizes")
#define TS_SET_BASE             TS_SET_("base")
#define TS_SET_FLOAT64          TS_SET_("float64")
#define TS_SET_LABELS           TS_SET_("labels")
#define TS_SET_NAMES            TS_SET_("names")
#define TS_SET_NO_DUPLICATES    TS_SET_("no duplicates")
#define TS_SET_TRANSFORM        TS_SET_("transform")
#define TS_SET_KEEP_ZEROS       TS_SET_("keep zeros")
#define TS_SET_REPEAT           TS_SET_("repeat") /* a setting of an append to a tensor */
#define TS_SET_PARTIAL_MAP      TS_SET_("partial map")
#define TS_SET_FORMAT           TS_SET_("format")
#define TS_SET_CELLS_CSV        TS_SET_("cells csv") /* for a list of cells to predict */
#define TS_SET_FORMAT_CSV       TS_SET_("format csv")
#define TS_SET_FORMAT_SEMICOLON TS_SET_("format semicolon")
#define TS_SET_SEPARATOR        TS_SET_("separator")
#define TS_SET_QUOTE_NONE       TS_SET_("quote none")
#define TS_SET_DECIMAL_COMMA    TS_SET_("decimal comma")
#define TS_SET_COLUMNS          TS_SET_("columns")
#define TS_SET_VALUE            TS_SET_("value")
#define TS_SET_WEIGHTS          TS_SET_("weights")
#define TS_SET_HEADER           TS_SET_("header")
#define TS_SET_TEXT             TS_SET_("text")
#define TS_SET_BIN              TS_SET_("bin")
#define TS_SET_TIME_UNIT        TS_SET_("time unit")
#define TS_SET_SKIP_MISSING     TS_SET_("skip missing")

enum ts_words {
    TS_WORDS_FIELDS = 0,   /* fields of tstream.h, unless ts_setting_words is called */
    TS_WORDS_KEYWORDS = 1, /* keywords of the Python package */
    TS_WORDS_OPTIONS = 2,  /* options of tshard and tstream */
};

/* Sets the names in all later messages of this process. */
void ts_setting_words(enum ts_words words);

/* Returns row i of base/settings.def in another order: first the rows that `first` names (NULL ends
 * the list), then the others. TS_NO_SETTING after the last one. */
#define TS_NO_SETTING UINT32_MAX
uint32_t ts_setting_row(const char *const *first, uint32_t i);

/* Copies a message to `ret` with its marks replaced, as ts_fail does; cut off at `room` bytes. */
void ts_setting_write(const char *text, char *ret, size_t room);

/* Like snprintf, with marks replaced, for messages that are not failures. */
void ts_setting_print(char *ret, size_t room, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
