/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads, writes and checks the text that lists which shards of a tensor are on this machine. */
#include "format/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "format/file_read.h"

size_t ts_part_text(const struct ts_tensor *t, const struct ts_part *part, char ret[TS_PART_BYTES])
{
    size_t n =
        (size_t)snprintf(ret, TS_PART_BYTES,
                         TS_PART_MAGIC "\nindex %016" PRIx64 "\npart %" PRIu32 " of %" PRIu32 "\n",
                         t->hash, part->part, part->n);
    for (uint32_t m = 0; m < t->order; m++)
        n += (size_t)snprintf(ret + n, TS_PART_BYTES - n,
                              "mode %" PRIu32 " shards %" PRIu64 " to %" PRIu64 "\n", m + 1,
                              part->first[m], part->end[m]);
    return n;
}

/* Parses the text of the file `part`. Returns whether its numbers are possible, and whether
 * ts_part_text makes the same text of them. */
static int parse(const struct ts_tensor *t, const char *text, size_t bytes, struct ts_part *ret)
{
    char again[TS_PART_BYTES];
    const char *line = strstr(text, "\npart ");
    if (line == NULL || sscanf(line, "\npart %" SCNu32 " of %" SCNu32, &ret->part, &ret->n) != 2 ||
        ret->part == 0 || ret->part > ret->n)
        return 0;
    for (uint32_t m = 0; m < t->order; m++) {
        uint32_t mode;
        line = strchr(line + 1, '\n');
        if (line == NULL ||
            sscanf(line, "\nmode %" SCNu32 " shards %" SCNu64 " to %" SCNu64, &mode, &ret->first[m],
                   &ret->end[m]) != 3 ||
            ret->first[m] > ret->end[m] || ret->end[m] > t->mode[m].disk.n_shards)
            return 0;
    }
    return ts_part_text(t, ret, again) == bytes && memcmp(again, text, bytes) == 0;
}

int ts_part_read(struct ts_tensor *t, struct ts_err *err)
{
    char *path = NULL, text[TS_PART_BYTES + 1];
    struct ts_part part = { 0 };
    uint64_t n = 0;
    int rc;
    if (asprintf(&path, "%s/" TS_PART_NAME, t->path) < 0)
        return ts_no_memory(err, t->path);
    rc = ts_file_read_small_in(t->dir, TS_PART_NAME, TS_PART_BYTES, text, &n, err);
    if (rc <= 0) {
        free(path);
        return rc;
    }
    text[n <= TS_PART_BYTES ? n : 0] = '\0';
    if (!parse(t, text, n, &part)) {
        rc =
            ts_fail(err, TS_EFORMAT, "%s: does not say which shards of this tensor are here", path);
    } else {
        t->part = part;
        rc = 0;
    }
    free(path);
    return rc;
}

int ts_part_check(const struct ts_tensor *t, uint32_t mode, uint64_t shard, struct ts_err *err)
{
    if (ts_part_has(t, mode, shard))
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "%s: is part %" PRIu32 " of %" PRIu32 " of a tensor, and shard %" PRIu64
                   " of " TS_NTH_MODE " is not in it; %" PRIu32
                   " processes read it, each on the host of its part, or one the whole tensor",
                   t->path, t->part.part, t->part.n, shard, mode + 1, t->part.n);
}
