#include "stream/hostbuf.h"

#include <string.h>

#include "base/bigmem.h"

static int make(const struct ts_hostbuf_conf *c, size_t bytes, const char *what, void **addr,
                int *pinned, struct ts_err *err)
{
    int rc = bytes == 0 ? 0 : ts_bigmem_new(bytes, what, addr, err);
    if (rc == 0 && bytes > 0 && c->pin != NULL) {
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
