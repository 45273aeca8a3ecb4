/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_lines.h - writes cells as text or as a NumPy array: their indices or names, and a few
 * numbers.
 *
 *   owner    the caller owns all, and frees the text of a struct cell_text
 *   units    indices from 0
 *   threads  any number of threads may call put, each with its own number and text
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CELL_LINES_H
#define TS_TOOLS_CELL_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "api/tools.h"
#include "tools/export/cell_table.h"

enum cell_format { CELL_TNS, CELL_CSV, CELL_TSV, CELL_NPY };
/* values of an option that chooses a format, in the order of the enum */
#define CELL_FORMATS "tns|csv|tsv|npy"

/* most numbers (such as value, model, residual) that a cell has besides its indices */
#define CELL_NUMBERS 5u

struct cell_lines {
    uint32_t order, first_mode; /* number of modes that are written, and the first of them */
    enum cell_format format;
    uint32_t base; /* number of the first index in the text: 0 or 1 */
    /* indices and labels of the tensor, or NULL; csv, tsv and terminals show labels */
    struct ts_row_names *names;
    const struct cell_table *table; /* labels without a tensor; used if names is NULL; or NULL */
    uint32_t n_numbers;
    int narrow; /* 1: the first number of each cell is a float32 */
    int bare;   /* 1, for npy: indices are left out */
    int screen; /* 1, for tns on a terminal: aligned columns with names, labels and short numbers */
};

static inline int cell_lines_show_labels(const struct cell_lines *l)
{
    return l->screen || l->format == CELL_CSV || l->format == CELL_TSV;
}

/* A text that grows as needed; zeroed before the first use. */
struct cell_text {
    char *at;
    size_t n, room;
};

/* Writes the beginning of the file. csv, tsv: the names of the columns, mode_name[] for modes
 * (NULL: none) and number[] for numbers. npy: the header of an array with `cells` rows, always
 * CELL_NPY_HEAD bytes. */
#define CELL_NPY_HEAD 128u
int cell_lines_head(const struct cell_lines *l, const char *const mode_name[],
                    const char *const number[], uint64_t cells, struct cell_text *to,
                    struct ts_err *err);

/* Writes n cells. index: n x order indices; number[k]: the k-th number of each cell. */
int cell_lines_put(const struct cell_lines *l, uint32_t thread, uint64_t n, const uint64_t *index,
                   const double *const number[], struct cell_text *to, struct ts_err *err);

#endif
