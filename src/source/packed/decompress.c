/* SPDX-License-Identifier: BSD-3-Clause */
/* decompress.c - lists the compressed formats that can be read. */
#include "config.h"

#include "source/packed/decompress.h"

#include <string.h>

#include "source/packed/gunzip.h"
#include "source/packed/unpack_stream.h"

static int gzip_open(const struct ts_packed_file *f, void **ret, struct ts_err *err)
{
    struct ts_gunzip *g = NULL;
    const int rc = ts_gunzip_new(f->fd, f->name, f->head, f->n_head, f->stop, &g, err);
    *ret = g;
    return rc;
}

static int gzip_read(void *d, char *out, size_t room, size_t *ret, struct ts_err *err)
{
    return ts_gunzip_read(d, out, room, ret, err);
}

static uint64_t gzip_position(const void *d)
{
    return ts_gunzip_position(d);
}

static void gzip_close(void *d)
{
    ts_gunzip_free(d);
}

#define STREAM(open) open, ts_unpack_stream_read, ts_unpack_stream_position, ts_unpack_stream_close
#define NONE         NULL, NULL, NULL, NULL

#ifdef HAVE_ZSTD
#define ZSTD_ROW  STREAM(ts_unpack_stream_zstd)
#define ZSTD_NAME ", zstd"
#else
#define ZSTD_ROW  NONE
#define ZSTD_NAME ""
#endif
#ifdef HAVE_LZMA
#define XZ_ROW  STREAM(ts_unpack_stream_xz)
#define XZ_NAME ", xz"
#else
#define XZ_ROW  NONE
#define XZ_NAME ""
#endif
#ifdef HAVE_BZ2
#define BZIP2_ROW  STREAM(ts_unpack_stream_bzip2)
#define BZIP2_NAME ", bzip2"
#else
#define BZIP2_ROW  NONE
#define BZIP2_NAME ""
#endif

static const struct ts_decompressor table[] = {
    { "gzip", "\x1f\x8b", 2, "zcat", gzip_open, gzip_read, gzip_position, gzip_close },
    { "zstd", "\x28\xb5\x2f\xfd", 4, "zstdcat", ZSTD_ROW },
    { "xz",
      "\xfd"
      "7zXZ",
      5, "xzcat", XZ_ROW },
    { "bzip2", "BZh", 3, "bzcat", BZIP2_ROW },
    { "zip", "PK\x03\x04", 4, "unzip -p", NONE },
    { "lz4", "\x04\x22\x4d\x18", 4, "lz4cat", NONE },
    { "7z", "7z\xbc\xaf", 4, "7z x -so", NONE },
};

const struct ts_decompressor *ts_decompress_find(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (n >= table[i].n_magic && memcmp(head, table[i].magic, table[i].n_magic) == 0)
            return &table[i];
    return NULL;
}

uint64_t ts_decompress_memory(const unsigned char *head, size_t n)
{
    const struct ts_decompressor *d = ts_decompress_find(head, n);
    if (d == NULL || d->open == NULL || d->open == gzip_open)
        return 0;
    return strcmp(d->name, "bzip2") == 0 ? UINT64_C(4) << 20 : UINT64_C(136) << 20;
}

const char *ts_decompress_names(void)
{
    return "gzip" ZSTD_NAME XZ_NAME BZIP2_NAME;
}
