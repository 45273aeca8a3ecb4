/* SPDX-License-Identifier: BSD-3-Clause */
/* fliplib.c - a library for LD_PRELOAD that flips a bit of what a temporary file gives back.
 *
 *     TS_FLIP=7 TS_FLIP_MARK=mark LD_PRELOAD=tests/fliplib.so tools/tshard build ...
 *
 * The seventh read (pread) of 4 KiB or more of a file without a name gets another bit in the
 * middle; the file `mark` is made then. So who sees no mark has asked for a read beyond the last.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST 4096 /* less is looked at, not taken: what sorted runs are searched by */

typedef ssize_t pread_fn(int fd, void *buf, size_t n, off_t at);

static atomic_long reads;

static ssize_t flip(pread_fn *real, int fd, void *buf, size_t n, off_t at)
{
    const ssize_t got = real(fd, buf, n, at);
    const char *which = getenv("TS_FLIP"), *mark = getenv("TS_FLIP_MARK");
    struct stat st;
    if (got < LEAST || which == NULL || mark == NULL || fstat(fd, &st) != 0 || st.st_nlink > 0 ||
        !S_ISREG(st.st_mode))
        return got;
    if (atomic_fetch_add(&reads, 1) + 1 == atol(which)) {
        const int made = open(mark, O_CREAT | O_WRONLY, 0666);
        ((unsigned char *)buf)[got / 2] ^= 16;
        if (made >= 0)
            close(made);
    }
    return got;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    return flip((pread_fn *)dlsym(RTLD_NEXT, "pread"), fd, buf, n, at);
}

ssize_t pread64(int fd, void *buf, size_t n, off_t at)
{
    return flip((pread_fn *)dlsym(RTLD_NEXT, "pread64"), fd, buf, n, at);
}
