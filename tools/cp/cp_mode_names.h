/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_mode_names.h - replaces names of modes in options of tstream cp by numbers, before other code
 * reads these options. So states, run.json and other ranks only have numbers.
 *
 *   owner    cp_mode_names owns the new texts, to which args points until cp_mode_names_free
 *   errors   0, TS_EARG for a name that no mode has, or the code of a tensor that cannot be opened
 */
#ifndef TS_TOOLS_CP_MODE_NAMES_H
#define TS_TOOLS_CP_MODE_NAMES_H

#include "tools/cp/tstream_cp.h"

struct cp_mode_names {
    char *text[TS_N_SETTINGS]; /* new texts of the options whose values had names of modes */
};

/* Replaces names of modes in the options *args by numbers. tensor: the operand; "" for the only
 * tensor of the directory. The tensor is opened only if there are names. */
int cp_mode_names_take(struct cp_args *args, const char *tensor, struct cp_mode_names *ret,
                       struct ts_err *err);
void cp_mode_names_free(struct cp_mode_names *names);

#endif
