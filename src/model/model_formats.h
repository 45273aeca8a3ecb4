/* SPDX-License-Identifier: BSD-3-Clause */
/* model_formats.h - the file formats of models: reads their heads, and the numbers of their rows.
 *
 * A ktensor is a single text file. NumPy arrays and SPLATT's matrices have a file for the weights
 * and one for each mode. m->file is the open file, at the position of the next number.
 *
 *   owner    the model owns its files
 *   threads  one at a time
 *   errors   0 or a negative ts_code; messages name file and line or byte
 */
#ifndef TS_MODEL_MODEL_FORMATS_H
#define TS_MODEL_MODEL_FORMATS_H

#include "model/model_read.h"

/* Sets the name of the open file, for messages. NULL: the name of the model. */
int ts_model_name_file(struct ts_model *m, const char *name, struct ts_err *err);
int ts_model_open_file(struct ts_model *m, const char *name, struct ts_err *err);

/* Moves m->file back to the start of a mode's file. */
int ts_model_again_mode(struct ts_model *m, uint32_t mode, const char *suffix, struct ts_err *err);

/* Reads the next number of a text file. */
int ts_model_get_real(struct ts_model *m, double *ret, struct ts_err *err);

/* Read the sizes and weights of a model: of the open ktensor file, or of the files in a
 * directory. */
int ts_ktensor_open(struct ts_model *m, struct ts_err *err);
int ts_npy_open(struct ts_model *m, struct ts_err *err);
int ts_splatt_open(struct ts_model *m, struct ts_err *err);

/* The first function reads the head of a mode in a ktensor file. The second checks that nothing
 * follows the last mode. */
int ts_ktensor_matrix(struct ts_model *m, uint32_t mode, struct ts_err *err);
int ts_ktensor_end(struct ts_model *m, struct ts_err *err);

/* The first function reads the header of the open .npy file (*columns is 0 for a vector), and the
 * second the next n numbers of the file. */
int ts_npy_rows_header(struct ts_model *m, uint64_t *rows, uint64_t *columns, struct ts_err *err);
int ts_npy_numbers(struct ts_model *m, uint64_t n, double *ret, struct ts_err *err);

#endif
