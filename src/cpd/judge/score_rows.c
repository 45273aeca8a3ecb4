/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies the model's rows into the backend, and marks rows that are all zeros, for the count of
 * unseen nonzeros. */
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "cpd/judge/score_parts.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* bytes of the model's rows that are copied at a time */

uint64_t ts_score_chunk_rows(uint32_t rank)
{
    return CHUNK_BYTES / (rank * sizeof(double)) + 1;
}

static uint64_t held_index(const struct ts_kruskal *k, uint32_t mode, uint64_t row)
{
    return k->index[mode] == NULL ? row : k->index[mode][row];
}

/* Marks the row of the mode if its entries in the model, not yet multiplied by weights, are all
 * zeros. */
static int note_blank(struct ts_scoring *s, uint32_t mode, uint64_t row, const double *numbers,
                      struct ts_err *err)
{
    const uint32_t rank = s->conf->model->rank;
    uint32_t r = 0;
    while (r < rank && numbers[r] == 0)
        r++;
    if (r < rank)
        return 0;
    if (s->blank[mode] == NULL)
        s->blank[mode] = calloc(s->conf->tensor->mode[mode].disk.n_rows / 8 + 1, 1);
    if (s->blank[mode] == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows of zeros");
    s->blank[mode][row / 8] |= (uint8_t)(1u << row % 8);
    s->blanks |= 1u << mode;
    return 0;
}

/* Copies the model's rows for n used slices of the tensor, from slice `row` on. *at is the model's
 * row at which the search for the next one continues. */
static int gather_rows(struct ts_scoring *s, uint32_t mode, const uint64_t *index, uint64_t row,
                       uint64_t n, const double *weight, uint64_t *at, double *to,
                       struct ts_err *err)
{
    const struct ts_kruskal *k = s->conf->model;
    const int notes = s->conf->unseen && ts_backend_can(s->conf->backend, TS_CAN_CELLS);
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++, to += k->rank) {
        const uint64_t wanted = index == NULL ? row + i : index[row + i];
        int held;
        while (*at < k->n_rows[mode] && held_index(k, mode, *at) < wanted)
            ++*at;
        held = *at < k->n_rows[mode] && held_index(k, mode, *at) == wanted;
        if (held)
            (void)ts_kruskal_held((void *)(uintptr_t)k, mode, *at, 1, to, NULL);
        else
            memset(to, 0, k->rank * sizeof *to);
        if (notes)
            rc = note_blank(s, mode, row + i, to, err);
        for (uint32_t r = 0; held && weight != NULL && r < k->rank; r++)
            to[r] *= weight[r];
    }
    return rc;
}

static int load_mode(struct ts_scoring *s, uint32_t mode, double *rows, struct ts_err *err)
{
    const struct ts_score_conf *c = s->conf;
    const struct ts_kruskal *k = c->model;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows, step = ts_score_chunk_rows(k->rank);
    const double *own = c->weight != NULL ? c->weight : k->weight;
    const double *weight = mode == c->mode ? own : NULL;
    uint64_t *index = NULL, at = 0;
    int rc = ts_tensor_rows(c->tensor, mode, &index, err);
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        const uint64_t n = n_rows - row < step ? n_rows - row : step;
        rc = gather_rows(s, mode, index, row, n, weight, &at, rows, err);
        if (rc == 0)
            rc = c->backend->put_rows(c->be, mode, row, n, rows, err);
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    free(index);
    return rc;
}

int ts_score_load_rows(struct ts_scoring *s, struct ts_err *err)
{
    const struct ts_score_conf *c = s->conf;
    double *rows = malloc(ts_score_chunk_rows(c->model->rank) * c->model->rank * sizeof *rows);
    int rc = rows == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows") : 0;
    for (uint32_t m = 0; m < c->tensor->order && rc == 0; m++)
        rc = load_mode(s, m, rows, err);
    free(rows);
    return rc;
}
