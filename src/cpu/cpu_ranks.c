/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets several ranks (processes) compute on CPU cores: shares factors within a machine, sends rows,
 * and adds up sums over ranks. */
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/cpu_state.h"

/* Updates in which a rank writes only the rows that it updates, and reads no other rows of the
 * mode's factor. */
#define SHARED_UPDATES (TS_ROWS_BY_BACKEND & ~(TS_ROWS_BY_GRAMS | TS_ROWS_BY_LOSS))

int ts_cpu_ranks_open(struct ts_cpu_shared *s, const struct ts_comm *comm, struct ts_err *err)
{
    const uint64_t n = comm == NULL ? 0 : comm->n + UINT64_C(1);
    uint64_t *at;
    if (!ts_comm_many(comm))
        return 0;
    at = s->dealt = calloc(s->n_models * s->tensor->order * 2 * n, sizeof *s->dealt);
    s->told = calloc(n, sizeof *s->told);
    if (s->dealt == NULL || s->told == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path);
    s->share = ts_pass_share(s->pass);
    for (uint32_t k = 0; k < s->n_models; k++)
        for (uint32_t m = 0; m < s->tensor->order; m++, at += 2 * n)
            s->model[k].ranks[m] = (struct ts_rowsolve_ranks){
                .share = s->share, .group = at, .row = at + n, .mode = m
            };
    return s->n_models > 1 ? ts_share_stage(s->share, err) : 0;
}

static int has_neighbours(const struct ts_comm *comm)
{
    for (uint32_t r = 1; r < comm->n && comm->machine != NULL; r++)
        for (uint32_t other = 0; other < r; other++)
            if (comm->machine[r] == comm->machine[other])
                return 1;
    return 0;
}

uint64_t ts_cpu_shares(const void *be)
{
    const struct ts_cpu_shared *s = ((const struct ts_cpu *)be)->shared;
    uint64_t bytes = 0;
    if (s->n_models > 1 || s->n_apart > 1 || (s->capabilities & TS_ROWS_ALL & ~SHARED_UPDATES) != 0)
        return 0;
    for (uint32_t m = 0; m < s->tensor->order; m++)
        bytes += s->factor[m].bytes;
    return bytes;
}

/* Moves the factors of all modes to memory that the ranks of a machine share. If this memory is
 * lacking for one mode, no factor is moved. */
static int share_memory(struct ts_cpu *c, struct ts_comm *comm, struct ts_err *err)
{
    struct ts_cpu_shared *s = c->shared;
    const uint32_t order = s->tensor->order;
    void *memory[TS_MAX_ORDER] = { NULL };
    uint32_t n = 0;
    int rc = 0;
    if (comm->ops->share == NULL || !has_neighbours(comm) || ts_cpu_shares(c) == 0)
        return 0;
    for (; n < order; n++) {
        rc = comm->ops->share(comm, s->factor[n].bytes, &memory[n], err);
        if (rc < 0 || memory[n] == NULL)
            break;
    }
    for (uint32_t m = 0; m < n && n < order; m++)
        comm->ops->unshare(comm, memory[m], s->factor[m].bytes);
    for (uint32_t m = 0; m < order && n == order; m++) {
        struct ts_fmat *f = &s->factor[m];
        s->comm = comm;
        ts_fmat_free(f);
        *f = ts_fmat_at(memory[m], c->factor[m].n_rows, c->factor[m].rank, c->factor[m].precision);
        c->factor[m] = ts_fmat_view(f, c->col, c->rank);
    }
    return rc;
}

/* Whether updated rows must be sent at all: between machines or, if ranks do not share factors,
 * between ranks. */
static int rows_travel(const struct ts_comm *comm, int shared)
{
    for (uint32_t r = 1; r < comm->n && shared; r++)
        if (comm->machine[r] != comm->machine[0])
            return 1;
    return !shared;
}

int ts_cpu_spread(void *be, const struct ts_spread *spread, struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_cpu_shared *s = c->shared;
    struct ts_comm *comm = s->share == NULL ? NULL : ts_share_comm(s->share);
    struct ts_needs_conf conf = { .tensor = s->tensor,
                                  .share = s->share,
                                  .threads = s->threads,
                                  .skipped = spread->skipped,
                                  .always = spread->rows_to == TS_ROWS_TO_NEEDING,
                                  .unpack = ts_kernel_unpack(ts_isa_best()) };
    const int several = s->n_models > 1 || s->n_apart > 1;
    int rc = comm == NULL || several || spread->own ? 0 : share_memory(c, comm, err);
    if (rc < 0 || comm == NULL || several || (s->capabilities & TS_CPU_TO_ALL) != 0 ||
        spread->rows_to == TS_ROWS_TO_ALL || !rows_travel(comm, s->factor[0].shared))
        return rc;
    conf.shared = s->factor[0].shared;
    conf.row_bytes = (uint32_t)(c->rank * ts_precision_bytes(s->factor[0].precision));
    conf.stride_bytes =
        (uint32_t)(s->factor[0].stride * ts_precision_bytes(s->factor[0].precision));
    rc = ts_share_agree(s->share, ts_needs_new(&conf, &s->needs, err), err);
    if (rc == 0)
        ts_pass_walk(s->pass, s->needs);
    return rc;
}

int ts_cpu_agree(void *be, int rc, struct ts_err *err)
{
    struct ts_share *share = ((struct ts_cpu *)be)->shared->share;
    return share == NULL ? rc : ts_share_agree(share, rc, err);
}

int ts_cpu_tell_ranks(void *be, uint32_t mode, struct ts_backend_times *times, int rc,
                      struct ts_err *err)
{
    struct ts_cpu_shared *s = ((struct ts_cpu *)be)->shared;
    const struct ts_comm *comm;
    if (s->share == NULL)
        return rc;
    rc = ts_share_agree(s->share, rc, err);
    if (rc < 0)
        return rc;
    comm = ts_share_comm(s->share);
    s->told[comm->rank] = times->device[0];
    s->told[comm->rank].rank = comm->rank;
    s->told[comm->rank].nnz = ts_share_nnz(s->share, mode);
    s->told[comm->rank].share =
        (double)s->told[comm->rank].nnz / (double)(s->tensor->nnz > 0 ? s->tensor->nnz : 1);
    rc = ts_share_gather(s->share, s->told, sizeof *s->told, ts_share_groups(s->share, comm->n),
                         err);
    times->n_ranks = comm->n;
    times->cores = s->told;
    return rc;
}

int ts_cpu_given_up(void *be)
{
    struct ts_share *share = ((struct ts_cpu *)be)->shared->share;
    return share != NULL && ts_share_poll(share);
}

int ts_cpu_collect(void *be, uint32_t modes, int rc, struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_cpu_shared *s = c->shared;
    int moved = 0;
    modes &= s->first_lacks;
    if (modes == 0)
        return rc;
    rc = ts_share_agree(s->share, rc, err);
    if (rc <= 0 && rc != TS_ESTOP)
        return rc;
    for (uint32_t m = 0; m < s->tensor->order && moved == 0; m++)
        if ((modes >> m & 1) != 0)
            moved = ts_share_rows_to_first(s->share, &c->factor[m], c->ranks[m].row, err);
    s->first_lacks &= ~modes;
    if (ts_share_comm(s->share)->rank == 0)
        s->lacks &= ~modes;
    if (moved == 0 && rc > 0 && s->factor[0].shared)
        moved = ts_share_settle(s->share, err);
    return moved < 0 ? moved : rc;
}

const char *ts_cpu_link(const void *be)
{
    const struct ts_cpu *c = be;
    return c->factor[0].shared ? "through memory that the ranks of a machine share" : NULL;
}

void ts_cpu_deal(void *be, struct ts_feed_deal *ret)
{
    const struct ts_cpu_shared *s = ((const struct ts_cpu *)be)->shared;
    for (uint32_t m = 0; s->share != NULL && m < s->tensor->order; m++)
        ret->keep[m] = ts_share_deal(s->share, m);
}

int ts_cpu_settle(struct ts_cpu_shared *s, const struct ts_fmat *f, struct ts_err *err)
{
    s->put = 0;
    return f->shared ? ts_share_settle(s->share, err) : 0;
}

int ts_cpu_settle_put(struct ts_cpu_shared *s, struct ts_err *err)
{
    return s->put ? ts_cpu_settle(s, &s->factor[0], err) : 0;
}

int ts_cpu_deal_rows(struct ts_cpu *c, uint32_t mode, struct ts_fmat *rows, int some,
                     struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_rowsolve_ranks *ranks = &c->ranks[mode];
    uint64_t moved_ns;
    int rc;
    c->scattered = mode + 1;
    ranks->here = 0;
    ranks->needs = some ? c->shared->needs : NULL;
    ts_rowsolve_deal(c->rows, rows->n_rows, ranks);
    rc = ts_share_move_rows(c->shared->share, rows, ranks->row, err);
    if (rc == 0)
        rc = ts_cpu_settle(c->shared, rows, err);
    moved_ns = ts_clock_ns() - start;
    if (rc == 0 && times != NULL) {
        times->total_ns += moved_ns;
        times->device[0].exchange_ns += moved_ns;
        times->device[0].exposed_ns += moved_ns;
    }
    return rc;
}

struct ts_exchanged ts_cpu_exchanged(void *be)
{
    struct ts_cpu_shared *s = ((struct ts_cpu *)be)->shared;
    return s->share == NULL ? (struct ts_exchanged){ 0 } : ts_share_noted(s->share);
}

uint64_t ts_cpu_tell_rows(void *be, struct ts_backend_times *times)
{
    const struct ts_exchanged e = ts_cpu_exchanged(be);
    times->row_bytes = e.row_bytes;
    times->rows_to = e.row_bytes > 0 ? e.rows_to : TS_ROWS_STAY;
    return e.ns;
}

void ts_cpu_note_lacks(struct ts_cpu_shared *s, uint32_t mode,
                       const struct ts_rowsolve_ranks *ranks)
{
    const uint32_t bit = UINT32_C(1) << mode;
    if (ranks == NULL || ranks->here)
        return;
    s->lacks = ranks->some ? s->lacks | bit : s->lacks & ~bit;
    s->first_lacks = ranks->some ? s->first_lacks | bit : s->first_lacks & ~bit;
}

void ts_cpu_scale_some(struct ts_cpu *c, uint32_t mode, const double *s)
{
    const uint32_t me = ts_share_comm(c->shared->share)->rank;
    const uint64_t *row = c->ranks[mode].row;
    uint64_t n_words;
    const uint64_t *got = ts_needs_got(c->shared->needs, mode, &n_words);
    ts_rowsolve_scale_some(c->rows, &c->factor[mode], s, row[me], row[me + 1], got, n_words);
}
