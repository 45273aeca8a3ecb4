/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes nonzeros that wait for indices to a file, and reads them back. */
#include "source/names/waiting.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/tempfile.h"

#define COPY_BYTES (UINT64_C(256) << 10)

/* Writes the low n bytes of x, and returns the next position. Adds the bits of x above these bytes
 * to *lost, so that a caller can see that x did not fit; with n = 0 nothing is stored and nothing
 * counts as lost. */
static char *put_bytes(char *at, uint64_t x, uint32_t n, uint64_t *lost)
{
    *lost |= n > 0 && n < 8 ? x >> (8 * n) : 0;
    memcpy(at, &x, n); /* little-endian, as configure requires */
    return at + n;
}

static const char *get_bytes(const char *at, uint64_t *x, uint32_t n)
{
    *x = 0;
    memcpy(x, at, n);
    return at + n;
}

int ts_waiting_put(const struct ts_waiting *w, const struct ts_batch *b, uint64_t at,
                   struct ts_err *err)
{
    const uint64_t room = COPY_BYTES / w->record_bytes;
    uint64_t lost = 0;
    char *buf = malloc(COPY_BYTES);
    int rc = buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names") : 0;
    for (uint64_t i = 0, n; i < b->n && rc == 0; i += n) {
        char *p = buf;
        n = b->n - i < room ? b->n - i : room;
        for (uint64_t k = i; k < i + n; k++) {
            for (uint32_t m = 0; m < b->order; m++)
                p = put_bytes(p, b->index[k * b->order + m], w->width[m], &lost);
            p = put_bytes(p, b->value[k], w->entry_bytes, &lost);
        }
        if (lost != 0) {
            rc = ts_fail(err, TS_EIO,
                         "internal error: a nonzero does not fit its record of %" PRIu64
                         " bytes; please report it",
                         w->record_bytes);
            break;
        }
        rc = ts_tempfile_write(w->fd, w->tmp, buf, (size_t)(p - buf), at, err);
        at += (uint64_t)(p - buf);
    }
    free(buf);
    return rc;
}

int ts_waiting_get(const struct ts_waiting *w, uint64_t at, uint64_t n, char *buf,
                   struct ts_batch *b, uint64_t first, struct ts_err *err)
{
    const char *p = buf;
    const int rc = ts_tempfile_read(w->fd, w->tmp, buf, n * w->record_bytes, at, err);
    for (uint64_t k = first; k < first + n && rc == 0; k++) {
        for (uint32_t m = 0; m < b->order; m++)
            p = get_bytes(p, &b->index[k * b->order + m], w->width[m]);
        p = get_bytes(p, &b->value[k], w->entry_bytes);
    }
    return rc;
}
