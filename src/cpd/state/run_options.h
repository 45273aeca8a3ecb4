/* SPDX-License-Identifier: BSD-3-Clause */
/* run_options.h - the options of a run as a text: strings "name=value", each ended by a NUL. States
 * and the file models.run contain such a text.
 *
 *   owner    the caller owns the text
 *   threads  any thread
 *   errors   0 or a negative ts_code. The text comes from a file and is untrusted
 */
#ifndef TS_CPD_RUN_OPTIONS_H
#define TS_CPD_RUN_OPTIONS_H

#include <stdint.h>

#include "base/err.h"

/* Whether an option may change when a run is resumed. Two texts of the same constraints may differ:
 * constraints are compared by value. */
enum ts_run_fixed {
    TS_RUN_NOT_KEPT, /* the text of a run does not contain the option */
    TS_RUN_MAY_CHANGE,
    TS_RUN_SAME_TEXT,
    TS_RUN_SAME_VALUE,
    TS_RUN_OF_SEVERAL, /* only runs of several models record the option */
};

/* A setting (base/settings.def) with its option of tstream cp. */
struct ts_run_option {
    const char *name;
    enum ts_run_fixed fixed;
};

/* Returns option number i of a run, in the order of the text, or NULL after the last one. */
const struct ts_run_option *ts_run_option(uint32_t i);

/* Returns the value of an option in a text, or NULL if the text does not contain the option. */
const char *ts_run_options_get(const char *text, uint64_t bytes, const char *name);

/* Returns TS_EFORMAT unless the text of the file `path` consists of options of a run, each once.
 * several: a file of a run of several models, with "version", "checksum" and "xxh3" as well. */
int ts_run_options_check(const char *path, const char *text, uint64_t bytes, int several,
                         struct ts_err *err);

#endif
