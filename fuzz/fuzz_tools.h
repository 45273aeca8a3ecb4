/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_tools.h - for fuzzers of whole commands: they run in this process, on a small tensor and results of it in a folder of memory.
 *
 * What commands print is dropped. A command must end with 0 or 1, with a sentence where it is 1.
 *
 *   threads  one
 *   errors   traps
 */
#ifndef TS_FUZZ_TOOLS_H
#define TS_FUZZ_TOOLS_H

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "tools/tool.h"
#include "tools/tstream.h"
#include "tools/tstream_cp.h"

#define MUST(holds)           \
    do {                      \
        if (!(holds))         \
            __builtin_trap(); \
    } while (0)

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

/* Runs a command with words that NULL ends. */
static inline int fuzz_run(const struct ts_cmd *cmd, const char *const *words)
{
    char *argv[24];
    int argc = 0, status;
    for (; words[argc] != NULL && argc < 23; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    argv[argc] = NULL;
    status = cmd->run(cmd, argc, argv);
    MUST(status == 0 || status == 1);
    MUST(status == 0 || tool_failure()->text[0] != '\0');
    return status;
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

/* The folder, which goes at the end of the process. */
static inline void fuzz_begin(void)
{
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/fuzz-tools-%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    MUST(mkdir(fuzz_dir, 0700) == 0);
    atexit(fuzz_end);
    stdout = stderr = fopen("/dev/null", "w"); /* libFuzzer has its own copy */
    MUST(stdout != NULL);
}

/* X.cp of the tensor, by three sweeps. */
static inline void fuzz_compute(const char *out, const char *rank)
{
    const char *const words[] = { "cp", FUZZ_TENSOR, "--cpu", "-t", "1",  "-r", rank, "-i",
                                  "3",  "--tol",     "0",     "-o", out, NULL };
    MUST(fuzz_run(&tstream_cp, words) == 0);
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

/* 16 digits of the checksum of the bytes. */
static inline void fuzz_sum(const void *bytes, size_t n, char ret[17])
{
    snprintf(ret, 17, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
}

#endif
