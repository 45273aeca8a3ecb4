/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h - what this process may use of the machine: memory, CPUs and caches.
 *
 * Memory is the smallest of three: what the kernel says is available; what each cgroup (v1 or v2)
 * from this process's own up to the root leaves; what RLIMIT_AS and RLIMIT_DATA leave. Page cache
 * counts as free, because the kernel gives it back. CPUs are those of the affinity mask, or fewer
 * when a cgroup has a CPU quota.
 *
 *   units    bytes
 *   errors   none: a limit that cannot be read is none; at least one CPU and one page are reported
 *   threads  any thread; files are read anew on each call
 */
#ifndef TS_BASE_MACHINE_H
#define TS_BASE_MACHINE_H

#include <stdint.h>

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

/* Bytes of the second-level cache of a core. 1 MiB if the system does not say. */
uint64_t ts_machine_cache_bytes(void);

/* Bytes of the third-level cache, which cores share; 0 if it does not exist or the system does not
 * report it. */
uint64_t ts_machine_shared_cache_bytes(void);

/* The largest resident memory of this process so far. 0 if the system does not say. */
uint64_t ts_machine_peak_bytes(void);

/* Like ts_machine_get, with every path of /proc and /sys below `root` (for tests). "" is the
 * machine itself. */
void ts_machine_get_at(const char *root, struct ts_machine *ret);
uint64_t ts_machine_shared_cache_bytes_at(const char *root);

#endif
