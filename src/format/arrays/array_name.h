/* SPDX-License-Identifier: BSD-3-Clause */
/* array_name.h - names of dense tensors that say more than which file it is.
 *
 *     data.raw:f8:401x201x12       cells alone, one after another, of this type and these sizes
 *     data.raw:>f4:F:401x201x12    of the other order of bytes (<, >: little, big endian), the
 *                                  first index changing with each cell
 *     file.h5:/group/set           a dataset in a file of HDF5
 *
 *   errors   0 or a negative ts_code; what is in the file is not looked at
 */
#ifndef TS_FORMAT_ARRAY_NAME_H
#define TS_FORMAT_ARRAY_NAME_H

#include <stddef.h>

#include "base/err.h"
#include "format/arrays/dense.h"

/* Characters of the file's own name in `name`, which says which cells, or which dataset, behind it;
 * 0: it does not. */
size_t ts_array_name_cells(const char *name);
size_t ts_array_name_dataset(const char *name);

/* Reads type, order and sizes from a file name that has them. */
int ts_array_name_parse(const char *name, struct ts_dense_array *ret, struct ts_err *err);

/* The name of a file of cells, from what options say: dtype f8, dims 401x201x12. NULL: out of
 * memory. */
char *ts_array_name_make(const char *file, const char *dtype, int fortran, const char *dims);

/* The name with the absolute path of the file, or NULL on failure. A name of another kind is a
 * path. */
char *ts_array_name_real(const char *name);

#endif
