/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps the memory of a feed, spreads it over NUMA nodes and page-locks it in pieces. */
#include "stream/feed/hostbuf.h"

#include <assert.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/machine/bigmem.h"
#include "base/stop.h"

#define MOST_NODES 1024u
#define STEP_BYTES ((size_t)256 << 20)
#define WORD_BITS  (8 * sizeof(unsigned long))

/* Spreads memory over the NUMA nodes. Only speed depends on that, so if the kernel refuses it (as
 * in many containers), nothing is reported. The kernel is called directly, to avoid a dependency on
 * libnuma for two calls. */
static void spread(void *addr, size_t bytes)
{
    unsigned long node[MOST_NODES / WORD_BITS] = { 0 };
    int n = 0;
    if (syscall(SYS_get_mempolicy, NULL, node, (unsigned long)MOST_NODES, NULL,
                (unsigned long)MPOL_F_MEMS_ALLOWED) != 0)
        return;
    for (size_t i = 0; i < MOST_NODES / WORD_BITS; i++)
        n += __builtin_popcountl(node[i]);
    if (n > 1)
        (void)syscall(SYS_mbind, addr, bytes, (unsigned long)MPOL_INTERLEAVE, node,
                      (unsigned long)MOST_NODES, 0ul);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* this advice exists since Linux 5.14 */
#endif

/* Allocates the pages of the memory before they are locked, in steps between which the user can
 * stop the run. Otherwise the call that locks them would allocate them one by one. Kernels before
 * Linux 5.14 refuse madvise, and the call that locks the pages allocates them. */
static int populate(const struct ts_hostbuf_conf *c, char *addr, size_t bytes, struct ts_err *err)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        const int rc = ts_stop_check(c->stop, err);
        if (rc < 0)
            return rc;
        n = bytes - at < STEP_BYTES ? bytes - at : STEP_BYTES;
        if (madvise(addr + at, n, MADV_POPULATE_WRITE) != 0)
            break;
    }
    return 0;
}

static int lock_piece(struct ts_hostbuf *h, void *addr, size_t bytes, struct ts_err *err)
{
    int rc = populate(&h->conf, addr, bytes, err);
    if (rc == 0)
        rc = h->conf.pin(h->conf.pin_ctx, addr, bytes, err);
    if (rc == 0)
        h->pinned[h->n_pinned++] = addr;
    return rc;
}

/* Page-locks the memory in pieces, so that the user can stop the run between them: a terabyte takes
 * half a minute. */
static int lock_all(struct ts_hostbuf *h, struct ts_err *err)
{
    const struct ts_hostbuf_conf *c = &h->conf;
    uint64_t at = 0;
    int rc = 0;
    assert((c->n_cuts == 0 ? 0 : c->cut[c->n_cuts - 1]) == c->resident_bytes);
    h->pinned = malloc((c->n_cuts + 1) * sizeof *h->pinned);
    if (h->pinned == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < c->n_cuts && rc == 0; at = c->cut[i++])
        rc = lock_piece(h, (char *)h->resident + at, c->cut[i] - at, err);
    if (rc == 0 && h->slots != NULL)
        rc = lock_piece(h, h->slots, c->n_slots * c->slot_bytes, err);
    return rc;
}

static int map(const struct ts_hostbuf_conf *c, size_t bytes, const char *name, void **ret,
               struct ts_err *err)
{
    const int rc = bytes == 0 ? 0 : ts_bigmem_new(bytes, name, ret, err);
    if (rc == 0 && bytes > 0 && c->spread)
        spread(*ret, ts_bigmem_cost(bytes));
    return rc;
}

int ts_hostbuf_new(const struct ts_hostbuf_conf *conf, struct ts_hostbuf *ret, struct ts_err *err)
{
    struct ts_hostbuf h = { .conf = *conf };
    int rc = map(conf, conf->resident_bytes,
                 conf->name != NULL ? conf->name : "shards that stay in memory", &h.resident, err);
    if (rc == 0)
        rc = map(conf, conf->n_slots * conf->slot_bytes,
                 conf->name != NULL ? conf->name : "slots for shards", &h.slots, err);
    if (rc == 0 && conf->pin != NULL)
        rc = lock_all(&h, err);
    h.conf.cut = NULL; /* clears the pointer to the caller's array */
    if (rc == 0)
        *ret = h;
    else
        ts_hostbuf_free(&h);
    return rc;
}

void ts_hostbuf_free(struct ts_hostbuf *h)
{
    while (h->n_pinned > 0)
        h->conf.unpin(h->conf.pin_ctx, h->pinned[--h->n_pinned]);
    free(h->pinned);
    ts_bigmem_free(h->resident, h->conf.resident_bytes);
    ts_bigmem_free(h->slots, h->conf.n_slots * h->conf.slot_bytes);
    memset(h, 0, sizeof *h);
}
