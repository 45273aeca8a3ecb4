/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompresses zstd, xz and bzip2: a loop for all three, and a struct engine that calls the library
 * of each. */
#include "config.h"

#include "source/packed/unpack_stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/file_read.h"

#if defined(HAVE_ZSTD) || defined(HAVE_LZMA) || defined(HAVE_BZ2)

#ifdef HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef HAVE_LZMA
#include <lzma.h>
#endif
#ifdef HAVE_BZ2
#include <bzlib.h>
#endif

#define IN_BYTES ((size_t)128 << 10)

enum step {
    STEP_GO,
    STEP_END, /* one stream of the file has ended; another may follow */
    STEP_BAD,
    STEP_MEMORY, /* decompression needs more memory than allowed */
    STEP_NONE,   /* the machine has no memory left */
};

struct stream {
    struct ts_packed_file file;
    const struct engine *engine;
    uint64_t read_bytes; /* bytes read from the file so far */
    int eof, in_stream;  /* in_stream: 1 between the start and the end of a stream */
    uint64_t n_streams;
    const unsigned char *next_in;
    size_t avail_in;
    char *next_out;
    size_t avail_out;
    union {
#ifdef HAVE_ZSTD
        ZSTD_DStream *zstd;
#endif
#ifdef HAVE_LZMA
        lzma_stream lzma;
#endif
#ifdef HAVE_BZ2
        bz_stream bz2;
#endif
        int none;
    } state;
    int made;
    unsigned char in[IN_BYTES];
};

struct engine {
    const char *name, *remedy;
    /* called at the start of each stream in the file; -1: out of memory */
    int (*start)(struct stream *s);
    enum step (*step)(struct stream *s);
    void (*stop)(struct stream *s);
};

/* ------------------------------------------------------------------ zstd, xz and bzip2 */

#ifdef HAVE_ZSTD
static int zstd_start(struct stream *s)
{
    /* log2 of the largest window that the allowed memory has space for; decompression needs little
     * more memory than the window */
    int log = 20;
    if (!s->made)
        s->state.zstd = ZSTD_createDStream();
    s->made = s->state.zstd != NULL;
    while (log < 31 && UINT64_C(2) << log <= s->file.memory)
        log++;
    return !s->made || ZSTD_isError(ZSTD_initDStream(s->state.zstd)) ||
                   ZSTD_isError(ZSTD_DCtx_setParameter(s->state.zstd, ZSTD_d_windowLogMax, log))
               ? -1
               : 0;
}

static enum step zstd_step(struct stream *s)
{
    ZSTD_inBuffer in = { s->next_in, s->avail_in, 0 };
    ZSTD_outBuffer out = { s->next_out, s->avail_out, 0 };
    const size_t rc = ZSTD_decompressStream(s->state.zstd, &out, &in);
    s->next_in += in.pos;
    s->avail_in -= in.pos;
    s->next_out += out.pos;
    s->avail_out -= out.pos;
    switch ((int)ZSTD_getErrorCode(rc)) {
    case ZSTD_error_no_error:
        return rc == 0 ? STEP_END : STEP_GO;
    case ZSTD_error_frameParameter_windowTooLarge:
        return STEP_MEMORY;
    case ZSTD_error_memory_allocation:
        return STEP_NONE;
    default:
        return STEP_BAD;
    }
}

static void zstd_stop(struct stream *s)
{
    if (s->made)
        ZSTD_freeDStream(s->state.zstd);
}

static const struct engine zstd_engine = { "zstd", "zstdcat --memory=2GB", zstd_start, zstd_step,
                                           zstd_stop };
#endif

#ifdef HAVE_LZMA
static int xz_start(struct stream *s)
{
    if (!s->made)
        s->state.lzma = (lzma_stream)LZMA_STREAM_INIT;
    s->made =
        lzma_stream_decoder(&s->state.lzma, s->file.memory, LZMA_TELL_UNSUPPORTED_CHECK) == LZMA_OK;
    return s->made ? 0 : -1;
}

static enum step xz_step(struct stream *s)
{
    lzma_stream *z = &s->state.lzma;
    lzma_ret rc;
    z->next_in = s->next_in;
    z->avail_in = s->avail_in;
    z->next_out = (uint8_t *)s->next_out;
    z->avail_out = s->avail_out;
    rc = lzma_code(z, LZMA_RUN);
    s->next_in = z->next_in;
    s->avail_in = z->avail_in;
    s->next_out = (char *)z->next_out;
    s->avail_out = z->avail_out;
    switch ((int)rc) {
    case LZMA_OK:
    case LZMA_BUF_ERROR:
        return STEP_GO;
    case LZMA_STREAM_END:
        return STEP_END;
    case LZMA_MEMLIMIT_ERROR:
        return STEP_MEMORY;
    case LZMA_MEM_ERROR:
        return STEP_NONE;
    default:
        return STEP_BAD;
    }
}

static void xz_stop(struct stream *s)
{
    lzma_end(&s->state.lzma);
}

static const struct engine xz_engine = { "xz", "xzcat", xz_start, xz_step, xz_stop };
#endif

#ifdef HAVE_BZ2
static int bzip2_start(struct stream *s)
{
    if (s->made)
        BZ2_bzDecompressEnd(&s->state.bz2);
    memset(&s->state.bz2, 0, sizeof s->state.bz2);
    s->made = BZ2_bzDecompressInit(&s->state.bz2, 0, 0) == BZ_OK;
    return s->made ? 0 : -1;
}

static enum step bzip2_step(struct stream *s)
{
    bz_stream *z = &s->state.bz2;
    int rc;
    z->next_in = (char *)(uintptr_t)s->next_in;
    z->avail_in = (unsigned)s->avail_in;
    z->next_out = s->next_out;
    z->avail_out = (unsigned)s->avail_out;
    rc = BZ2_bzDecompress(z);
    s->next_in = (const unsigned char *)z->next_in;
    s->avail_in = z->avail_in;
    s->next_out = z->next_out;
    s->avail_out = z->avail_out;
    return rc == BZ_OK           ? STEP_GO
           : rc == BZ_STREAM_END ? STEP_END
           : rc == BZ_MEM_ERROR  ? STEP_NONE
                                 : STEP_BAD;
}

static void bzip2_stop(struct stream *s)
{
    if (s->made)
        BZ2_bzDecompressEnd(&s->state.bz2);
}

static const struct engine bzip2_engine = { "bzip2", "bzcat", bzip2_start, bzip2_step, bzip2_stop };
#endif

/* ------------------------------------------------------------------ reading a compressed file */

static int open_stream(const struct ts_packed_file *file, const struct engine *engine, void **ret,
                       struct ts_err *err)
{
    struct stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for unpacking", file->name);
    s->file = *file;
    s->engine = engine;
    memcpy(s->in, file->head, file->n_head);
    s->next_in = s->in;
    s->avail_in = file->n_head;
    s->read_bytes = file->n_head;
    s->file.head = NULL; /* the memory of head belongs to the caller */
    *ret = s;
    return 0;
}

uint64_t ts_unpack_stream_position(const void *d)
{
    const struct stream *s = d;
    return s->read_bytes - s->avail_in;
}

void ts_unpack_stream_close(void *d)
{
    struct stream *s = d;
    if (s == NULL)
        return;
    s->engine->stop(s);
    free(s);
}

static int refill(struct stream *s, struct ts_err *err)
{
    size_t n;
    int rc;
    memmove(s->in, s->next_in, s->avail_in);
    s->next_in = s->in;
    rc = ts_file_read_next(s->file.fd, s->file.name, s->in + s->avail_in, IN_BYTES - s->avail_in,
                           s->file.stop, &n, err);
    if (rc < 0)
        return rc;
    s->avail_in += n;
    s->read_bytes += n;
    s->eof = n == 0;
    return 0;
}

static int explain(const struct stream *s, enum step step, struct ts_err *err)
{
    const struct engine *e = s->engine;
    if (step == STEP_MEMORY)
        return ts_fail(err, TS_ELIMIT,
                       "%s: unpacking these %s data takes more than the %" PRIu64
                       " MiB that there is room for; unpack them: %s FILE > NEW-FILE",
                       s->file.name, e->name, s->file.memory >> 20, e->remedy);
    if (step == STEP_NONE)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for unpacking", s->file.name);
    return ts_fail(err, TS_EFORMAT, "%s: byte %" PRIu64 ": damaged %s data", s->file.name,
                   ts_unpack_stream_position(s), e->name);
}

int ts_unpack_stream_read(void *d, char *out, size_t room, size_t *ret, struct ts_err *err)
{
    struct stream *s = d;
    s->next_out = out;
    s->avail_out = room;
    while (s->avail_out > 0) {
        const size_t in_before = s->avail_in, out_before = s->avail_out;
        enum step step;
        if (s->avail_in == 0 && !s->eof) {
            const int rc = refill(s, err);
            if (rc < 0)
                return rc;
            continue;
        }
        if (!s->in_stream) {
            /* zero bytes between streams are padding */
            while (s->n_streams > 0 && s->avail_in > 0 && *s->next_in == 0) {
                s->next_in++;
                s->avail_in--;
            }
            if (s->avail_in == 0 && !s->eof)
                continue;
            if (s->avail_in == 0)
                break; /* the file ends here, after a complete stream */
            if (s->engine->start(s) < 0)
                return explain(s, STEP_NONE, err);
            s->in_stream = 1;
            s->n_streams++;
        }
        step = s->engine->step(s);
        if (step == STEP_END)
            s->in_stream = 0;
        else if (step != STEP_GO)
            return explain(s, step, err);
        else if (s->eof && s->avail_in == in_before && s->avail_out == out_before)
            return ts_fail(err, TS_EFORMAT, "%s: the %s data end early, at byte %" PRIu64,
                           s->file.name, s->engine->name, s->read_bytes);
    }
    *ret = room - s->avail_out;
    return 0;
}

#endif

#ifdef HAVE_ZSTD
int ts_unpack_stream_zstd(const struct ts_packed_file *file, void **ret, struct ts_err *err)
{
    return open_stream(file, &zstd_engine, ret, err);
}
#endif

#ifdef HAVE_LZMA
int ts_unpack_stream_xz(const struct ts_packed_file *file, void **ret, struct ts_err *err)
{
    return open_stream(file, &xz_engine, ret, err);
}
#endif

#ifdef HAVE_BZ2
int ts_unpack_stream_bzip2(const struct ts_packed_file *file, void **ret, struct ts_err *err)
{
    return open_stream(file, &bzip2_engine, ret, err);
}
#endif
