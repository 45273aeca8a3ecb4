/* SPDX-License-Identifier: BSD-3-Clause */
/* array_labels.h - names of the modes and indices of an array, which its file does not hold.
 *
 * They come from files NAME.modeK.map beside NAME.npy, or from a program. The tensor keeps the
 * names of a mode's indices as a file in memory of the layout of modeK.labels, so that they are
 * read as those of a directory are (ts_tensor_labels, row_names.h).
 *
 *   owner    the tensor owns what it keeps
 *   units    modes and indices from 0
 *   threads  one, before the tensor is used
 *   errors   0 or a negative ts_code; TS_EFORMAT names the line
 */
#ifndef TS_FORMAT_ARRAY_LABELS_H
#define TS_FORMAT_ARRAY_LABELS_H

#include "base/err.h"
#include "format/tensor.h"

/* Reads the files beside the array's that are there: a name on each line, as many as the mode has
 * indices, and no name twice. Empty lines are indices without a name. */
int ts_array_labels_read(struct ts_tensor *t, struct ts_err *err);

/* Names for each index of a mode, none with a line end; an empty one is none. */
int ts_array_labels_give(struct ts_tensor *t, uint32_t mode, const char *const *name,
                         struct ts_err *err);

/* The name of a mode. Nothing is changed for NULL and "". */
int ts_array_mode_name(struct ts_tensor *t, uint32_t mode, const char *name, struct ts_err *err);

#endif
