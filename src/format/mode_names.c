/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads NAME.tsh/modes: the names of the modes and the first index of the input. */
#include "format/mode_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "format/file_read.h"

#define MAX_BYTES (sizeof(struct ts_disk_modes) + (TS_MAX_ORDER + 1) * (TS_MODE_NAME_MAX + 1) + 8)

/* Copies the lines of the text, the names of the modes and of the values, into the tensor. */
static int take_names(struct ts_tensor *t, const char *text, uint64_t bytes, const char *path,
                      struct ts_err *err)
{
    const char *end = text + bytes;
    for (uint32_t i = 0; i <= t->order; i++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const size_t n = stop == NULL ? 0 : (size_t)(stop - text);
        if (stop == NULL || memchr(text, '\0', n) != NULL || n > TS_MODE_NAME_MAX)
            return ts_fail(err, TS_EFORMAT, "%s: not the names of %" PRIu32 " modes", path,
                           t->order);
        t->name[i] = n == 0 ? NULL : strndup(text, n);
        if (n > 0 && t->name[i] == NULL)
            return ts_no_memory(err, path);
        text = stop + 1;
    }
    return text == end
               ? 0
               : ts_fail(err, TS_EFORMAT, "%s: not the names of %" PRIu32 " modes", path, t->order);
}

static int check_text(const struct ts_tensor *t, const char *bytes, uint64_t n_bytes,
                      const char *path, struct ts_err *err)
{
    struct ts_disk_modes h;
    uint64_t stored, found;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, TS_MODES_MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a file of mode names", path);
    if (h.version != TS_FORMAT_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       path, h.version, TS_FORMAT_VERSION);
    memcpy(&stored, bytes + n_bytes - sizeof stored, sizeof stored);
    found = XXH3_64bits(bytes, n_bytes - sizeof stored);
    if (found != stored)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the checksum is %016" PRIx64 ", expected %016" PRIx64
                       " (the file is damaged)",
                       path, found, stored);
    if (h.order != t->order || h.index_hash != t->hash || h.base > 1 || h.reserved32 != 0 ||
        h.text_bytes != n_bytes - sizeof h - sizeof stored)
        return ts_fail(err, TS_EFORMAT, "%s: it does not match the index", path);
    return 0;
}

int ts_mode_names_read(struct ts_tensor *t, struct ts_err *err)
{
    char *path = NULL, bytes[MAX_BYTES];
    struct ts_disk_modes h;
    uint64_t n = 0;
    int rc;
    t->base = 1;
    if (asprintf(&path, "%s/" TS_MODES_NAME, t->path) < 0)
        return ts_no_memory(err, t->path);
    rc = ts_file_read_small_in(t->dir, TS_MODES_NAME, sizeof bytes, bytes, &n, err);
    if (rc <= 0) {
        free(path);
        return rc;
    }
    rc = n < sizeof h + sizeof(uint64_t) || n > sizeof bytes
             ? ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes cannot be the names of modes", path,
                       n)
             : 0;
    if (rc == 0)
        rc = check_text(t, bytes, n, path, err);
    if (rc == 0) {
        memcpy(&h, bytes, sizeof h);
        t->base = h.base;
        rc = take_names(t, bytes + sizeof h, h.text_bytes, path, err);
    }
    free(path);
    return rc;
}

void ts_mode_names_free(struct ts_tensor *t)
{
    for (uint32_t i = 0; i <= TS_MAX_ORDER; i++)
        free(t->name[i]);
}

const char *ts_tensor_mode_name(const struct ts_tensor *t, uint32_t mode)
{
    return t->name[mode];
}

const char *ts_tensor_value_name(const struct ts_tensor *t)
{
    return t->name[t->order];
}

uint32_t ts_tensor_base(const struct ts_tensor *t)
{
    return t->base;
}
