/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes the input files of a build by name, size and samples of their bytes, so that ranks
 * (processes) can compare them. */
#include "tools/build/build_input.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools.h"

static uint64_t mix_place(int fd, uint64_t at, uint64_t hash)
{
    uint64_t word[BUILD_INPUT_BYTES / 8] = { 0 };
    const ssize_t n = pread(fd, word, sizeof word, (off_t)at);
    hash = ts_mix(hash ^ (uint64_t)(n + 1));
    for (size_t i = 0; n > 0 && i < sizeof word / sizeof *word; i++)
        hash = ts_mix(hash ^ word[i]);
    return hash;
}

static uint64_t mix_file(const char *path, uint64_t bytes)
{
    const uint64_t last = bytes > BUILD_INPUT_BYTES ? bytes - BUILD_INPUT_BYTES : 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t hash = fd < 0;
    for (uint64_t k = 0; fd >= 0 && k < BUILD_INPUT_PLACES; k++)
        hash = mix_place(fd, (uint64_t)((double)last * (double)k / (BUILD_INPUT_PLACES - 1)), hash);
    if (fd >= 0)
        close(fd);
    return hash;
}

void build_input_put(FILE *to, const char *path)
{
    struct stat st;
    const char *kind = "none";
    uint64_t bytes = 0, hash = 0;
    if (stat(path, &st) == 0) {
        kind = S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "directory" : "other";
        bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        hash = S_ISREG(st.st_mode) ? mix_file(path, bytes) : 0;
    }
    fprintf(to, "%s: %s %" PRIu64 " %016" PRIx64 "\n", path, kind, bytes, hash);
}
