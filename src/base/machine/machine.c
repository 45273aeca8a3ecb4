/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads /proc and the cgroup files to find the memory and the CPUs that this process may use. */
#include "base/machine/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define CACHES     "/sys/devices/system/cpu/cpu0/cache/index"
#define MAX_CACHES 8u

struct cgroup {
    char mount[PATH_BYTES]; /* where the cgroup hierarchy is mounted */
    char path[PATH_BYTES];  /* path of our own cgroup in the hierarchy, "" or "/a/b" */
    int v2;
};

static FILE *open_at(const char *root, const char *path)
{
    char full[2 * PATH_BYTES];
    if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full)
        return NULL;
    return fopen(full, "re");
}

/* Returns the number after `key` at the start of a line, or UINT64_MAX if no line has the key. */
static uint64_t keyed(FILE *f, const char *key)
{
    char line[256];
    const size_t n = strlen(key);
    rewind(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, n) == 0 && strchr(" \t:", line[n]) != NULL)
            return strtoull(line + n + strspn(line + n, " \t:"), NULL, 10);
    return UINT64_MAX;
}

/* Whether `words`, separated by commas, contain `word`. */
static int has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    while (*words != '\0') {
        const size_t len = strcspn(words, ",\n");
        if (len == n && memcmp(words, word, n) == 0)
            return 1;
        words += len + (words[len] != '\0');
    }
    return 0;
}

/* Finds the path of our cgroup in the v1 hierarchy of `controller`, or in the v2 hierarchy if
 * controller is NULL. */
static int own_path(const char *root, const char *controller, char *path)
{
    char line[PATH_BYTES + 256];
    FILE *f = open_at(root, "/proc/self/cgroup");
    int found = 0;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
        if (where == NULL)
            continue;
        *where++ = '\0';
        names++;
        if (controller != NULL ? !has_word(names, controller) : *names != '\0')
            continue;
        where[strcspn(where, "\n")] = '\0';
        found = snprintf(path, PATH_BYTES, "%s", where) < PATH_BYTES;
    }
    if (f != NULL)
        fclose(f);
    return found;
}

/* Finds where the cgroups of a controller are mounted, and the topmost one that is visible there
 * ("/" outside containers). Mount points with blanks (octal escapes) are ignored: then no limit is
 * found. */
static int own_mount(const char *root, const char *controller, char *mount, char *top)
{
    char line[4 * PATH_BYTES];
    FILE *f = open_at(root, "/proc/self/mountinfo");
    int found = 0;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        char type[64], super[PATH_BYTES];
        const char *dash = strstr(line, " - ");
        if (dash == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2 ||
            sscanf(dash + 3, "%63s %*s %4095s", type, super) != 2)
            continue;
        found = controller == NULL ? strcmp(type, "cgroup2") == 0
                                   : strcmp(type, "cgroup") == 0 && has_word(super, controller);
    }
    if (f != NULL)
        fclose(f);
    return found;
}

/* Finds our cgroup for a controller: v1 if it is mounted there, otherwise v2. Returns 0 if there is
 * none. */
static int find_cgroup(const char *root, const char *controller, struct cgroup *ret)
{
    char top[PATH_BYTES];
    size_t n;
    ret->v2 = 0;
    if (!own_path(root, controller, ret->path) || !own_mount(root, controller, ret->mount, top)) {
        ret->v2 = 1;
        if (!own_path(root, NULL, ret->path) || !own_mount(root, NULL, ret->mount, top))
            return 0;
    }
    n = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strncmp(ret->path, top, n) == 0 && (ret->path[n] == '/' || ret->path[n] == '\0'))
        memmove(ret->path, ret->path + n, strlen(ret->path + n) + 1);
    /* the mount belongs to another namespace: only its topmost cgroup is visible */
    else
        ret->path[0] = '\0';
    if (strcmp(ret->path, "/") == 0)
        ret->path[0] = '\0';
    return 1;
}

/* Changes the cgroup g to its parent. Returns 0 at the top of the hierarchy. */
static int parent(struct cgroup *g)
{
    char *slash = strrchr(g->path, '/');
    if (slash == NULL)
        return 0;
    *slash = '\0';
    return 1;
}

static FILE *open_in(const char *root, const struct cgroup *g, const char *file)
{
    char path[2 * PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s%s/%s", g->mount, g->path, file);
    return open_at(root, path);
}

/* Returns the first word of a file as a number, or UINT64_MAX for "max" or if it cannot be read. */
static uint64_t number_in(const char *root, const struct cgroup *g, const char *file)
{
    uint64_t n = UINT64_MAX;
    FILE *f = open_in(root, g, file);
    if (f == NULL)
        return n;
    if (fscanf(f, "%" SCNu64, &n) != 1)
        n = UINT64_MAX;
    fclose(f);
    return n;
}

/* Returns the bytes of page cache of a cgroup, which the kernel frees before it kills a process. */
static uint64_t cache_in(const char *root, const struct cgroup *g)
{
    static const char *const keys[2][2] = { { "total_inactive_file", "total_active_file" },
                                            { "inactive_file", "active_file" } };
    uint64_t sum = 0;
    FILE *f = open_in(root, g, "memory.stat");
    for (int i = 0; f != NULL && i < 2; i++) {
        const uint64_t n = keyed(f, keys[g->v2][i]);
        sum += n == UINT64_MAX ? 0 : n;
    }
    if (f != NULL)
        fclose(f);
    return sum;
}

static void limit(struct ts_machine *m, uint64_t total, uint64_t used)
{
    const uint64_t left = total > used ? total - used : 0;
    if (total < m->total_bytes)
        m->total_bytes = total;
    if (left < m->free_bytes)
        m->free_bytes = left;
}

static void limit_by_cgroups(const char *root, struct ts_machine *m)
{
    struct cgroup g;
    if (!find_cgroup(root, "memory", &g))
        return;
    do {
        const uint64_t most = number_in(root, &g, g.v2 ? "memory.max" : "memory.limit_in_bytes");
        const uint64_t high = g.v2 ? number_in(root, &g, "memory.high") : UINT64_MAX;
        const uint64_t used =
            number_in(root, &g, g.v2 ? "memory.current" : "memory.usage_in_bytes");
        const uint64_t cache = cache_in(root, &g);
        if ((most & high) == UINT64_MAX || used == UINT64_MAX)
            continue; /* no limit here; cgroup v1 writes that as a huge number */
        limit(m, most < high ? most : high, used > cache ? used - cache : 0);
    } while (parent(&g));
}

static void limit_by_machine(const char *root, struct ts_machine *m)
{
    FILE *f = open_at(root, "/proc/meminfo");
    uint64_t total, available;
    struct sysinfo info;
    if (f == NULL) { /* in a chroot without /proc: ask the kernel; page cache then counts as used */
        if (sysinfo(&info) == 0)
            limit(m, (uint64_t)info.totalram * info.mem_unit,
                  (uint64_t)(info.totalram - info.freeram - info.bufferram) * info.mem_unit);
        return;
    }
    total = keyed(f, "MemTotal");
    available = keyed(f, "MemAvailable");
    fclose(f);
    if (total < UINT64_MAX / 1024 && available <= total)
        limit(m, total * 1024, (total - available) * 1024);
}

/* Applies RLIMIT_AS and RLIMIT_DATA. In /proc/self/statm, the first number is the pages of the
 * address space, the sixth those of data and stack. */
static void limit_by_process(const char *root, struct ts_machine *m)
{
    const long page = sysconf(_SC_PAGESIZE);
    uint64_t space = 0, data = 0;
    struct rlimit rl;
    FILE *f = open_at(root, "/proc/self/statm");
    if (f != NULL) {
        if (fscanf(f, "%" SCNu64 " %*u %*u %*u %*u %" SCNu64, &space, &data) != 2)
            space = data = 0;
        fclose(f);
    }
    if (getrlimit(RLIMIT_AS, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY)
        limit(m, rl.rlim_cur, space * (uint64_t)page);
    if (getrlimit(RLIMIT_DATA, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY)
        limit(m, rl.rlim_cur, data * (uint64_t)page);
}

/* Returns the CPUs that the quota of a cgroup allows, rounded up, or UINT64_MAX without a quota. */
static uint64_t quota_cpus(const char *root, const struct cgroup *g)
{
    uint64_t quota = UINT64_MAX, period = 0;
    if (g->v2) {
        FILE *f = open_in(root, g, "cpu.max");
        if (f != NULL && fscanf(f, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
            quota = UINT64_MAX;
        if (f != NULL)
            fclose(f);
    } else {
        quota = number_in(root, g, "cpu.cfs_quota_us");
        period = number_in(root, g, "cpu.cfs_period_us");
    }
    if (quota > INT64_MAX || period == 0 || period > INT64_MAX) /* cgroup v1 has -1 for none */
        return UINT64_MAX;
    return quota / period + (quota % period != 0);
}

/* Returns the number of CPUs in the affinity mask. The kernel rejects a mask that is too small, so
 * larger ones are tried. */
static uint32_t affinity_cpus(void)
{
    for (int n = 1024; n <= 1 << 20; n *= 2) {
        const size_t size = CPU_ALLOC_SIZE(n);
        cpu_set_t *mask = CPU_ALLOC(n);
        int rc, count = 0;
        if (mask == NULL)
            break;
        rc = sched_getaffinity(0, size, mask);
        if (rc == 0)
            count = CPU_COUNT_S(size, mask);
        CPU_FREE(mask);
        if (rc == 0 && count > 0)
            return (uint32_t)count;
        if (rc < 0 && errno != EINVAL)
            break;
    }
    return 1;
}

void ts_machine_get_at(const char *root, struct ts_machine *ret)
{
    struct ts_machine m = { UINT64_MAX, UINT64_MAX, affinity_cpus() };
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct cgroup g;
    limit_by_machine(root, &m);
    limit_by_cgroups(root, &m);
    limit_by_process(root, &m);
    if (m.free_bytes > m.total_bytes)
        m.free_bytes = m.total_bytes;
    if (m.free_bytes < page)
        m.free_bytes = page;
    if (find_cgroup(root, "cpu", &g)) {
        do {
            const uint64_t n = quota_cpus(root, &g);
            if (n < m.cpus)
                m.cpus = n > 0 ? (uint32_t)n : 1;
        } while (parent(&g));
    }
    *ret = m;
}

static uint32_t sharing = 1;

void ts_machine_share(uint32_t processes)
{
    sharing = processes > 0 ? processes : 1;
}

void ts_machine_get(struct ts_machine *ret)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    ts_machine_get_at("", ret);
    ret->free_bytes /= sharing;
    if (sharing > 1 && online > 0 && ret->cpus >= (unsigned long)online)
        ret->cpus = ret->cpus > sharing ? ret->cpus / sharing : 1;
}

uint64_t ts_machine_cache_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (uint64_t)bytes : UINT64_C(1) << 20;
}

/* Returns the number in a file: of KiB ("32768K") or without a unit; 0 if there is none. */
static uint64_t cache_number(const char *root, const char *path)
{
    char line[64] = "", *end;
    FILE *f = open_at(root, path);
    uint64_t n;
    if (f == NULL)
        return 0;
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    fclose(f);
    n = strtoull(line, &end, 10);
    return *end == 'K' ? n << 10 : n;
}

/* Reads the cache of the first CPU. sysconf would add up the caches of a whole socket, even if a
 * virtual machine has only a part of it. */
uint64_t ts_machine_shared_cache_bytes_at(const char *root)
{
    for (uint32_t k = 0; k < MAX_CACHES; k++) {
        char path[80];
        snprintf(path, sizeof path, CACHES "%" PRIu32 "/level", k);
        if (cache_number(root, path) != 3)
            continue;
        snprintf(path, sizeof path, CACHES "%" PRIu32 "/size", k);
        return cache_number(root, path);
    }
    return 0;
}

uint64_t ts_machine_shared_cache_bytes(void)
{
    return ts_machine_shared_cache_bytes_at("");
}

uint64_t ts_machine_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
