/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.h - what fuzzers share: a claim that must hold, bytes of an input, files in a folder of
 * memory, and checksums that are put right.
 *
 *   threads  one
 *   errors   traps
 */
#ifndef TS_FUZZ_H
#define TS_FUZZ_H

#include <ftw.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MUST(holds)           \
    do {                      \
        if (!(holds))         \
            __builtin_trap(); \
    } while (0)

/* ---- bytes ---- */

/* Takes n bytes from the front of the input; zeros when it is over. */
static inline uint64_t fuzz_take(const uint8_t **data, size_t *size, size_t n)
{
    uint64_t x = 0;
    const size_t have = n < *size ? n : *size;
    memcpy(&x, *data, have);
    *data += have;
    *size -= have;
    return x;
}

/* A copy with nothing behind it, so that a step beyond the end is seen. */
static inline void *fuzz_exact(const uint8_t *data, size_t size)
{
    void *copy = malloc(size == 0 ? 1 : size);
    MUST(copy != NULL);
    memcpy(copy, data, size);
    return copy;
}

/* The checksum of `n` bytes at `at` comes behind them, where both are inside. Returns its end. */
static inline uint64_t fuzz_seal(uint8_t *data, uint64_t size, uint64_t at, uint64_t n)
{
    uint64_t hash;
    if (at > size || n > size - at || size - at - n < sizeof hash)
        return size;
    hash = XXH3_64bits(data + at, n);
    memcpy(data + at + n, &hash, sizeof hash);
    return at + n + sizeof hash;
}

/* The state of a run (cpd/state/state.h): its size and the checksums of head and sections. */
static inline void fuzz_seal_state(uint8_t *data, uint64_t size)
{
    uint32_t n;
    uint64_t at;
    if (size < 256)
        return;
    memcpy(data + 16, &size, sizeof size);
    memcpy(&n, data + 12, sizeof n);
    at = fuzz_seal(data, size, 0, 256 + n * UINT64_C(32));
    for (uint32_t i = 0; i < n && at < size; i++) {
        uint64_t bytes;
        memcpy(&bytes, data + 256 + i * UINT64_C(32) + 16, sizeof bytes);
        at = fuzz_seal(data, size, at, bytes > size ? bytes : (bytes + 7) / 8 * 8);
    }
}

/* 16 digits of the checksum of the bytes. */
static inline void fuzz_sum(const void *bytes, size_t n, char ret[17])
{
    snprintf(ret, 17, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
}

/* ---- files ---- */

static char fuzz_dir[64];
static char fuzz_name[8][192]; /* of fuzz_at */

/* The path of a file in the folder; good for the next seven calls. */
static inline const char *fuzz_at(const char *name)
{
    static uint32_t turn;
    char *ret = fuzz_name[turn++ % 8];
    snprintf(ret, sizeof fuzz_name[0], "%s/%s", fuzz_dir, name);
    return ret;
}

static inline int fuzz_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void fuzz_remove(const char *path)
{
    nftw(path, fuzz_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void fuzz_end(void)
{
    fuzz_remove(fuzz_dir);
}

/* The folder, which goes at the end of the process. Later calls do nothing. */
static inline void fuzz_folder(void)
{
    if (fuzz_dir[0] != '\0')
        return;
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/fuzz-%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    MUST(mkdir(fuzz_dir, 0700) == 0);
    atexit(fuzz_end);
}

static inline uint8_t *fuzz_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    uint8_t *ret = malloc(1 << 17);
    MUST(f != NULL && ret != NULL);
    *n = fread(ret, 1, 1 << 17, f);
    MUST(*n < 1 << 17 && fclose(f) == 0);
    return ret;
}

static inline void fuzz_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    MUST(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

#endif
