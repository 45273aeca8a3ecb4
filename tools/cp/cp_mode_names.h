/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_mode_names.h - names of modes in options of tstream cp become their numbers, before anything
 * else reads these options. So states, run.json and other ranks have numbers alone.
 *
 *   owner    cp_mode_names owns the new texts, to which args points until cp_mode_names_free
 *   errors   0, TS_EARG for a name that no mode has, or the code of a tensor that cannot be opened
 */
#ifndef TS_TOOLS_CP_MODE_NAMES_H
#define TS_TOOLS_CP_MODE_NAMES_H

#include "tools/cp/tstream_cp.h"

struct cp_mode_names {
    char *text[TS_N_SETTINGS]; /* of the options that had names */
};

/* tensor: what the operand means; "" for the only tensor of the directory. Opened if there are
 * names only. */
int cp_mode_names_take(struct cp_args *args, const char *tensor, struct cp_mode_names *ret,
                       struct ts_err *err);
void cp_mode_names_free(struct cp_mode_names *names);

#endif
