/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_mode.h - modes that an option names, by their numbers from 1 or by their names.
 *
 *   owner    names are the caller's
 *   errors   0 or TS_EARG, with a sentence that lists the names
 */
#ifndef TS_TOOLS_TOOL_MODE_H
#define TS_TOOLS_TOOL_MODE_H

#include <stddef.h>
#include <stdint.h>

#include "api/tools.h"

struct tool_modes {
    uint32_t order;
    const char *name[TS_MAX_ORDER]; /* NULL: it has none */
};

struct tool_modes tool_modes_of(const struct ts_tensor *t);

/* The mode, from 0, that `n` characters of --option name. A number goes before a name. */
int tool_mode_find(const struct tool_modes *modes, const char *option, const char *text, size_t n,
                   uint32_t *ret, struct ts_err *err);

/* The mode of --mode, from 1, by a number or a name. or_all: 0 is taken, and stands for all modes.
 * file: the tensor or model. */
int tool_mode_option(const struct tool_modes *modes, const char *file, const char *text, int or_all,
                     uint32_t *ret, struct ts_err *err);

#endif
