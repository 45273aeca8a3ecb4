/* SPDX-License-Identifier: BSD-3-Clause */
/* array_opts.h - the options that say what is in a file of cells alone
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

/* The rows of an option table that fill one at offset `at`. Those of tstream cp are in
 * base/settings.def. */
/* clang-format off */
#define ARRAY_OPTS(at) \
    { "dims", 0, TS_OPT_STRING, (at) + offsetof(struct array_opts, dims), NULL, "IxJxK", \
      HELP_DIMS }, \
    { "dtype", 0, TS_OPT_STRING, (at) + offsetof(struct array_opts, dtype), NULL, "f4|f8|i1|i2|i4|i8|u1|u2|u4|u8", \
      HELP_DTYPE }, \
    { "order", 0, TS_OPT_CHOICE, (at) + offsetof(struct array_opts, fortran), "C", "C|F", \
      HELP_ORDER }
/* clang-format on */

/* The name of the tensor that operand and options mean, in *ret, to be freed; the operand's own
 * where no dims are given. TS_EARG: options that go without each other. */
int array_opts_name(const struct array_opts *o, const char *operand, char **ret,
                    struct ts_err *err);

#endif
