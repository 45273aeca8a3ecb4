/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - compares the inputs and outputs of a command before the work.
 *
 * An output must not be an input, be inside a directory that is read or inside any tensor, or
 * contain an input. Two outputs must not be the same. Names are compared as the file system sees
 * them: through links, hard links and "..", for names that do not exist yet too. An output also
 * occupies the name under which it is first written (NAME.partial, NAME.building).
 *
 *   owner    strings are the caller's
 *   threads  any thread
 *   errors   0; TS_EBUSY (an existing output is an input) or TS_EARG, with a message that names
 *            both; TS_ENOMEM
 */
#ifndef TS_BASE_PLACE_H
#define TS_BASE_PLACE_H

#include <stdint.h>

#include "base/err.h"

/* An input or an output of a command. */
struct ts_place {
    const char *path; /* path of the input or output; NULL: there is none */
    /* for an output: the suffix of its first name, such as ".partial"; NULL: an input */
    const char *suffix;
    /* for an output: the setting that chooses another place, such as TS_SET_OUT */
    const char *option;
    int beside; /* whether other files may be made in the directory of this input */
};

/* Compares each output with all other places. Pipes, devices and "-" are ignored. */
int ts_place_check(const struct ts_place *place, uint32_t n, struct ts_err *err);

#endif
