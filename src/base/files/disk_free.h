/* SPDX-License-Identifier: BSD-3-Clause */
/* disk_free.h - the number of bytes that may still be written to a directory or a file.
 *
 * It is the smallest of: the free space of the file system for users, as df shows it; the rest of
 * disk quotas of the user and the group (if the kernel reports them for a descriptor, from Linux
 * 5.14 on); and on tmpfs the free memory of the machine. The part that a file system reserves for
 * root does not count, even if root runs the program.
 *
 *   units    bytes
 *   threads  any thread
 *   errors   none: UINT64_MAX if nothing is known
 */
#ifndef TS_BASE_DISK_FREE_H
#define TS_BASE_DISK_FREE_H

#include <stdint.h>

struct ts_disk_free {
    uint64_t bytes;     /* bytes that may still be written; UINT64_MAX: not known */
    uint64_t device;    /* equal for two directories of one file system; 0: not known */
    int in_memory;      /* 1: the file system is tmpfs */
    uint64_t file_most; /* RLIMIT_FSIZE: the largest file that this process may write */
};

void ts_disk_free_get(const char *dir, struct ts_disk_free *ret);

/* Finds the free space of the file system of an open file or directory. fd -1: only file_most is
 * known. */
void ts_disk_free_of(int fd, struct ts_disk_free *ret);

#endif
