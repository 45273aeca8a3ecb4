/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompresses gzip files: with ISA-L if configure found that library, otherwise with zlib. */
#include "config.h"

#include "source/packed/gunzip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/file_read.h"

#ifdef HAVE_ISAL
#include <isa-l.h>
#else
#include <zlib.h>
#endif

#define IN_BYTES ((size_t)128 << 10)

struct ts_gunzip {
    int fd, eof;
    const char *name;
    const volatile sig_atomic_t *stop;
    uint64_t read_bytes; /* bytes read from the file so far */
    int in_member;       /* 1: between the header and the trailer of a gzip member */
    uint64_t n_members;
#ifdef HAVE_ISAL
    struct inflate_state state;
#else
    z_stream state;
    int made;
#endif
    unsigned char in[IN_BYTES];
};

uint64_t ts_gunzip_position(const struct ts_gunzip *g)
{
    return g->read_bytes - g->state.avail_in;
}

/* ------------------------------------------------------------------ calls of ISA-L or zlib */

enum step { STEP_GO, STEP_MEMBER_END, STEP_BAD };

#ifdef HAVE_ISAL
static int engine_start(struct ts_gunzip *g)
{
    isal_inflate_init(&g->state);
    return 0;
}

static void engine_stop(struct ts_gunzip *g)
{
    (void)g;
}

static void engine_next_member(struct ts_gunzip *g)
{
    uint8_t *in = g->state.next_in;
    const uint32_t left = g->state.avail_in;
    isal_inflate_reset(&g->state);
    g->state.crc_flag = ISAL_GZIP;
    g->state.next_in = in;
    g->state.avail_in = left;
}

static enum step engine_step(struct ts_gunzip *g)
{
    if (isal_inflate(&g->state) != ISAL_DECOMP_OK)
        return STEP_BAD;
    return g->state.block_state == ISAL_BLOCK_FINISH ? STEP_MEMBER_END : STEP_GO;
}
#else
static int engine_start(struct ts_gunzip *g)
{
    g->made = inflateInit2(&g->state, 15 + 16) == Z_OK; /* 16: gzip only, not zlib */
    return g->made ? 0 : -1;
}

static void engine_stop(struct ts_gunzip *g)
{
    if (g->made)
        inflateEnd(&g->state);
}

static void engine_next_member(struct ts_gunzip *g)
{
    inflateReset(&g->state);
}

static enum step engine_step(struct ts_gunzip *g)
{
    const int rc = inflate(&g->state, Z_NO_FLUSH);
    if (rc == Z_STREAM_END)
        return STEP_MEMBER_END;
    return rc == Z_OK || rc == Z_BUF_ERROR ? STEP_GO : STEP_BAD;
}
#endif

/* ------------------------------------------------------------------ reading a gzip file */

int ts_gunzip_new(int fd, const char *name, const unsigned char *head, size_t n_head,
                  const volatile sig_atomic_t *stop, struct ts_gunzip **ret, struct ts_err *err)
{
    struct ts_gunzip *g = calloc(1, sizeof *g);
    if (g == NULL || engine_start(g) < 0) {
        free(g);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for inflating", name);
    }
    g->fd = fd;
    g->name = name;
    g->stop = stop;
    memcpy(g->in, head, n_head);
    g->state.next_in = g->in;
    g->state.avail_in = (uint32_t)n_head;
    g->read_bytes = n_head;
    *ret = g;
    return 0;
}

void ts_gunzip_free(struct ts_gunzip *g)
{
    if (g == NULL)
        return;
    engine_stop(g);
    free(g);
}

/* Reads more compressed bytes, and puts them into the buffer after the unused ones. */
static int refill(struct ts_gunzip *g, struct ts_err *err)
{
    const size_t left = g->state.avail_in;
    size_t n;
    int rc;
    memmove(g->in, g->state.next_in, left);
    rc = ts_file_read_next(g->fd, g->name, g->in + left, IN_BYTES - left, g->stop, &n, err);
    if (rc < 0)
        return rc;
    g->state.next_in = g->in;
    g->state.avail_in += (uint32_t)n;
    g->read_bytes += n;
    g->eof = n == 0;
    return 0;
}

static int truncated(struct ts_gunzip *g, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: the gzip data end early, at byte %" PRIu64, g->name,
                   g->read_bytes);
}

/* Begins the next member (one compressed stream) of the file. Sets *end to 1 at the end of the
 * file; zero bytes before it are allowed, as padding of a tape. */
static int start_member(struct ts_gunzip *g, int *end, struct ts_err *err)
{
    *end = 0;
    for (;;) {
        const unsigned char *p;
        while (g->n_members > 0 && g->state.avail_in > 0 && *g->state.next_in == 0) {
            g->state.next_in++;
            g->state.avail_in--;
        }
        if (g->state.avail_in < 2 && !g->eof) {
            const int rc = refill(g, err);
            if (rc < 0)
                return rc;
            continue;
        }
        if (g->state.avail_in == 0) {
            *end = 1;
            return 0;
        }
        p = g->state.next_in;
        if (g->state.avail_in < 2 || p[0] != 0x1f || p[1] != 0x8b)
            return ts_fail(err, TS_EFORMAT,
                           "%s: byte %" PRIu64 ": what follows the gzip data is "
                           "no gzip",
                           g->name, ts_gunzip_position(g));
        engine_next_member(g);
        g->in_member = 1;
        g->n_members++;
        return 0;
    }
}

int ts_gunzip_read(struct ts_gunzip *g, char *out, size_t room, size_t *ret, struct ts_err *err)
{
    g->state.next_out = (unsigned char *)out;
    g->state.avail_out = (uint32_t)room;
    while (g->state.avail_out > 0) {
        enum step step;
        int rc = 0, end = 0;
        if (!g->in_member) {
            unsigned char *const next = g->state.next_out;
            const uint32_t left = g->state.avail_out;
            rc = start_member(g, &end, err);
            if (rc < 0)
                return rc;
            g->state.next_out = next;
            g->state.avail_out = left;
            if (end)
                break;
        }
        if (g->state.avail_in == 0 && !g->eof) {
            rc = refill(g, err);
            if (rc < 0)
                return rc;
        }
        {
            const uint32_t in_before = g->state.avail_in, out_before = g->state.avail_out;
            step = engine_step(g);
            if (step == STEP_BAD)
                return ts_fail(err, TS_EFORMAT, "%s: byte %" PRIu64 ": damaged gzip data", g->name,
                               ts_gunzip_position(g));
            if (step == STEP_MEMBER_END)
                g->in_member = 0;
            else if (g->eof && g->state.avail_in == in_before && g->state.avail_out == out_before)
                return truncated(g, err);
            else if (g->eof && g->state.avail_in == 0 && g->state.avail_out > 0)
                return truncated(g, err);
        }
    }
    *ret = room - g->state.avail_out;
    return 0;
}
