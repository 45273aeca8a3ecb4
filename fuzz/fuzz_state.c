/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: the state of a run, as tstream cp --resume reads it. An odd first byte has the checksums of
 * the rest put right, head and sections, so that what lies behind them is reached.
 *
 * Whatever the bytes, what is taken is a state of sane sizes whose rows can be read, and a refusal has its
 * sentence.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "cpd/init.h"
#include "cpd/state.h"

#define MUST(holds)           \
    do {                      \
        if (!(holds))         \
            __builtin_trap(); \
    } while (0)

/* The checksum behind `n` bytes at `at`, where both are inside; the end of it. */
static uint64_t put_right(uint8_t *data, uint64_t size, uint64_t at, uint64_t n)
{
    uint64_t hash;
    if (at > size || n > size - at || size - at - n < sizeof hash)
        return size;
    hash = XXH3_64bits(data + at, n);
    memcpy(data + at + n, &hash, sizeof hash);
    return at + n + sizeof hash;
}

static void put_all_right(uint8_t *data, uint64_t size)
{
    struct ts_disk_state head;
    uint64_t at;
    if (size < sizeof head)
        return;
    memcpy(&head, data, sizeof head);
    head.file_bytes = size;
    memcpy(data, &head, sizeof head);
    at = put_right(data, size, 0, sizeof head + head.n_sections * UINT64_C(32));
    for (uint32_t i = 0; i < head.n_sections && at < size; i++) {
        struct ts_disk_section s;
        memcpy(&s, data + sizeof head + i * sizeof s, sizeof s);
        at = put_right(data, size, at, s.bytes > size ? s.bytes : (s.bytes + 7) / 8 * 8);
    }
}

static void read_all(const char *path)
{
    struct ts_state_file *f = NULL;
    const struct ts_state *s;
    struct ts_err err = { 0 };
    const int rc = ts_state_open(path, &f, &err);
    if (rc < 0) {
        MUST(err.code == rc && err.text[0] != '\0');
        return;
    }
    s = ts_state_get(f);
    MUST(s->order >= 1 && s->order <= TS_MAX_ORDER && s->rank >= 1 && s->rank <= TS_MAX_RANK);
    MUST(s->sweep >= 1 && s->mode < s->order);
    (void)ts_state_option(s, "rank");
    for (uint32_t m = 0; m < s->order; m++) {
        double *row;
        if ((s->factors >> m & 1) == 0 || s->n_rows[m] == 0)
            continue;
        row = malloc(s->rank * sizeof *row); /* of the very size: writing on is found out */
        MUST(row != NULL);
        MUST(ts_state_rows(f, m, s->n_rows[m] - 1, 1, row, &err) == 0);
        free(row);
    }
    ts_state_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    uint8_t *own;
    FILE *f;
    if (size < 1 || size > 1 << 16)
        return 0;
    if (path[0] == '\0')
        snprintf(path, sizeof path, "%s/fuzz-state-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    own = malloc(size);
    MUST(own != NULL);
    memcpy(own, data + 1, size - 1);
    if (data[0] & 1)
        put_all_right(own, size - 1);
    f = fopen(path, "wb");
    MUST(f != NULL && fwrite(own, 1, size - 1, f) == size - 1 && fclose(f) == 0);
    free(own);
    read_all(path);
    MUST(unlink(path) == 0);
    return 0;
}
