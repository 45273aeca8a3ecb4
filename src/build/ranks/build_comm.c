/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges a few numbers between the ranks of a build. Before each exchange the ranks agree that
 * no rank has failed. */
#include "build/ranks/build_comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int ts_build_comm_many(const struct ts_build_comm *b)
{
    return b != NULL && ts_comm_many(b->comm);
}

int ts_build_comm_agree(struct ts_build_comm *b, int rc, struct ts_err *err)
{
    uint64_t t0;
    if (!ts_build_comm_many(b))
        return rc;
    if (b->over.code < 0) { /* the other ranks have already agreed on a failure */
        *err = b->over;
        return b->over.code;
    }
    t0 = ts_clock_ns();
    rc = b->comm->ops->agree(b->comm, rc, err);
    b->exchange_ns += ts_clock_ns() - t0;
    if (rc < 0)
        b->over = *err;
    return rc;
}

int ts_build_comm_gather(struct ts_build_comm *b, void *buffer, const uint64_t *first,
                         struct ts_err *err)
{
    const uint64_t t0 = ts_clock_ns();
    const int rc = b->comm->ops->gather(b->comm, buffer, first, err);
    b->exchange_ns += ts_clock_ns() - t0;
    return rc;
}

int ts_build_comm_deal(struct ts_build_comm *b, const void *send, const uint64_t *send_first,
                       void *got, const uint64_t *got_first, struct ts_err *err)
{
    const uint64_t t0 = ts_clock_ns();
    const int rc = b->comm->ops->deal(b->comm, send, send_first, got, got_first, err);
    b->exchange_ns += ts_clock_ns() - t0;
    return rc;
}

uint64_t *ts_build_comm_places(const struct ts_comm *c, uint32_t owner, uint64_t bytes)
{
    uint64_t *first = calloc(c->n + UINT64_C(1), sizeof *first);
    for (uint32_t r = 0; first != NULL && r < c->n; r++)
        first[r + 1] = first[r] + (owner == r || owner == c->n ? bytes : 0);
    return first;
}

int ts_build_comm_no_memory(struct ts_err *err)
{
    return ts_fail(err, TS_ENOMEM, "out of memory for what the processes tell each other");
}

int ts_build_comm_numbers(struct ts_build_comm *b, int rc, const uint64_t *v, uint32_t n,
                          uint64_t **all, struct ts_err *err)
{
    struct ts_comm *c = b->comm;
    uint64_t *first = ts_build_comm_places(c, c->n, n * sizeof *v);
    *all = calloc((uint64_t)c->n * n + 1, sizeof **all);
    if (rc == 0 && (first == NULL || *all == NULL))
        rc = ts_build_comm_no_memory(err);
    rc = ts_build_comm_agree(b, rc, err);
    if (rc == 0) {
        memcpy(*all + (uint64_t)c->rank * n, v, n * sizeof *v);
        rc = ts_build_comm_gather(b, *all, first, err);
    }
    free(first);
    return rc;
}

int ts_build_comm_join(struct ts_build_comm *b, int rc, enum ts_build_comm_join kind, uint64_t *v,
                       uint32_t n, struct ts_err *err)
{
    uint64_t *all;
    if (!ts_build_comm_many(b))
        return rc;
    rc = ts_build_comm_numbers(b, rc, v, n, &all, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        v[i] = all[i];
        for (uint32_t r = 1; r < b->comm->n; r++) {
            const uint64_t x = all[(uint64_t)r * n + i];
            if (kind == TS_JOIN_SUM)
                v[i] += x;
            else if (kind == TS_JOIN_MAX ? x > v[i] : x < v[i])
                v[i] = x;
        }
    }
    free(all);
    return rc;
}

int ts_build_comm_tell(struct ts_build_comm *b, int rc, void *bytes, uint64_t n, struct ts_err *err)
{
    struct ts_comm *c = b->comm;
    uint64_t *first;
    if (!ts_build_comm_many(b))
        return rc;
    first = ts_build_comm_places(c, 0, n);
    if (rc == 0 && first == NULL)
        rc = ts_build_comm_no_memory(err);
    rc = ts_build_comm_agree(b, rc, err);
    if (rc == 0)
        rc = ts_build_comm_gather(b, bytes, first, err);
    free(first);
    return rc;
}
