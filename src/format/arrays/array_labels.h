/* SPDX-License-Identifier: BSD-3-Clause */
/* array_labels.h - names of the modes and indices of an array, which the array's file does not
 * hold.
 *
 * They come from files NAME.modeK.map beside NAME.npy, or from a caller of the library. The tensor
 * keeps the names of a mode's indices in memory, as a file with the layout of modeK.labels. So the
 * same functions read the labels of arrays and of directories (ts_tensor_labels, row_names.h).
 *
 *   owner    the tensor owns its copies of the names
 *   units    modes and indices from 0
 *   threads  one, before the tensor is used
 *   errors   0 or a negative ts_code; TS_EFORMAT names the line
 */
#ifndef TS_FORMAT_ARRAY_LABELS_H
#define TS_FORMAT_ARRAY_LABELS_H

#include "base/err.h"
#include "format/tensor.h"

/* Reads the existing files of names beside the array's file. Such a file has one line for each
 * index of the mode, and no name twice. An empty line is an index without a name. */
int ts_array_labels_read(struct ts_tensor *t, struct ts_err *err);

/* Sets the names of all indices of a mode. A name must not contain a newline; an empty one means
 * that the index has no name. */
int ts_array_labels_give(struct ts_tensor *t, uint32_t mode, const char *const *name,
                         struct ts_err *err);

/* Sets the name of a mode. Changes nothing if `name` is NULL or "". */
int ts_array_mode_name(struct ts_tensor *t, uint32_t mode, const char *name, struct ts_err *err);

#endif
