/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills the factors that ALS starts from, with random numbers or a model, and computes their Gram
 * matrices. */
#include "cpd/init.h"

#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/stop.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* of float64 rows on their way to the backend */
/* A Gram matrix is the sum of so many pieces: by the rank alone, so that it does not depend on the
 * number of threads, and fewer where they are large. */
#define MOST_PIECES  32u
#define LEAST_PIECES 4u
#define PIECES_ROWS  4096u /* of all pieces together */

static uint32_t gram_pieces(uint32_t rank)
{
    const uint32_t n = PIECES_ROWS / rank;
    return n > MOST_PIECES ? MOST_PIECES : n < LEAST_PIECES ? LEAST_PIECES : n;
}

static uint64_t chunk_rows(uint32_t rank)
{
    const uint64_t n = CHUNK_BYTES / (rank * sizeof(double));
    return n > 0 ? n : 1;
}

static void draw_row(const struct ts_init_conf *c, uint32_t mode, uint64_t index, double *row)
{
    for (uint32_t r = 0; r < c->rank; r++)
        row[r] = ts_init_entry(c->seed, mode, index, r);
}

/* Upper triangle of gram += row' row */
static void add_outer(uint32_t rank, const double *row, double *gram)
{
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = i; j < rank; j++)
            gram[(size_t)i * rank + j] += row[i] * row[j];
}

static void mirror(uint32_t rank, double *gram)
{
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j < i; j++)
            gram[(size_t)i * rank + j] = gram[(size_t)j * rank + i];
}

/* Gram matrix of n drawn rows: indices index[0..n-1], or 0..n-1 when index is NULL. */
static int draw_gram(const struct ts_init_conf *c, uint32_t mode, const uint64_t *index, uint64_t n,
                     double *gram, struct ts_err *err)
{
    const size_t square = (size_t)c->rank * c->rank;
    const uint32_t n_pieces = gram_pieces(c->rank);
    double *piece = calloc(n_pieces * (square + c->rank), sizeof *piece);
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    if (piece == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u Gram matrices", n_pieces);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (uint32_t p = 0; p < n_pieces; p++) {
        double *mine = piece + p * (square + c->rank), *row = mine + square;
        const uint64_t first = n / n_pieces * p + n % n_pieces * p / n_pieces;
        const uint64_t end = n / n_pieces * (p + 1) + n % n_pieces * (p + 1) / n_pieces;
        for (uint64_t i = first; i < end && !((i & 1023) == 0 && ts_stop_asked(c->stop)); i++) {
            draw_row(c, mode, index == NULL ? i : index[i], row);
            add_outer(c->rank, row, mine);
        }
    }
    memset(gram, 0, square * sizeof *gram);
    for (uint32_t p = 0; p < n_pieces; p++)
        for (size_t i = 0; i < square; i++)
            gram[i] += piece[p * (square + c->rank) + i];
    mirror(c->rank, gram);
    free(piece);
    return 0;
}

static int init_random(const struct ts_init_conf *c, uint32_t mode, const uint64_t *index,
                       double *buf, double *gram, struct ts_err *err)
{
    const struct ts_disk_mode *disk = &c->tensor->mode[mode].disk;
    const uint64_t step = chunk_rows(c->rank);
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    for (uint64_t row = 0; row < disk->n_rows; row += step) {
        const uint64_t n = disk->n_rows - row < step ? disk->n_rows - row : step;
        int rc;
#pragma omp parallel for num_threads(threads)
        for (uint64_t i = 0; i < n; i++)
            draw_row(c, mode, index == NULL ? row + i : index[row + i], buf + i * c->rank);
        rc = c->backend->put_rows(c->be, mode, row, n, buf, err);
        if (rc < 0)
            return rc;
        rc = ts_stop_check(c->stop, err);
        if (rc < 0)
            return rc;
    }
    if (gram == NULL)
        return 0;
    return disk->dim <= TS_INIT_GRAM_ROWS ? draw_gram(c, mode, NULL, disk->dim, gram, err)
                                          : draw_gram(c, mode, index, disk->n_rows, gram, err);
}

/* The model's rows, those of empty slices counted in the Gram matrix and dropped. */
static int init_model(const struct ts_init_conf *c, uint32_t mode, const uint64_t *index,
                      double *buf, double *gram, struct ts_err *err)
{
    const struct ts_disk_mode *disk = &c->tensor->mode[mode].disk;
    const uint64_t step = chunk_rows(c->rank), rows = c->model->n_rows[mode];
    uint64_t next = 0; /* row of the backend */
    if (rows != disk->dim)
        index = NULL;
    if (gram != NULL)
        memset(gram, 0, (size_t)c->rank * c->rank * sizeof *gram);
    for (uint64_t row = 0; row < rows; row += step) {
        const uint64_t n = rows - row < step ? rows - row : step;
        uint64_t kept = 0;
        int rc = ts_model_rows(c->model, mode, n, buf, err);
        if (rc < 0)
            return rc;
        for (uint64_t i = 0; i < n; i++) {
            if (gram != NULL)
                add_outer(c->rank, buf + i * c->rank, gram);
            if (index == NULL || (next + kept < disk->n_rows && index[next + kept] == row + i))
                memmove(buf + kept++ * c->rank, buf + i * c->rank, c->rank * sizeof *buf);
        }
        rc = kept > 0 ? c->backend->put_rows(c->be, mode, next, kept, buf, err) : 0;
        if (rc < 0)
            return rc;
        next += kept;
        rc = ts_stop_check(c->stop, err);
        if (rc < 0)
            return rc;
    }
    if (gram != NULL)
        mirror(c->rank, gram);
    return 0;
}

uint64_t ts_init_bytes(const struct ts_tensor *t, uint32_t rank)
{
    const uint64_t square = (uint64_t)rank * rank + rank;
    uint64_t rows = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_disk_mode *disk = &t->mode[m].disk;
        if (disk->rows_bytes > 0 && disk->n_rows > rows)
            rows = disk->n_rows;
    }
    return 8 * (rows + gram_pieces(rank) * square + chunk_rows(rank) * rank);
}

int ts_init_check(const struct ts_init_conf *c, struct ts_err *err)
{
    const struct ts_model *m = c->model;
    if (m == NULL)
        return 0;
    if (m->order != c->tensor->order)
        return ts_fail(err, TS_EARG, "%s: the model has %u modes, the tensor %u", m->path, m->order,
                       c->tensor->order);
    if (m->rank != c->rank)
        return ts_fail(err, TS_EARG,
                       "%s: the model has rank %u, but --rank is %u; --rank %u goes on "
                       "from it",
                       m->path, m->rank, c->rank, m->rank);
    for (uint32_t k = 0; k < m->order; k++) {
        const struct ts_disk_mode *disk = &c->tensor->mode[k].disk;
        if (m->n_rows[k] != disk->dim && m->n_rows[k] != disk->n_rows)
            return ts_fail(err, TS_EARG,
                           "%s: mode %u of the model has %" PRIu64 " rows, of the tensor %" PRIu64,
                           m->path, k + 1, m->n_rows[k], disk->dim);
    }
    return 0;
}

int ts_init_mode(const struct ts_init_conf *c, uint32_t mode, double *gram, struct ts_err *err)
{
    double *buf = malloc(chunk_rows(c->rank) * c->rank * sizeof *buf);
    uint64_t *index = NULL;
    int rc;
    if (buf == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows of mode %u", mode + 1);
    rc = ts_tensor_rows(c->tensor, mode, &index, err);
    if (rc == 0)
        rc = c->model == NULL ? init_random(c, mode, index, buf, gram, err)
                              : init_model(c, mode, index, buf, gram, err);
    free(index);
    free(buf);
    return rc;
}
