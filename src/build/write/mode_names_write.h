/* SPDX-License-Identifier: BSD-3-Clause */
/* mode_names_write.h - writes NAME.tsh/modes (format/mode_names.h).
 *
 *   owner    names are the caller's
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_MODE_NAMES_WRITE_H
#define TS_BUILD_MODE_NAMES_WRITE_H

#include <stdint.h>

#include "base/err.h"
#include "build/build_dir.h"

/* Writes the names of the modes and the first index, `base`. name[m] is NULL if mode m has no name.
 * name[order] is the name of the values. Writes no file if there are no names and base is 1. */
int ts_mode_names_write(const struct ts_build_dir *dir, uint32_t order, uint32_t base,
                        const char *const name[], uint64_t index_hash, struct ts_err *err);

#endif
