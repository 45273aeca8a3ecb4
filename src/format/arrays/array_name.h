/* SPDX-License-Identifier: BSD-3-Clause */
/* array_name.h - names of dense tensors that give more than a file: type, sizes or a dataset.
 *
 *     data.raw:f8:401x201x12       a file without a header: consecutive cells of this type and
 *                                  sizes
 *     data.raw:>f4:F:401x201x12    big-endian cells (<: little-endian) in Fortran order: the
 *                                  first index changes fastest
 *     file.h5:/group/set           a dataset in an HDF5 file
 *
 *   errors   0 or a negative ts_code; the contents of the file are not checked
 */
#ifndef TS_FORMAT_ARRAY_NAME_H
#define TS_FORMAT_ARRAY_NAME_H

#include <stddef.h>

#include "base/err.h"
#include "format/arrays/dense.h"

/* Returns the length of the file's own name at the start of `name`, if a type and sizes (cells) or
 * a dataset (dataset) follow it; else 0. */
size_t ts_array_name_cells(const char *name);
size_t ts_array_name_dataset(const char *name);

/* Reads type, byte order and sizes from a name that ts_array_name_cells accepts. */
int ts_array_name_parse(const char *name, struct ts_dense_array *ret, struct ts_err *err);

/* Makes the name of a file of cells from options such as dtype "f8" and dims "401x201x12". Returns
 * malloc'ed text; NULL: out of memory. */
char *ts_array_name_make(const char *file, const char *dtype, int fortran, const char *dims);

/* Returns the name with the absolute path of its file, malloc'ed, or NULL on failure. A name
 * without type, sizes or dataset is taken as a path. */
char *ts_array_name_real(const char *name);

#endif
