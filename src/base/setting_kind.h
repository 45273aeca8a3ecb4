/* SPDX-License-Identifier: BSD-3-Clause */
/* setting_kind.h - for each KIND of base/settings.def, the type of an option (base/opt.h) and the C
 * type of its value.
 *
 *   owner    texts point to memory of the caller
 *   units    those of base/opt.h
 */
#ifndef TS_BASE_SETTING_KIND_H
#define TS_BASE_SETTING_KIND_H

#include "base/opt.h"

/* The number of rows of settings.def. */
#define SETTING(...) +1
enum {
    TS_N_SETTINGS = 0
#include "base/settings.def"
};

#define TS_OPT_OF_FLAG            TS_OPT_FLAG
#define TS_OPT_OF_COUNT(A, B)     TS_OPT_U32
#define TS_OPT_OF_NUMBER          TS_OPT_U64
#define TS_OPT_OF_NUMBERS         TS_OPT_NUMBERS
#define TS_OPT_OF_REAL            TS_OPT_DOUBLE
#define TS_OPT_OF_SIZE            TS_OPT_SIZE
#define TS_OPT_OF_DURATION        TS_OPT_DURATION
#define TS_OPT_OF_CHOICE          TS_OPT_CHOICE
#define TS_OPT_OF_SHARE           TS_OPT_STRING
#define TS_OPT_OF_TEXT            TS_OPT_STRING
#define TS_OPT_OF_MODES(x)        TS_OPT_STRING
#define TS_OPT_OF_MODES_OR_ALL(x) TS_OPT_MODES
#define TS_OPT_OF_PENALTIES(x)    TS_OPT_STRING
#define TS_OPT_OF_PENALTIES_1(x)  TS_OPT_STRING
#define TS_OPT_OF_BOUNDS(x)       TS_OPT_STRING

#define TS_VALUE_OF_FLAG            int
#define TS_VALUE_OF_COUNT(A, B)     uint32_t
#define TS_VALUE_OF_NUMBER          uint64_t
#define TS_VALUE_OF_NUMBERS         struct ts_opt_numbers
#define TS_VALUE_OF_REAL            double
#define TS_VALUE_OF_SIZE            uint64_t
#define TS_VALUE_OF_DURATION        uint64_t
#define TS_VALUE_OF_CHOICE          int
#define TS_VALUE_OF_SHARE           const char *
#define TS_VALUE_OF_TEXT            const char *
#define TS_VALUE_OF_MODES(x)        const char *
#define TS_VALUE_OF_MODES_OR_ALL(x) const char *
#define TS_VALUE_OF_PENALTIES(x)    const char *
#define TS_VALUE_OF_PENALTIES_1(x)  const char *
#define TS_VALUE_OF_BOUNDS(x)       const char *

/* TS_MODES_OF_ followed by a kind expands to WHETHER(x, f), PENALTY(x, f) or BOUNDS(x, f), which
 * the including file defines, for a setting of each mode, and to nothing for a setting of the run.
 * f: the option may be given without modes, and then applies to all modes that are not fixed. */
#define TS_MODES_OF_FLAG
#define TS_MODES_OF_COUNT(A, B)
#define TS_MODES_OF_NUMBER
#define TS_MODES_OF_NUMBERS
#define TS_MODES_OF_REAL
#define TS_MODES_OF_SIZE
#define TS_MODES_OF_DURATION
#define TS_MODES_OF_CHOICE
#define TS_MODES_OF_SHARE
#define TS_MODES_OF_TEXT
#define TS_MODES_OF_MODES(x)        WHETHER(x, 0)
#define TS_MODES_OF_MODES_OR_ALL(x) WHETHER(x, 1)
#define TS_MODES_OF_PENALTIES(x)    PENALTY(x, 1)
#define TS_MODES_OF_PENALTIES_1(x)  PENALTY(x, 0)
#define TS_MODES_OF_BOUNDS(x)       BOUNDS(x, 1)

#endif
