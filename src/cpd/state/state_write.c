/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the state of a run to a file, from front to back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"
#include "cpd/state/state_sections.h"

struct sink {
    int fd;
    const char *path;
    const atomic_int *give_up;
    XXH3_state_t *hash;
    char *piece; /* a buffer of TS_STATE_PIECE bytes */
};

static int put(const struct sink *k, const void *bytes, uint64_t n, struct ts_err *err)
{
    const char *from = bytes;
    while (n > 0) {
        const size_t want = n < TS_STATE_PIECE ? (size_t)n : TS_STATE_PIECE;
        const ssize_t got = write(k->fd, from, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be written", k->path);
        XXH3_64bits_update(k->hash, from, (size_t)got);
        from += got;
        n -= (uint64_t)got;
        if (k->give_up != NULL && atomic_load(k->give_up))
            return ts_fail(err, TS_ESTOP, "%s: given up", k->path);
    }
    return 0;
}

/* Writes the checksum of the bytes that were written since the last call of put_hash. */
static int put_hash(const struct sink *k, struct ts_err *err)
{
    const uint64_t hash = XXH3_64bits_digest(k->hash);
    const int rc = put(k, &hash, sizeof hash, err);
    XXH3_64bits_reset(k->hash);
    return rc;
}

/* Writes the padding and the checksum of a section that has n bytes. */
static int end_section(const struct sink *k, uint64_t n, struct ts_err *err)
{
    static const char zeros[8];
    const int rc = put(k, zeros, ts_state_sections_padded(n) - n, err);
    return rc == 0 ? put_hash(k, err) : rc;
}

static int put_section(const struct sink *k, const void *bytes, uint64_t n, struct ts_err *err)
{
    const int rc = put(k, bytes, n, err);
    return rc == 0 ? end_section(k, n, err) : rc;
}

static int put_factor(const struct sink *k, const struct ts_state *s, uint32_t mode,
                      ts_state_rows_fn *rows, void *ctx, struct ts_err *err)
{
    /* a piece (TS_STATE_PIECE bytes) has several rows: a row has at most 8 KiB */
    const uint64_t step = TS_STATE_PIECE / ts_state_sections_row(s);
    int rc = 0;
    for (uint64_t row = 0; row < s->n_rows[mode] && rc == 0; row += step) {
        const uint64_t n = s->n_rows[mode] - row < step ? s->n_rows[mode] - row : step;
        rc = rows(ctx, mode, row, n, k->piece, err);
        if (rc == 0)
            rc = put(k, k->piece, n * ts_state_sections_row(s), err);
    }
    return rc == 0 ? end_section(k, ts_state_sections_bytes(s, TS_SECTION_FACTOR, mode), err) : rc;
}

static int has_section(const struct ts_state *s, uint32_t what)
{
    return what < TS_SECTIONS_FIXED || (what == TS_SECTION_CONSTRAINTS && s->constrained) ||
           (what == TS_SECTION_ACCELERATE && s->accelerated) ||
           (what == TS_SECTION_BEST && s->spec.best) || (what == TS_SECTION_FIGURES && s->figured);
}

/* Returns the number of moments of each factor, including the best factors. */
static uint32_t moments(const struct ts_state *s)
{
    return ts_spec_moments(&s->spec) + (s->spec.best != 0);
}

static uint32_t count_sections(const struct ts_state *s)
{
    return TS_SECTIONS_FIXED + (s->constrained != 0) + (s->accelerated != 0) + (s->spec.best != 0) +
           (s->figured != 0) + (uint32_t)__builtin_popcount(s->factors) +
           (uint32_t)__builtin_popcount(s->kept) + moments(s) * s->order;
}

uint64_t ts_state_bytes(const struct ts_state *s)
{
    uint64_t sum =
        sizeof(struct ts_disk_state) + 8 + count_sections(s) * (sizeof(struct ts_disk_section) + 8);
    for (uint32_t i = 0; i < TS_SECTIONS_NAMED; i++)
        sum += ts_state_sections_padded(ts_state_sections_bytes(s, (enum ts_section)i, 0));
    for (uint32_t m = 0; m < s->order; m++) {
        sum += (s->factors >> m & 1) != 0
                   ? ts_state_sections_padded(ts_state_sections_bytes(s, TS_SECTION_FACTOR, m))
                   : 0;
        sum += (s->kept >> m & 1) != 0
                   ? ts_state_sections_padded(ts_state_sections_bytes(s, TS_SECTION_BEFORE, m))
                   : 0;
        sum +=
            moments(s) * ts_state_sections_padded(ts_state_sections_bytes(s, TS_SECTION_MOMENT, m));
    }
    return sum;
}

/* Adds sections of the kind `what` to the list of sections, for all modes whose bit is set in
 * `modes`. */
static void list_factors(const struct ts_state *s, enum ts_section what, uint32_t modes,
                         struct ts_disk_section *section, uint32_t *n)
{
    for (uint32_t m = 0; m < s->order; m++)
        if ((modes >> m & 1) != 0) {
            ts_state_sections_factor(what, m, section[*n].name);
            section[(*n)++].bytes = ts_state_sections_bytes(s, what, m);
        }
}

static int put_head(const struct sink *k, const struct ts_state *s, struct ts_err *err)
{
    struct ts_disk_section section[TS_SECTIONS_MOST] = { 0 };
    const struct ts_disk_state h = {
        .magic = { 'T', 'S', 'H', 'S', 'T', 'A', 'T', 'E' },
        .version = TS_STATE_VERSION,
        .n_sections = count_sections(s),
        .file_bytes = ts_state_bytes(s),
        .serial = s->serial,
        .tensor_hash = s->tensor_hash,
        .nnz = s->nnz,
        .order = s->order,
        .rank = s->rank,
        .precision = (uint32_t)s->precision,
        .flags = s->flags,
        .sweep = s->sweep,
        .mode = s->mode,
        .saved_s = s->saved_s,
        .run_ns = s->run_ns,
    };
    uint32_t n = 0;
    int rc;
    for (uint32_t i = 0; i < TS_SECTIONS_NAMED; i++)
        if (has_section(s, i)) {
            snprintf(section[n].name, sizeof section[n].name, "%s", ts_state_sections_name[i]);
            section[n++].bytes = ts_state_sections_bytes(s, (enum ts_section)i, 0);
        }
    list_factors(s, TS_SECTION_FACTOR, s->factors, section, &n);
    list_factors(s, TS_SECTION_BEFORE, s->kept, section, &n);
    for (uint32_t i = 0; i < TS_MOMENTS_MOST; i++)
        if (ts_spec_has_moment(&s->spec, i))
            list_factors(s, (enum ts_section)(TS_SECTION_MOMENT + i), (UINT32_C(1) << s->order) - 1,
                         section, &n);
    rc = put(k, &h, sizeof h, err);
    if (rc == 0)
        rc = put(k, section, n * sizeof *section, err);
    return rc == 0 ? put_hash(k, err) : rc;
}

/* Writes the section "accelerate", which has the data of the extrapolation. */
static int put_pace(const struct sink *k, const struct ts_state *s, struct ts_err *err)
{
    const uint64_t bytes = ts_state_sections_bytes(s, TS_SECTION_ACCELERATE, 0);
    int rc = put(k, &s->pace, sizeof s->pace, err);
    if (rc == 0)
        rc = put(k, s->before, bytes - sizeof s->pace, err);
    return rc == 0 ? end_section(k, bytes, err) : rc;
}

static uint32_t run_demands(const struct ts_spec *s)
{
    return (s->observed ? TS_DEMAND_OBSERVED : 0u) | (s->by_count ? TS_DEMAND_BY_COUNT : 0u) |
           (s->poisson ? TS_DEMAND_POISSON : 0u) | (uint32_t)s->loss * TS_DEMAND_LOSS |
           (s->lbfgsb ? TS_DEMAND_LBFGSB : 0u) | (s->mean ? TS_DEMAND_MEAN : 0u) |
           (s->best ? TS_DEMAND_BEST : 0u) | (s->held ? TS_DEMAND_HELD : 0u);
}

static uint32_t mode_demands(const struct ts_constraint *c)
{
    return (c->nonneg ? TS_DEMAND_NONNEG : 0u) | (c->simplex ? TS_DEMAND_SIMPLEX : 0u) |
           (c->bounded ? TS_DEMAND_BOUNDS : 0u) | (c->orthogonal ? TS_DEMAND_ORTHOGONAL : 0u) |
           (c->smooth > 0 ? TS_DEMAND_SMOOTH : 0u);
}

static struct ts_disk_constraint disk_constraint(const struct ts_spec *s, uint32_t mode,
                                                 double size)
{
    const struct ts_constraint *c = &s->mode[mode];
    return (struct ts_disk_constraint){
        .demands = mode_demands(c) | run_demands(s),
        .fixed = c->fixed != 0,
        .l1 = c->l1,
        .l2 = c->l2,
        .size = size,
        .smooth = c->smooth,
        .loss_at = s->loss_at,
        .lower = c->bounded ? c->lower : 0,
        .upper = c->bounded ? c->upper : 0,
    };
}

static int put_fixed(const struct sink *k, const struct ts_state *s, struct ts_err *err)
{
    uint64_t shape[2 * TS_MAX_ORDER];
    struct ts_disk_constraint constraint[TS_MAX_ORDER] = { 0 };
    const void *from[TS_SECTION_CONSTRAINTS + 1] = { shape,   s->gram,    s->lambda, s->part,
                                                     s->past, s->options, constraint };
    int rc = 0;
    for (uint32_t m = 0; m < s->order; m++) {
        shape[2 * m] = s->dim[m];
        shape[2 * m + 1] = s->n_rows[m];
        constraint[m] = disk_constraint(&s->spec, m, s->size[m]);
    }
    for (uint32_t i = 0; i <= TS_SECTION_CONSTRAINTS && rc == 0; i++)
        if (has_section(s, i))
            rc = put_section(k, from[i], ts_state_sections_bytes(s, (enum ts_section)i, 0), err);
    if (rc == 0 && s->accelerated)
        rc = put_pace(k, s, err);
    if (rc == 0 && has_section(s, TS_SECTION_BEST))
        rc = put_section(k, s->best, ts_state_sections_bytes(s, TS_SECTION_BEST, 0), err);
    if (rc == 0 && s->figured)
        rc = put_section(k, s->figures, ts_state_sections_bytes(s, TS_SECTION_FIGURES, 0), err);
    return rc;
}

int ts_state_write(const struct ts_state *s, ts_state_rows_fn *rows, void *ctx,
                   const atomic_int *give_up, int fd, const char *path, struct ts_err *err)
{
    struct sink k = { .fd = fd,
                      .path = path,
                      .give_up = give_up,
                      .hash = XXH3_createState(),
                      .piece = malloc(TS_STATE_PIECE) };
    int rc =
        k.hash == NULL || k.piece == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path) : 0;
    if (rc == 0) {
        XXH3_64bits_reset(k.hash);
        rc = put_head(&k, s, err);
    }
    if (rc == 0)
        rc = put_fixed(&k, s, err);
    for (uint32_t m = 0; m < s->order && rc == 0; m++)
        if ((s->factors >> m & 1) != 0)
            rc = put_factor(&k, s, m, rows, ctx, err);
    for (uint32_t m = 0; m < s->order && rc == 0; m++)
        if ((s->kept >> m & 1) != 0)
            rc = put_section(&k, s->before_rows[m],
                             ts_state_sections_bytes(s, TS_SECTION_BEFORE, m), err);
    for (uint32_t i = 0; i < TS_MOMENTS_MOST; i++)
        for (uint32_t m = 0; m < s->order && rc == 0 && ts_spec_has_moment(&s->spec, i); m++)
            rc = put_section(&k, s->moment[i][m], ts_state_sections_bytes(s, TS_SECTION_MOMENT, m),
                             err);
    free(k.piece);
    XXH3_freeState(k.hash);
    return rc;
}
