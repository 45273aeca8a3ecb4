/* SPDX-License-Identifier: BSD-3-Clause */
/* disk_free.h - how much may still be written to a directory or a file.
 *
 * The least of: what its file system has free for users, as df shows it, what disk quotas of the
 * user and the group leave (where the kernel tells them by a descriptor, from Linux 5.14 on), and
 * on tmpfs the free memory of the machine. The part that a file system reserves for root is not
 * counted, also where root runs this.
 *
 *   units    bytes
 *   threads  any
 *   errors   none: UINT64_MAX where nothing is known
 */
#ifndef TS_BASE_DISK_FREE_H
#define TS_BASE_DISK_FREE_H

#include <stdint.h>

struct ts_disk_free {
    uint64_t bytes;     /* UINT64_MAX: not known */
    uint64_t device;    /* alike for two directories of one file system; 0: not known */
    int in_memory;      /* tmpfs */
    uint64_t file_most; /* RLIMIT_FSIZE: the largest file that this process may write */
};

void ts_disk_free_get(const char *dir, struct ts_disk_free *ret);

/* Finds the free space of the file system of an open file or directory. fd -1: only file_most is
 * known. */
void ts_disk_free_of(int fd, struct ts_disk_free *ret);

#endif
