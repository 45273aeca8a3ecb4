/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h - the memory, CPUs and caches of the machine that this process may use.
 *
 * Memory is the smallest of three: the available memory that the kernel reports; the rest of the
 * limits of each cgroup (v1 or v2) from this process's own up to the root; and the rest of
 * RLIMIT_AS and RLIMIT_DATA. Page cache counts as free, because the kernel frees it on demand. CPUs
 * are those of the affinity mask, or fewer if a cgroup has a CPU quota.
 *
 *   units    bytes
 *   errors   none: a limit that cannot be read is ignored; at least one CPU and one page are
 *            reported
 *   threads  any thread; each call reads the files again
 */
#ifndef TS_BASE_MACHINE_H
#define TS_BASE_MACHINE_H

#include <stdint.h>

/* What this process may use of the machine. */
struct ts_machine {
    uint64_t total_bytes; /* memory, or the lowest limit on it */
    uint64_t free_bytes;  /* memory that this process could still allocate */
    uint32_t cpus;
};

void ts_machine_get(struct ts_machine *ret);

/* Sets how many processes like this one share the machine. From now on, each gets a part of its
 * memory. Each also gets a part of the CPUs, unless the process is bound to some CPUs. To be called
 * before there are threads. */
void ts_machine_share(uint32_t processes);

/* Returns the bytes of the second-level cache of a core, or 1 MiB if the system does not report
 * it. */
uint64_t ts_machine_cache_bytes(void);

/* Returns the bytes of the third-level cache, which cores share; 0 if it does not exist or the
 * system does not report it. */
uint64_t ts_machine_shared_cache_bytes(void);

/* Returns the largest resident memory of this process so far, or 0 if the system does not report
 * it. */
uint64_t ts_machine_peak_bytes(void);

/* Like ts_machine_get, with every path of /proc and /sys below `root` (for tests). "" is the
 * machine itself. */
void ts_machine_get_at(const char *root, struct ts_machine *ret);
uint64_t ts_machine_shared_cache_bytes_at(const char *root);

#endif
