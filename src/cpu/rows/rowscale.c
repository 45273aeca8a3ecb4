/* SPDX-License-Identifier: BSD-3-Clause */
/* rowscale.c - multiplies the columns of a factor, in all rows or in some. */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "base/machine/fpmode.h"
#include "cpu/rows/rowsolve_state.h"

#define LONE_SCALED  (UINT64_C(1) << 16) /* one thread scales up to this many numbers */
#define SCALED_WORDS 1024u               /* words of row bits that a thread takes at a time */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The numbers by which columns are multiplied, 0 for padding. fits: all are exact in float32. */
struct factors {
    _Alignas(64) double wide[TS_FMAT_MAX_STRIDE];
    _Alignas(64) float narrow[TS_FMAT_MAX_STRIDE];
    int fits;
};

static void fill_factors(const struct ts_fmat *f, const double *by, struct factors *ret)
{
    ret->fits = 1;
    for (uint32_t r = 0; r < f->width; r++) {
        const double x = ret->wide[r] = r < f->rank ? by[r] : 0;
        const float n = ret->narrow[r] = (float)x; /* a denormal float32 would count as zero */
        ret->fits = ret->fits && n == x && (n == 0 || fabsf(n) >= FLT_MIN);
    }
}

/* Scales the columns in n_blocks blocks of rows from block `first` on, up to row end_row. */
static void scale_blocks(struct ts_rowsolve *s, struct ts_fmat *f, const struct factors *x,
                         uint64_t first, uint64_t n_blocks, uint64_t end_row)
{
    const double *padded = x->wide;
    const float *narrow = x->fits ? x->narrow : NULL;
    const uint64_t begin = first * TS_ROWBLOCK_ROWS;
    const uint64_t behind = least((first + n_blocks) * TS_ROWBLOCK_ROWS, end_row);
    if (begin >= behind)
        return;
    if (s->threads == 1 || (behind - begin) * f->width <= LONE_SCALED) {
        const uint64_t mode = ts_fpmode_flush();
        s->ops->scale(f, begin, behind - begin, padded, narrow);
        ts_fpmode_restore(mode);
        return;
    }
#pragma omp parallel num_threads(s->threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        const uint64_t n = (uint64_t)omp_get_num_threads(), me = (uint64_t)omp_get_thread_num();
        /* a thread scales the rows that it has solved */
        const uint64_t row = (first + n_blocks * me / n) * TS_ROWBLOCK_ROWS;
        const uint64_t end = least((first + n_blocks * (me + 1) / n) * TS_ROWBLOCK_ROWS, behind);
        if (row < end)
            s->ops->scale(f, row, end - row, padded, narrow);
        ts_fpmode_restore(mode);
    }
}

void ts_rowsolve_scale(struct ts_rowsolve *s, struct ts_fmat *f, const double *by, uint32_t part,
                       uint32_t n_parts)
{
    const uint64_t all = ts_rowsolve_blocks(f->n_rows), first = all * part / n_parts;
    const uint64_t n_blocks = all * (part + 1) / n_parts - first;
    struct factors x;
    fill_factors(f, by, &x);
    scale_blocks(s, f, &x, first, n_blocks, f->n_rows);
}

/* Scales the columns in the rows whose bits are set, one run of neighbouring rows after another. */
static void scale_words(const struct ts_rowsolve *s, struct ts_fmat *f, const struct factors *x,
                        const uint64_t *bit, uint64_t begin, uint64_t end)
{
    const uint64_t mode = ts_fpmode_flush();
    for (uint64_t w = begin; w < end; w++)
        for (uint64_t left = bit[w]; left != 0;) {
            const uint32_t from = (uint32_t)__builtin_ctzll(left);
            const uint64_t ends = ~(left >> from);
            const uint32_t n = ends == 0 ? 64 : (uint32_t)__builtin_ctzll(ends);
            s->ops->scale(f, w * 64 + from, n, x->wide, x->fits ? x->narrow : NULL);
            left = from + n < 64 ? left >> (from + n) << (from + n) : 0;
        }
    ts_fpmode_restore(mode);
}

void ts_rowsolve_scale_some(struct ts_rowsolve *s, struct ts_fmat *f, const double *by,
                            uint64_t begin, uint64_t end, const uint64_t *bit, uint64_t n_words)
{
    struct factors x;
    fill_factors(f, by, &x);
    scale_blocks(s, f, &x, begin / TS_ROWBLOCK_ROWS, ts_rowsolve_blocks(end - begin), end);
    if (s->threads == 1 || f->n_rows * f->width <= LONE_SCALED) {
        scale_words(s, f, &x, bit, 0, n_words);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->threads)
    for (uint64_t w = 0; w < n_words; w += SCALED_WORDS)
        scale_words(s, f, &x, bit, w, least(w + SCALED_WORDS, n_words));
}
