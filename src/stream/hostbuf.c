#include "stream/hostbuf.h"

#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bigmem.h"

#define MOST_NODES 1024u
#define PIECE_BYTES ((size_t)256 << 20)
#define WORD_BITS (8 * sizeof(unsigned long))

/* Only speed depends on it, so a refusal (as in many containers) stays unsaid. Straight to the kernel:
 * libnuma would be a dependency for two calls. */
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
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Page-locking is one call, which takes the pages one by one where they are not there yet: minutes for
 * a terabyte. So they are made before, in pieces between which the user can stop. A kernel that knows
 * no such thing leaves it to the call. */
static int populate(const struct ts_hostbuf_conf *c, char *addr, size_t bytes, struct ts_err *err)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (c->stop != NULL && *c->stop != 0)
            return ts_fail(err, TS_ESTOP, "stopped");
        if (madvise(addr + at, n, MADV_POPULATE_WRITE) != 0)
            break;
    }
    return 0;
}

static int make(const struct ts_hostbuf_conf *c, size_t bytes, const char *what, void **addr,
                int *pinned, struct ts_err *err)
{
    int rc = bytes == 0 ? 0 : ts_bigmem_new(bytes, what, addr, err);
    if (rc == 0 && bytes > 0 && c->spread)
        spread(*addr, ts_bigmem_cost(bytes));
    if (rc == 0 && bytes > 0 && c->pin != NULL) {
        rc = populate(c, *addr, bytes, err);
        if (rc == 0)
            rc = c->pin(c->pin_ctx, *addr, bytes, err);
        *pinned = rc == 0;
    }
    return rc;
}

int ts_hostbuf_new(const struct ts_hostbuf_conf *conf, struct ts_hostbuf *ret, struct ts_err *err)
{
    struct ts_hostbuf h = { .conf = *conf };
    int rc = make(conf, conf->resident_bytes, "shards that stay in memory", &h.resident,
                  &h.resident_pinned, err);
    if (rc == 0)
        rc = make(conf, conf->n_slots * conf->slot_bytes, "slots for shards", &h.slots,
                  &h.slots_pinned, err);
    if (rc == 0)
        *ret = h;
    else
        ts_hostbuf_free(&h);
    return rc;
}

void ts_hostbuf_free(struct ts_hostbuf *h)
{
    if (h->resident_pinned)
        h->conf.unpin(h->conf.pin_ctx, h->resident);
    if (h->slots_pinned)
        h->conf.unpin(h->conf.pin_ctx, h->slots);
    ts_bigmem_free(h->resident, h->conf.resident_bytes);
    ts_bigmem_free(h->slots, h->conf.n_slots * h->conf.slot_bytes);
    memset(h, 0, sizeof *h);
}
