/* SPDX-License-Identifier: BSD-3-Clause */
/* number_pairs.c - stores pairs of numbers in a buffer for each range of first numbers. Full
 * buffers go to a file as chunks, which a list for each range finds. */
#include "source/names/number_pairs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/setting.h"
#include "base/files/sorted_runs.h"
#include "base/stop.h"
#include "base/files/tempfile.h"

#define LEAST_BUFFER UINT64_C(512)
#define READ_BYTES   (UINT64_C(64) << 10)
#define NO_CHUNK     UINT32_MAX

struct buffer {
    uint64_t n;     /* number of pairs of the range in its buffer */
    uint32_t chunk; /* number of the range's last chunk in the file */
};

struct ts_number_pairs {
    uint32_t shift;          /* a range has 2^shift numbers */
    uint64_t n_ranges, room; /* number of ranges; most pairs that a buffer, and so a chunk, holds */
    struct ts_number_pair *memory, *in;
    struct buffer *buffer;
    struct ts_sorted_runs chunks;
    uint32_t *previous; /* for each of chunks.n chunks, the chunk before it of the same range */
};

static uint64_t memory_bytes(const struct ts_number_pairs *p)
{
    return p->n_ranges * p->room * sizeof *p->memory;
}

int ts_number_pairs_new(const char *tmp, uint64_t n, uint64_t bytes,
                        const volatile sig_atomic_t *stop, struct ts_number_pairs **ret,
                        struct ts_err *err)
{
    struct ts_number_pairs *p = calloc(1, sizeof *p);
    void *memory = NULL;
    uint64_t each;
    int rc;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for numbering names");
    p->chunks = (struct ts_sorted_runs){ tmp, "numbering names", stop, .fd = -1 };
    while (n >> p->shift > 0 && (UINT64_C(16) << p->shift) <= bytes)
        p->shift++;
    p->n_ranges = (n >> p->shift) + 1;
    each = bytes / p->n_ranges;
    p->room = each / sizeof *p->memory < n ? each / sizeof *p->memory : n + 1;
    if (each < LEAST_BUFFER) {
        rc = ts_fail(err, TS_ELIMIT,
                     "there are more names than this " TS_SET_MEMORY " can number: %" PRIu64
                     "; give a larger one",
                     n);
        goto fail;
    }
    p->buffer = malloc(p->n_ranges * sizeof *p->buffer);
    p->in = malloc(READ_BYTES);
    rc = p->buffer == NULL || p->in == NULL
             ? ts_fail(err, TS_ENOMEM, "out of memory for numbering names")
             : ts_bigmem_new(memory_bytes(p), "numbering names, a part of " TS_SET_MEMORY, &memory,
                             err);
    if (rc < 0)
        goto fail;
    p->memory = memory;
    for (uint64_t i = 0; i < p->n_ranges; i++)
        p->buffer[i] = (struct buffer){ .chunk = NO_CHUNK };
    *ret = p;
    return 0;
fail:
    ts_number_pairs_free(p);
    return rc;
}

void ts_number_pairs_free(struct ts_number_pairs *p)
{
    if (p == NULL)
        return;
    ts_bigmem_free(p->memory, memory_bytes(p));
    free(p->buffer);
    free(p->in);
    ts_sorted_runs_close(&p->chunks);
    free(p);
}

uint64_t ts_number_pairs_range(const struct ts_number_pairs *p)
{
    return UINT64_C(1) << p->shift;
}

/* Writes a full buffer of pairs to the file, as a chunk of its range. */
static int spill(struct ts_number_pairs *p, uint64_t range, struct ts_err *err)
{
    struct buffer *b = &p->buffer[range];
    int rc = ts_sorted_runs_room(&p->chunks, sizeof *p->previous, err);
    if (rc == 0)
        rc = ts_sorted_runs_append(&p->chunks, p->memory + range * p->room,
                                   p->room * sizeof *p->memory, err);
    if (rc < 0)
        return rc;
    p->previous = p->chunks.list;
    p->previous[p->chunks.n] = b->chunk;
    b->chunk = p->chunks.n++;
    b->n = 0;
    return 0;
}

int ts_number_pairs_add(struct ts_number_pairs *p, struct ts_number_pair pair, struct ts_err *err)
{
    const uint64_t range = pair.number >> p->shift;
    struct buffer *b = &p->buffer[range];
    const int rc = b->n == p->room ? spill(p, range, err) : 0;
    if (rc == 0)
        p->memory[range * p->room + b->n++] = pair;
    return rc;
}

int ts_number_pairs_read(struct ts_number_pairs *p, uint64_t range, ts_number_pairs_fn *take,
                         void *arg, struct ts_err *err)
{
    const struct buffer *b = &p->buffer[range];
    const uint64_t most = READ_BYTES / sizeof *p->in;
    int rc = take(arg, p->memory + range * p->room, b->n, err);
    for (uint32_t c = b->chunk; c != NO_CHUNK && rc == 0; c = p->previous[c]) {
        rc = ts_stop_check(p->chunks.stop, err);
        for (uint64_t i = 0, n; i < p->room && rc == 0; i += n) {
            n = p->room - i < most ? p->room - i : most;
            rc = ts_tempfile_read(p->chunks.fd, p->chunks.tmp, p->in, n * sizeof *p->in,
                                  (c * p->room + i) * sizeof *p->in, err);
            if (rc == 0)
                rc = take(arg, p->in, n, err);
        }
    }
    return rc;
}
