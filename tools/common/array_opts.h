/* SPDX-License-Identifier: BSD-3-Clause */
/* array_opts.h - the options that describe a dense tensor's file of cells without a header
 * (format/arrays/array_name.h). */
#ifndef TS_TOOLS_ARRAY_OPTS_H
#define TS_TOOLS_ARRAY_OPTS_H

#include <stddef.h>

#include "api/tools.h"

struct array_opts {
    const char *dims, *dtype;
    int fortran;
};

#define HELP_DIMS                                                                             \
    "sizes of a dense tensor in a raw file. TENSOR is then a file of cells of type --dtype, " \
    "one after another"
#define HELP_DTYPE                                                                            \
    "type of the cells in a raw file: float (f), signed (i) or unsigned (u), and its bytes. " \
    "A leading < or > means little or big endian"
#define HELP_ORDER                                                                             \
    "order of the cells in a raw file. C: the last index changes fastest. F: the first index " \
    "does"

/* Rows of an option table for a struct array_opts that is at offset `at` of the arguments. The rows
 * of tstream cp are in base/settings.def. */
/* clang-format off */
#define ARRAY_OPTS(at) \
    { "dims", 0, TS_OPT_STRING, (at) + offsetof(struct array_opts, dims), NULL, "IxJxK", \
      HELP_DIMS }, \
    { "dtype", 0, TS_OPT_STRING, (at) + offsetof(struct array_opts, dtype), NULL, "f4|f8|i1|i2|i4|i8|u1|u2|u4|u8", \
      HELP_DTYPE }, \
    { "order", 0, TS_OPT_CHOICE, (at) + offsetof(struct array_opts, fortran), "C", "C|F", \
      HELP_ORDER }
/* clang-format on */

/* Sets *ret to the name of the tensor, from the operand and the options; the caller frees it.
 * Without --dims the name is the operand. TS_EARG: an option lacks another one that it needs. */
int array_opts_name(const struct array_opts *o, const char *operand, char **ret,
                    struct ts_err *err);

#endif
