/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kind of tensor lies at a path. */
#include "format/tensor_kind.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/dense.h"

#define HEAD_BYTES 16

struct kind {
    /* Whether it is this one: the first n bytes of a file. */
    int (*is)(const uint8_t *head, size_t n);
    int (*open)(const char *path, struct ts_tensor **ret, struct ts_err *err);
};

static int is_npy(const uint8_t *head, size_t n)
{
    return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

/* Of files; everything else is a directory of shards, or refused as one. */
static const struct kind kinds[] = {
    { is_npy, ts_dense_npy },
};

int ts_tensor_open_any(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    uint8_t head[HEAD_BYTES];
    struct stat st;
    ssize_t n = -1;
    int fd;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return ts_tensor_open(path, ret, err);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        n = pread(fd, head, sizeof head, 0);
        close(fd);
    }
    for (size_t i = 0; n >= 0 && i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is(head, (size_t)n))
            return kinds[i].open(path, ret, err);
    return ts_tensor_open(path, ret, err);
}

int ts_tensor_is_sparse(const struct ts_tensor *t, const char *what, struct ts_err *err)
{
    return t->dense == NULL
               ? 0
               : ts_fail(err, TS_EARG, "%s: %s not possible with a dense tensor", t->path, what);
}
