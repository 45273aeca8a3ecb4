/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the file system, quotas and limits how many bytes may still be written. */
#include "base/files/disk_free.h"

#include <fcntl.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/machine/machine.h"

#define TMPFS 0x01021994

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the bytes that a quota of this kind leaves, or UINT64_MAX without a quota. */
static uint64_t quota_left(int fd, int kind, unsigned id)
{
#ifdef SYS_quotactl_fd
    struct dqblk q;
    uint64_t limit;
    /* computed without the macro QCMD, which shifts a signed number beyond its range */
    const unsigned command = (unsigned)Q_GETQUOTA << SUBCMDSHIFT | ((unsigned)kind & SUBCMDMASK);
    if (syscall(SYS_quotactl_fd, fd, command, id, &q) != 0)
        return UINT64_MAX;
    limit = q.dqb_bhardlimit * UINT64_C(1024);
    if (limit == 0)
        return UINT64_MAX;
    return limit > q.dqb_curspace ? limit - q.dqb_curspace : 0;
#else
    (void)fd;
    (void)kind;
    (void)id;
    return UINT64_MAX;
#endif
}

void ts_disk_free_of(int fd, struct ts_disk_free *ret)
{
    struct ts_machine machine;
    struct statvfs v;
    struct statfs kind;
    struct rlimit limit;
    struct stat st;
    *ret = (struct ts_disk_free){ .bytes = UINT64_MAX, .file_most = UINT64_MAX };
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        ret->file_most = limit.rlim_cur;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0)
        ret->device = (uint64_t)st.st_dev;
    if (fstatvfs(fd, &v) == 0 && v.f_blocks > 0)
        ret->bytes = (uint64_t)v.f_bavail * v.f_frsize;
    ret->bytes = least(ret->bytes, quota_left(fd, USRQUOTA, geteuid()));
    ret->bytes = least(ret->bytes, quota_left(fd, GRPQUOTA, getegid()));
    if (fstatfs(fd, &kind) == 0 && kind.f_type == TMPFS) {
        ts_machine_get(&machine);
        ret->in_memory = 1;
        ret->bytes = least(ret->bytes, machine.free_bytes);
    }
}

void ts_disk_free_get(const char *dir, struct ts_disk_free *ret)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ts_disk_free_of(fd, ret);
    ts_fd_close(fd);
}
