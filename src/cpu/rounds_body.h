/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds_body.h - the weighted product of a row, once for each instruction set and precision. Included by kernel_body.h
 * after cells_body.h.
 *
 * The rows that a nonzero multiplies (p) are computed to memory, nonzero after nonzero, because a row takes several
 * rounds with the same ones; then the model's values of up to TS_ROUNDS_CHUNK of them, what these weigh, and the sum.
 */

/* to := p of n nonzeros from position `at` on. */
INLINE void NAME(terms)(const struct ts_rounds_job *job, const struct ts_flat *flat, uint32_t at,
                        uint32_t n, uint32_t n_vec, VEC *restrict to)
{
    for (uint32_t i = 0; i < n; i++, to += n_vec) {
        const VEC *row = (const VEC *)((const TS_REAL *)job->table[1] +
                                       (uint64_t)flat->idx[1][at + i] * job->stride);
        for (uint32_t l = 1; l < job->order; l++) {
            const char *ahead =
                (const char *)((const TS_REAL *)job->table[l] +
                               (uint64_t)flat->idx[l][at + i + TS_KERNEL_AHEAD] * job->stride);
            for (uint32_t byte = 0; job->far[l] && byte < n_vec * sizeof(VEC); byte += 64)
                __builtin_prefetch(ahead + byte);
        }
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            to[v] = row[v];
        for (uint32_t l = 2; l < job->order; l++) {
            row = (const VEC *)((const TS_REAL *)job->table[l] +
                                (uint64_t)flat->idx[l][at + i] * job->stride);
            TS_UNROLL
            for (uint32_t v = 0; v < n_vec; v++)
                to[v] *= row[v];
        }
    }
}

/* The FOLD sums of <p, own> of each. */
INLINE void NAME(models)(const VEC *restrict p, const VEC *restrict own, uint32_t n, uint32_t n_vec,
                         FOLDED *restrict sum)
{
    for (uint32_t i = 0; i < n; i++, p += n_vec) {
        VEC dot = p[0] * own[0];
        TS_UNROLL
        for (uint32_t v = 1; v < n_vec; v++)
            dot += p[v] * own[v];
        sum[i] = NAME(fold)(dot);
    }
}

/* phi += sum of g p over n nonzeros, n_some vectors of columns of n_vec. */
INLINE void NAME(sum_weighted)(const VEC *restrict p, const TS_REAL *restrict g, uint32_t n,
                               uint32_t n_vec, uint32_t n_some, SUMS *restrict phi)
{
    VEC sum[4];
    TS_UNROLL
    for (uint32_t v = 0; v < n_some; v++)
        sum[v] = (VEC){ 0 };
    for (uint32_t i = 0; i < n; i++, p += n_vec) {
        TS_UNROLL
        for (uint32_t v = 0; v < n_some; v++)
            sum[v] += p[v] * g[i];
    }
    TS_UNROLL
    for (uint32_t v = 0; v < n_some; v++)
        phi[v] += __builtin_convertvector(sum[v], SUMS);
}

#define WIDTH(name, n)                                                                          \
    static __attribute__((noinline)) void NAME(name)(                                           \
        const struct ts_rounds_job *job, const struct ts_flat *flat, uint32_t at, uint32_t nnz, \
        const VEC *own, int held, VEC *p, FOLDED *sum)                                          \
    {                                                                                           \
        if (!held)                                                                              \
            NAME(terms)(job, flat, at, nnz, n, p);                                              \
        NAME(models)(p, own, nnz, n, sum);                                                      \
    }
WIDTH(width_1, 1)
WIDTH(width_2, 2)
WIDTH(width_4, 4)
WIDTH(width_of, job->stride / TS_LANES)
#undef WIDTH

static void NAME(chunk)(const struct ts_rounds_job *job, const struct ts_flat *flat, uint32_t at,
                        uint32_t n, const VEC *own, int held, VEC *p,
                        struct ts_rounds_scratch *scratch)
{
    const TS_REAL *sum = (const TS_REAL *)scratch->fold;
    FOLDED *fold = (FOLDED *)scratch->fold;
    switch (job->stride / TS_LANES) {
    case 1:
        NAME(width_1)(job, flat, at, n, own, held, p, fold);
        break;
    case 2:
        NAME(width_2)(job, flat, at, n, own, held, p, fold);
        break;
    case 4:
        NAME(width_4)(job, flat, at, n, own, held, p, fold);
        break;
    default:
        NAME(width_of)(job, flat, at, n, own, held, p, fold);
    }
    for (uint32_t i = 0; i < n; i++)
#if FOLD == 4
        scratch->model[i] =
            (double)((sum[4 * i] + sum[4 * i + 1]) + (sum[4 * i + 2] + sum[4 * i + 3]));
#else
        scratch->model[i] = (double)(sum[2 * i] + sum[2 * i + 1]);
#endif
}

static void NAME(add_weighted)(const VEC *p, const TS_REAL *g, uint32_t n, uint32_t n_vec,
                               SUMS *phi)
{
    uint32_t v = 0;
    switch (n_vec) {
    case 1:
        NAME(sum_weighted)(p, g, n, 1, 1, phi);
        return;
    case 2:
        NAME(sum_weighted)(p, g, n, 2, 2, phi);
        return;
    case 4:
        NAME(sum_weighted)(p, g, n, 4, 4, phi);
        return;
    }
    for (; v + 4 <= n_vec; v += 4)
        NAME(sum_weighted)(p + v, g, n, n_vec, 4, phi + v);
    for (; v < n_vec; v++)
        NAME(sum_weighted)(p + v, g, n, n_vec, 1, phi + v);
}

void TS_ROUNDS_NAME(const struct ts_rounds_job *job, const struct ts_flat *flat, uint32_t begin,
                    uint32_t n, const void *own, int held, struct ts_rounds_scratch *scratch,
                    double *phi)
{
    const uint32_t n_vec = job->stride / TS_LANES;
    VEC *product = (VEC *)scratch->product;
    TS_REAL g[TS_ROUNDS_CHUNK];
    for (uint32_t done = 0; done < n;) {
        const uint32_t at = begin + done;
        const uint32_t m = n - done < TS_ROUNDS_CHUNK ? n - done : TS_ROUNDS_CHUNK;
        VEC *p = n <= scratch->most ? product + (uint64_t)done * n_vec : product;
        NAME(chunk)(job, flat, at, m, own, held, p, scratch);
        if (phi != NULL) {
            job->loss->weigh(m, flat->value + at, scratch->model, job->at, scratch->weight);
            if (job->zeros) {
                job->loss->weigh(m, scratch->zero, scratch->model, job->at, scratch->less);
                for (uint32_t i = 0; i < m; i++)
                    scratch->weight[i] -= scratch->less[i];
            }
            for (uint32_t i = 0; flat->held != NULL && i < m; i++)
                scratch->weight[i] = flat->held[at + i] ? 0 : scratch->weight[i];
            for (uint32_t i = 0; i < m; i++)
                g[i] = (TS_REAL)scratch->weight[i];
            NAME(add_weighted)(p, g, m, n_vec, (SUMS *)phi);
        } else if (flat->held != NULL) {
            for (uint32_t i = 0; i < m; i++) {
                const double *x = flat->value + at + i, *model = scratch->model + i;
                const double judged = job->loss->judge(1, x, model, job->at);
                if (flat->held[at + i]) {
                    scratch->held_n++;
                    scratch->held_judged += judged;
                    scratch->held_model += *model;
                    scratch->held_squares += *x * *x;
                } else {
                    scratch->judged += judged;
                    scratch->inner += *x * *model;
                }
            }
        } else {
            scratch->judged += job->loss->judge(m, flat->value + at, scratch->model, job->at);
            for (uint32_t i = 0; i < m; i++)
                scratch->inner += flat->value[at + i] * scratch->model[i];
        }
        done += m;
    }
}
