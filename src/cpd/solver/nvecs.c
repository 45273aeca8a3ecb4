/* SPDX-License-Identifier: BSD-3-Clause */
/* Approximates the range of each unfolding by MTTKRPs, and makes its columns orthonormal. */
#include "cpd/solver/nvecs.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/rows/symm.h"

/* bytes of float64 rows that are copied to or from the backend at a time */
#define CHUNK_BYTES (UINT64_C(1) << 20)
#define MIX_SEED    UINT64_C(0x6E76656373)

struct nvecs {
    const struct ts_nvecs_conf *conf;
    const struct ts_init_conf *init;
    /* kept: number of columns of the current mode that are singular vectors, not drawn at random */
    uint32_t rank, kept;
    double *v, *w; /* rank x rank: a Gram matrix and its eigenvectors */
    /* d: `rank` eigenvalues of v; sum: `rank` column sums of the mode's MTTKRP */
    double *d, *sum;
    uint32_t *by_size; /* rank: columns in descending order of d */
    double *chunk;     /* memory for rows that are being copied */
};

double ts_nvecs_mix(uint64_t seed, uint32_t mode, uint32_t rank, uint32_t j, uint32_t r)
{
    const double pi = 3.14159265358979323846;
    const double sign = (ts_mix(ts_mix(seed + MIX_SEED + mode) + j) >> 63) != 0 ? -1 : 1;
    return sign * sqrt((r == 0 ? 1.0 : 2.0) / rank) * cos(pi * (j + 0.5) * r / rank);
}

static void make_mix(const struct nvecs *s, uint32_t mode, double *ret)
{
    for (uint32_t j = 0; j < s->rank; j++)
        for (uint32_t r = 0; r < s->rank; r++)
            ret[(size_t)j * s->rank + r] = ts_nvecs_mix(s->init->seed, mode, s->rank, j, r);
}

static void transpose(uint32_t rank, double *x)
{
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j < i; j++) {
            const double t = x[(size_t)i * rank + j];
            x[(size_t)i * rank + j] = x[(size_t)j * rank + i];
            x[(size_t)j * rank + i] = t;
        }
}

/* row := row times the rank x rank matrix p */
static void times(uint32_t rank, const double *restrict p, double *restrict row)
{
    double out[TS_MAX_RANK] = { 0 };
    for (uint32_t k = 0; k < rank; k++) {
        const double x = row[k];
        const double *restrict from = p + (size_t)k * rank;
        for (uint32_t r = 0; r < rank; r++)
            out[r] += x * from[r];
    }
    memcpy(row, out, rank * sizeof *row);
}

/* A change of all rows of a mode. The members apply in this order. */
struct step {
    int draw;        /* 1: entries are drawn from [-1, 1); 0: rows come from the backend */
    const double *p; /* rows are multiplied by this matrix; or NULL */
    /* 1: columns from `kept` on are drawn from [0, 1), divided by the root of the number of rows */
    int rest;
    const double *q; /* rows are multiplied by this matrix; or NULL */
    int positive;    /* 1: negative entries become 0 */
};

static void change_row(const struct nvecs *s, uint32_t mode, const struct step *step,
                       uint64_t index, double *row)
{
    const struct ts_init_conf *c = s->init;
    const double n_rows = (double)c->tensor->mode[mode].disk.n_rows;
    for (uint32_t r = 0; r < s->rank && step->draw; r++)
        row[r] = 2 * ts_init_entry(c->seed, mode, index, r) - 1;
    if (step->p != NULL)
        times(s->rank, step->p, row);
    for (uint32_t r = s->kept; r < s->rank && step->rest; r++)
        row[r] = ts_init_entry(c->seed, mode, index, r) / sqrt(n_rows);
    if (step->q != NULL)
        times(s->rank, step->q, row);
    for (uint32_t r = 0; r < s->rank && step->positive; r++)
        row[r] = row[r] > 0 ? row[r] : 0;
}

static int change_rows(const struct nvecs *s, uint32_t mode, const struct step *step,
                       struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows;
    const uint64_t most = CHUNK_BYTES / (s->rank * sizeof(double));
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    uint64_t *index = NULL;
    int rc = step->draw || step->rest ? ts_tensor_rows(c->tensor, mode, &index, err) : 0;
    for (uint64_t row = 0; row < n_rows && rc == 0; row += most) {
        const uint64_t n = n_rows - row < most ? n_rows - row : most;
        if (!step->draw)
            rc = c->backend->get_rows(c->be, mode, row, n, s->chunk, err);
        if (rc < 0)
            break;
#pragma omp parallel for num_threads(threads)
        for (uint64_t i = 0; i < n; i++)
            change_row(s, mode, step, index == NULL ? row + i : index[row + i],
                       s->chunk + i * s->rank);
        rc = c->backend->put_rows(c->be, mode, row, n, s->chunk, err);
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    free(index);
    return rc;
}

/* s->sum := the sum of all rows of the mode, added in order */
static int add_rows(struct nvecs *s, uint32_t mode, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows;
    const uint64_t most = CHUNK_BYTES / (s->rank * sizeof(double));
    int rc = 0;
    memset(s->sum, 0, s->rank * sizeof *s->sum);
    for (uint64_t row = 0; row < n_rows && rc == 0; row += most) {
        const uint64_t n = n_rows - row < most ? n_rows - row : most;
        rc = c->backend->get_rows(c->be, mode, row, n, s->chunk, err);
        for (uint64_t i = 0; i < n && rc == 0; i++)
            for (uint32_t r = 0; r < s->rank; r++)
                s->sum[r] += s->chunk[i * s->rank + r];
    }
    return rc;
}

/* s->v, the Gram matrix of the mode's MTTKRP Y, becomes the matrix by which Y is multiplied to get
 * its left singular vectors. */
static int take_vectors(struct nvecs *s, uint32_t mode, struct ts_err *err)
{
    const uint32_t rank = s->rank;
    const uint64_t n_rows = s->init->tensor->mode[mode].disk.n_rows;
    int rc = ts_symm_eigen(rank, s->v, s->d, s->w, err);
    if (rc < 0)
        return rc;
    for (uint32_t r = 0; r < rank; r++) {
        uint32_t at = r;
        for (; at > 0 && s->d[s->by_size[at - 1]] < s->d[r]; at--)
            s->by_size[at] = s->by_size[at - 1];
        s->by_size[at] = r;
    }
    memset(s->v, 0, (size_t)rank * rank * sizeof *s->v);
    for (s->kept = 0; s->kept < rank && s->kept < n_rows; s->kept++) {
        const double d = s->d[s->by_size[s->kept]];
        const double *z = s->w + (size_t)s->by_size[s->kept] * rank;
        double sum = 0;
        if (!(d > TS_NVECS_NONE * s->d[s->by_size[0]]) || !isfinite(1 / d))
            break;
        for (uint32_t k = 0; k < rank; k++)
            sum += s->sum[k] * z[k];
        for (uint32_t k = 0; k < rank; k++)
            s->v[(size_t)k * rank + s->kept] = z[k] / (sum < 0 ? -sqrt(d) : sqrt(d));
    }
    return 0;
}

/* Computes the rows of a mode n from the matrices B_m of all other modes m (nvecs.h): mixed
 * singular vectors B_n or, in the first mode, the singular vectors U_n themselves. */
static int find_range(struct nvecs *s, uint32_t mode, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    struct ts_backend_times times = { 0 };
    double size = 0;
    int rc;
    ts_feed_rewind(s->conf->feed);
    rc = c->backend->pass(&(struct ts_request){ .be = c->be }, 1, mode, s->conf->feed, &times, err);
    if (rc == 0)
        rc = c->backend->gram(c->be, mode, s->v, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < (size_t)s->rank * s->rank; i++)
        size += fabs(s->v[i]);
    if (!isfinite(size)) {
        /* infinite values of the tensor may be the cause */
        rc = ts_tensor_check_values(c->tensor, c->stop, err);
        return rc < 0 ? rc
                      : ts_fail(err, TS_ELIMIT,
                                "singular vectors of " TS_NTH_MODE
                                " are not finite: the values leave the "
                                "range of the precision; scale them so that the largest is near 1",
                                mode + 1);
    }
    rc = add_rows(s, mode, err);
    if (rc == 0)
        rc = take_vectors(s, mode, err);
    if (rc < 0)
        return rc;
    make_mix(s, mode, s->w);
    return change_rows(s, mode,
                       &(struct step){ .p = s->v, .rest = 1, .q = mode == 0 ? NULL : s->w }, err);
}

/* Replaces B_n, the mixed singular vectors of a mode n, by the singular vectors U_n, and computes
 * the Gram matrix of U_n. */
static int end_mode(struct nvecs *s, uint32_t mode, struct ts_err *err)
{
    struct step step = { .positive = ts_spec_positive(s->init->spec, mode) };
    int rc;
    if (mode > 0) {
        make_mix(s, mode, s->w);
        transpose(s->rank, s->w);
        step.p = s->w;
    }
    rc = change_rows(s, mode, &step, err);
    return rc == 0 ? ts_init_gram(s->init, mode, s->chunk, CHUNK_BYTES / (s->rank * sizeof(double)),
                                  s->conf->gram + (size_t)mode * s->rank * s->rank, err)
                   : rc;
}

static int iterate(struct nvecs *s, struct ts_err *err)
{
    const uint32_t order = s->init->tensor->order;
    int rc = 0;
    ts_feed_skip(s->conf->feed, s->conf->first ? 0 : 1);
    for (uint32_t m = 0; m < order && rc == 0; m++)
        rc = change_rows(s, m, &(struct step){ .draw = 1 }, err);
    for (uint32_t round = 0; round < TS_NVECS_ROUNDS && rc == 0; round++)
        for (uint32_t m = 1; m < order && rc == 0; m++)
            rc = find_range(s, m, err);
    if (rc == 0 && s->conf->first)
        rc = find_range(s, 0, err);
    for (uint32_t m = s->conf->first ? 0 : 1; m < order && rc == 0; m++)
        rc = end_mode(s, m, err);
    return rc;
}

/* Computes the singular vectors of all modes. MTTKRPs are in the memory of factors, even for modes
 * whose row updates need separate memory for them. */
static int run_in_place(struct nvecs *s, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint32_t own = ts_spec_own(c->spec, c->tensor->order);
    int rc = own == 0 ? 0 : c->backend->own_rows(c->be, 0, err);
    if (rc == 0)
        rc = iterate(s, err);
    return rc == 0 && own != 0 ? c->backend->own_rows(c->be, own, err) : rc;
}

int ts_nvecs_start(const struct ts_nvecs_conf *conf, struct ts_err *err)
{
    const uint32_t rank = conf->init->rank;
    struct nvecs s = { .conf = conf, .init = conf->init, .rank = rank };
    int rc;
    s.v = conf->scratch;
    s.w = s.v + (size_t)rank * rank;
    s.chunk = malloc(CHUNK_BYTES);
    s.d = malloc(2 * rank * sizeof *s.d);
    s.by_size = malloc(rank * sizeof *s.by_size);
    if (s.chunk == NULL || s.d == NULL || s.by_size == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "out of memory for rows of factors");
    } else {
        s.sum = s.d + rank;
        rc = run_in_place(&s, err);
    }
    free(s.chunk);
    free(s.d);
    free(s.by_size);
    return rc;
}
