/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills the factors from which a decomposition starts, with random numbers or those of a model, and
 * computes their Gram matrices. */
#include "cpd/solver/init.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/setting.h"
#include "base/stop.h"
#include "model/model_write.h"
#include "stream/loss.h"

/* bytes of float64 rows that are copied at a time to the backend */
#define CHUNK_BYTES (UINT64_C(1) << 20)
/* A Gram matrix is the sum over at most MOST_PIECES ranges of rows, which are called pieces. Their
 * number depends on the rank alone, so that results do not depend on the number of threads. Large
 * matrices have fewer pieces. */
#define MOST_PIECES  32u
#define LEAST_PIECES 4u
#define PIECES_ROWS  4096u /* rows of the Gram matrices of all pieces together */
#define FULL_CHARS   16    /* least characters of a random number in a file of factors */
/* least characters of a number in a file of factors if it may be 0 or 1 */
#define ZERO_CHARS 2

static uint32_t gram_pieces(uint32_t rank)
{
    const uint32_t n = PIECES_ROWS / rank;
    return n > MOST_PIECES ? MOST_PIECES : n < LEAST_PIECES ? LEAST_PIECES : n;
}

/* Returns the first row of piece p, if n rows are divided into n_pieces; n for p = n_pieces. */
static uint64_t piece_first(uint64_t n, uint32_t n_pieces, uint32_t p)
{
    return n / n_pieces * p + n % n_pieces * p / n_pieces;
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

/* Adds the outer product of a row with itself to the upper triangle of gram. */
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

/* gram := the Gram matrix of n random rows, with indices index[0..n-1], or 0..n-1 if index is NULL.
 * Both triangles are set. Returns TS_ESTOP if the user stops it. */
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
        const uint64_t end = piece_first(n, n_pieces, p + 1);
        for (uint64_t i = piece_first(n, n_pieces, p);
             i < end && !((i & 1023) == 0 && ts_stop_asked(c->stop)); i++) {
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
    return ts_stop_check(c->stop, err);
}

static int is_fixed(const struct ts_init_conf *c, uint32_t mode)
{
    return ts_spec_of(c->spec)->mode[mode].fixed;
}

/* Whether the model has a row for each index of the mode, or for each used index. */
static int has_rows(const struct ts_init_conf *c, uint32_t mode)
{
    const struct ts_disk_mode *disk = &c->tensor->mode[mode].disk;
    return c->model->n_rows[mode] == disk->dim || c->model->n_rows[mode] == disk->n_rows;
}

/* Whether rows of the mode are random numbers: there is no model, or its number of rows in this
 * mode does not fit. */
static int is_drawn(const struct ts_init_conf *c, uint32_t mode)
{
    return c->model == NULL || !has_rows(c, mode);
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

/* Sums the Gram matrix of rows that come one after another, over the same ranges of rows (pieces)
 * as draw_gram. So the Gram matrix of starting factors read from a file has the same bits as when
 * they were drawn. */
struct row_sum {
    uint32_t rank, n_pieces, piece;
    uint64_t n, row; /* n: number of all rows; row: the next row */
    double *gram, *part;
};

static void add_part(struct row_sum *s)
{
    for (size_t i = 0; i < (size_t)s->rank * s->rank; i++) {
        s->gram[i] += s->part[i];
        s->part[i] = 0;
    }
    s->piece++;
}

static void add_row(struct row_sum *s, const double *row)
{
    while (s->row >= piece_first(s->n, s->n_pieces, s->piece + 1))
        add_part(s);
    add_outer(s->rank, row, s->part);
    s->row++;
}

static int row_sum_new(struct row_sum *s, uint32_t rank, uint64_t n, double *gram,
                       struct ts_err *err)
{
    const size_t square = (size_t)rank * rank;
    *s = (struct row_sum){ .rank = rank, .n_pieces = gram_pieces(rank), .n = n, .gram = gram };
    if (gram == NULL)
        return 0;
    memset(gram, 0, square * sizeof *gram);
    s->part = calloc(square, sizeof *s->part);
    return s->part == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a Gram matrix") : 0;
}

/* Adds the Gram matrix of the last piece (range of rows) to the sum, completes it, and frees the
 * memory. */
static void row_sum_free(struct row_sum *s)
{
    while (s->part != NULL && s->piece < s->n_pieces)
        add_part(s);
    if (s->part != NULL)
        mirror(s->rank, s->gram);
    free(s->part);
}

/* Sets the negative ones of n numbers to 0. */
static void cut_negative(double *rows, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        rows[i] = rows[i] > 0 ? rows[i] : 0;
}

/* Copies the rows of the given model to the backend. Rows of empty slices are counted in the Gram
 * matrix, and not copied. */
static int init_model(const struct ts_init_conf *c, uint32_t mode, const uint64_t *index,
                      double *buf, double *gram, struct ts_err *err)
{
    const struct ts_disk_mode *disk = &c->tensor->mode[mode].disk;
    const uint64_t step = chunk_rows(c->rank), rows = c->model->n_rows[mode];
    const int fixed = is_fixed(c, mode);
    uint64_t next = 0; /* the backend's row that is written next */
    struct row_sum sum;
    double *all = fixed ? NULL : gram;
    int rc = row_sum_new(&sum, c->rank, rows, all, err);
    if (rows != disk->dim)
        index = NULL;
    for (uint64_t row = 0; row < rows && rc == 0; row += step) {
        const uint64_t n = rows - row < step ? rows - row : step;
        uint64_t kept = 0;
        rc = ts_model_rows(c->model, mode, n, buf, err);
        if (rc == 0 && ts_spec_positive(c->spec, mode))
            cut_negative(buf, n * c->rank);
        for (uint64_t i = 0; i < n && rc == 0; i++) {
            if (all != NULL)
                add_row(&sum, buf + i * c->rank);
            if (index == NULL || (next + kept < disk->n_rows && index[next + kept] == row + i))
                memmove(buf + kept++ * c->rank, buf + i * c->rank, c->rank * sizeof *buf);
        }
        if (rc == 0 && kept > 0)
            rc = c->backend->put_rows(c->be, mode, next, kept, buf, err);
        next += kept;
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    row_sum_free(&sum);
    return rc == 0 && fixed && gram != NULL ? c->backend->gram(c->be, mode, gram, err) : rc;
}

int ts_init_gram(const struct ts_init_conf *c, uint32_t mode, double *chunk, uint64_t most,
                 double *gram, struct ts_err *err)
{
    const struct ts_disk_mode *disk = &c->tensor->mode[mode].disk;
    uint64_t *index = NULL;
    struct row_sum sum;
    int rc = ts_tensor_rows(c->tensor, mode, &index, err);
    if (rc < 0)
        return rc;
    if (ts_init_rows(c->tensor, mode) != disk->dim) {
        free(index);
        index = NULL;
    }
    rc = row_sum_new(&sum, c->rank, ts_init_rows(c->tensor, mode), gram, err);
    for (uint64_t row = 0; row < disk->n_rows && rc == 0; row += most) {
        const uint64_t n = disk->n_rows - row < most ? disk->n_rows - row : most;
        rc = c->backend->get_rows(c->be, mode, row, n, chunk, err);
        for (uint64_t i = 0; i < n && rc == 0; i++) {
            sum.row = index == NULL ? row + i : index[row + i];
            add_row(&sum, chunk + i * c->rank);
        }
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    row_sum_free(&sum);
    free(index);
    return rc;
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
    const struct ts_loss *loss = ts_loss_of(ts_spec_of(c->spec)->loss);
    int any_fixed = 0;
    if (c->nvecs && loss != NULL)
        return ts_fail(err, TS_EARG,
                       "a model with loss %s starts from random factors or from a model, not from "
                       "singular vectors",
                       loss->name);
    if (m == NULL)
        return 0;
    if (m->order != c->tensor->order)
        return ts_fail(err, TS_EARG, "%s: the model has %u modes, the tensor %u", m->path, m->order,
                       c->tensor->order);
    if (m->rank != c->rank)
        return ts_fail(err, TS_EARG,
                       "%s: the model has rank %u, but " TS_SET_RANK " is %u; " TS_SET_RANK
                       " %u goes on "
                       "from it",
                       m->path, m->rank, c->rank, m->rank);
    for (uint32_t k = 0; k < m->order; k++)
        any_fixed |= is_fixed(c, k);
    for (uint32_t k = 0; k < m->order; k++)
        if (!has_rows(c, k) && (!any_fixed || is_fixed(c, k)))
            return ts_fail(err, TS_EARG,
                           "%s: " TS_NTH_MODE " of the model has %" PRIu64
                           " row%s, of the tensor %" PRIu64,
                           m->path, k + 1, m->n_rows[k], ts_num_plural(m->n_rows[k]),
                           c->tensor->mode[k].disk.dim);
    return 0;
}

int ts_init_mode(const struct ts_init_conf *c, uint32_t mode, double *gram, struct ts_err *err)
{
    double *buf = malloc(chunk_rows(c->rank) * c->rank * sizeof *buf);
    uint64_t *index = NULL;
    int rc;
    if (buf == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows of " TS_NTH_MODE, mode + 1);
    rc = ts_tensor_rows(c->tensor, mode, &index, err);
    if (rc == 0)
        rc = is_drawn(c, mode) ? init_random(c, mode, index, buf, gram, err)
                               : init_model(c, mode, index, buf, gram, err);
    free(index);
    free(buf);
    return rc;
}

/* ---- writing the starting factors to a file ---- */

struct start {
    const struct ts_init_conf *conf;
    /* By mode: the index of each random row or, if the backend holds the starting factors, of each
     * of its rows. NULL: row i is index i. */
    uint64_t *index[TS_MAX_ORDER];
    uint64_t next; /* the backend's row that is read next */
};

/* rows := rows of the backend, with zeros for indices that have no row there. */
static int held_rows(struct start *s, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err)
{
    const struct ts_init_conf *c = s->conf;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows, *index = s->index[mode];
    uint64_t k = 0;
    int rc;
    if (index == NULL)
        return c->backend->get_rows(c->be, mode, row, n, rows, err);
    s->next = row == 0 ? 0 : s->next;
    while (s->next + k < n_rows && index[s->next + k] < row + n)
        k++;
    rc = k > 0 ? c->backend->get_rows(c->be, mode, s->next, k, rows, err) : 0;
    for (uint64_t i = n, held = k; i-- > 0 && rc == 0;) {
        double *to = rows + i * c->rank;
        if (held > 0 && index[s->next + held - 1] == row + i)
            memmove(to, rows + --held * c->rank, c->rank * sizeof *to);
        else
            memset(to, 0, c->rank * sizeof *to);
    }
    s->next += k;
    return rc;
}

static int start_rows(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                      struct ts_err *err)
{
    struct start *s = from;
    const struct ts_init_conf *c = s->conf;
    if (c->held)
        return held_rows(s, mode, row, n, rows, err);
    if (!is_drawn(c, mode))
        return ts_model_rows(c->model, mode, n, rows, err);
    for (uint64_t i = 0; i < n; i++)
        draw_row(c, mode, s->index[mode] == NULL ? row + i : s->index[mode][row + i],
                 rows + i * c->rank);
    return 0;
}

uint64_t ts_init_rows(const struct ts_tensor *t, uint32_t mode)
{
    const struct ts_disk_mode *disk = &t->mode[mode].disk;
    return disk->dim <= TS_INIT_GRAM_ROWS ? disk->dim : disk->n_rows;
}

static uint64_t saved_rows(const struct ts_init_conf *c, uint32_t mode)
{
    return is_drawn(c, mode) ? ts_init_rows(c->tensor, mode) : c->model->n_rows[mode];
}

int ts_init_is_computed(const struct ts_init_conf *c)
{
    return c->model == NULL && (c->nvecs || ts_spec_of(c->spec)->loss != TS_GCP_NONE);
}

/* Returns how many entries of a used slice's row take at least FULL_CHARS characters in a file. It
 * is 0 for a given model, whose entries may be 0 or 1, and for a computed start in a nonnegative
 * mode, where negative entries became 0. With a loss, the first entry may be a constant. */
static uint32_t long_numbers(const struct ts_init_conf *c, uint32_t mode)
{
    if (c->model != NULL)
        return 0;
    if (!ts_init_is_computed(c))
        return c->rank;
    return ts_spec_positive(c->spec, mode) ? 0 : c->nvecs ? c->rank : c->rank - 1;
}

double ts_init_save_bytes(const struct ts_init_conf *c, uint32_t mode)
{
    const double rows = (double)saved_rows(c, mode);
    const double used = fmin(rows, (double)c->tensor->mode[mode].disk.n_rows);
    const int drawn = c->model == NULL && !ts_init_is_computed(c);
    const double full = long_numbers(c, mode) * (drawn ? rows : used);
    return FULL_CHARS * full + ZERO_CHARS * (c->rank * rows - full);
}

int ts_init_save(const struct ts_init_conf *c, struct ts_model_out *out, struct ts_err *err)
{
    struct start s = { .conf = c };
    struct ts_factors f = {
        .order = c->tensor->order, .rank = c->rank, .get_rows = start_rows, .from = &s
    };
    int rc = ts_init_check(c, err);
    for (uint32_t m = 0; m < f.order && rc == 0; m++) {
        f.n_rows[m] = saved_rows(c, m);
        if (is_drawn(c, m) && (f.n_rows[m] < c->tensor->mode[m].disk.dim) != c->held)
            rc = ts_tensor_rows(c->tensor, m, &s.index[m], err);
    }
    if (rc == 0)
        rc = ts_model_add_start(out, &f, c->model != NULL ? c->model->weight : NULL, err);
    for (uint32_t m = 0; m < f.order; m++)
        free(s.index[m]);
    return rc;
}
