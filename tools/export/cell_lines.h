/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_lines.h - cells and what belongs to them as text or as a NumPy array: indices or names, and
 * a few numbers.
 *
 *   owner    the caller owns all; the text of a struct cell_text is to be freed
 *   units    indices from 0
 *   threads  put by any number at a time, each with its own number and text
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CELL_LINES_H
#define TS_TOOLS_CELL_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "api/tools.h"

enum cell_format { CELL_TNS, CELL_CSV, CELL_TSV, CELL_NPY };
#define CELL_FORMATS "tns|csv|tsv|npy" /* of an option, in that order */

#define CELL_NUMBERS 5u /* at most */

struct cell_lines {
    uint32_t order, first_mode; /* so many modes, from this one on */
    enum cell_format format;
    uint32_t base;              /* of indices that are shown */
    struct ts_row_names *names; /* with labels, or NULL; csv, tsv and screens show them */
    uint32_t n_numbers;
    int narrow; /* the first number is a float32 */
    int bare;   /* npy: without the indices */
    int screen; /* tns: for a reader: names of columns, labels, aligned, numbers of 6 digits */
};

static inline int cell_lines_show_labels(const struct cell_lines *l)
{
    return l->screen || l->format == CELL_CSV || l->format == CELL_TSV;
}

/* Grows as it must; zeroed before the first use. */
struct cell_text {
    char *at;
    size_t n, room;
};

/* What comes first. csv, tsv: the names of the columns, `mode_name` those of the modes (any may be
 * NULL), `number` those of the numbers. npy: the header of `cells` rows; always CELL_NPY_HEAD
 * bytes. */
#define CELL_NPY_HEAD 128u
int cell_lines_head(const struct cell_lines *l, const char *const mode_name[],
                    const char *const number[], uint64_t cells, struct cell_text *to,
                    struct ts_err *err);

/* n cells: index is n x order; number[k] has n of the k-th number. */
int cell_lines_put(const struct cell_lines *l, uint32_t thread, uint64_t n, const uint64_t *index,
                   const double *const number[], struct cell_text *to, struct ts_err *err);

#endif
