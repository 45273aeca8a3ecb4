/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - holds the inputs and outputs of a command against each other, before the work.
 *
 * An output must not be an input, lie in a directory that is read or in any tensor, or hold an
 * input; and two outputs must not be one. Names are compared as the file system sees them: through
 * links, hard links and "..", for names that do not exist yet too. An output also takes the name
 * that it is written under first (NAME.partial, NAME.building).
 *
 *   owner    strings are the caller's
 *   threads  any
 *   errors   0; TS_EBUSY (an output that exists is an input) or TS_EARG, with a sentence that names
 *            both; TS_ENOMEM
 */
#ifndef TS_BASE_PLACE_H
#define TS_BASE_PLACE_H

#include <stdint.h>

#include "base/err.h"

struct ts_place {
    const char *path;   /* NULL: none */
    const char *suffix; /* ".partial": an output, and what its first name ends in; NULL: an input */
    /* for an output: the setting that chooses another place, such as TS_SET_OUT */
    const char *option;
    int beside; /* whether other files may be made in the directory of this input */
};

/* Compares each output with all other places. Pipes, devices and "-" are none. */
int ts_place_check(const struct ts_place *place, uint32_t n, struct ts_err *err);

#endif
