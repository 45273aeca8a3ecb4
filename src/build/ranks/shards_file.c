/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the file of shards that several processes write, and copies shards into it. */
#include "build/ranks/shards_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/files/tempfile.h"
#include "base/files/fd.h"

#define COPY_BYTES (UINT64_C(1) << 20)

/* Opens the file with O_DIRECT, which bypasses the page cache, if the file system supports it.
 * Compressed shards are copied through the cache, so their file is opened without it. */
static int open_direct(const struct ts_partition_deal_plan *plan, int flags)
{
    const int all = flags | O_WRONLY | O_CLOEXEC, direct = plan->writer.compress ? 0 : O_DIRECT;
    int fd = open(plan->writer.path, all | direct, 0666);
    if (fd < 0 && errno == EINVAL) /* an open that fails may have created the file */
        fd = open(plan->writer.path, all & ~O_EXCL, 0666);
    return fd;
}

int ts_shards_file_open(const struct ts_partition_deal_plan *plan, uint64_t bytes, int *fd,
                        struct ts_err *err)
{
    const char *path = plan->writer.path;
    struct rlimit limit;
    int rc = 0;
    if (plan->ranks->comm->rank == 0) {
        *fd = open_direct(plan, O_CREAT | O_EXCL);
        rc = *fd < 0 ? ts_fail_errno(err, TS_EIO, "%s: cannot create", path) : 0;
        /* extends the file only without a limit on file sizes, because a process that exceeds it is
         * killed */
        if (rc == 0 && bytes > 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
            limit.rlim_cur == RLIM_INFINITY)
            (void)!fallocate(*fd, 0, 0, (off_t)bytes);
    }
    rc = ts_build_comm_agree(plan->ranks, rc, err);
    if (rc == 0 && *fd < 0) {
        *fd = open_direct(plan, 0);
        rc = *fd < 0 ? ts_fail_errno(err, TS_EIO,
                                     "%s: cannot be opened, and rank 0 has made it: all processes "
                                     "must see the directory of the result",
                                     path)
                     : 0;
    }
    return rc;
}

int ts_shards_file_copy(const struct ts_partition_deal_plan *plan, int from, int to, uint64_t at,
                        uint64_t bytes, struct ts_err *err)
{
    char *buffer = malloc(COPY_BYTES);
    int rc = buffer == NULL ? ts_build_comm_no_memory(err) : 0;
    for (uint64_t done = 0, n; done < bytes && rc == 0; done += n) {
        n = bytes - done < COPY_BYTES ? bytes - done : COPY_BYTES;
        rc = ts_tempfile_read(from, plan->tmp, buffer, n, done, err);
        if (rc == 0 && ts_fd_write(to, buffer, n, at + done) < 0)
            rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", plan->writer.path);
    }
    free(buffer);
    return rc;
}
