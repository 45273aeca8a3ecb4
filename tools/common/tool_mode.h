/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_mode.h - finds the modes that options name, by number from 1 or by name.
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
    const char *name[TS_MAX_ORDER]; /* NULL: the mode has no name */
};

struct tool_modes tool_modes_of(const struct ts_tensor *t);

/* Sets *ret to the mode, from 0, that the n characters of option --`option` name. A number takes
 * precedence over a name. */
int tool_mode_find(const struct tool_modes *modes, const char *option, const char *text, size_t n,
                   uint32_t *ret, struct ts_err *err);

/* Sets *ret to the mode, from 1, of --mode, a number or a name. or_all: 0 is permitted, and means
 * all modes. file: name of the tensor or model for messages. */
int tool_mode_option(const struct tool_modes *modes, const char *file, const char *text, int or_all,
                     uint32_t *ret, struct ts_err *err);

#endif
