/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of a process: read from files made here, as kernels with cgroup v1, v2 and none write
 * them; the machine itself is only asked for something that makes sense. */
#include <check.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/machine/machine.h"
#include "tests/support/run_suite.h"

#define MIB (UINT64_C(1) << 20)

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    FILE *f;
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void start(void)
{
    snprintf(root, sizeof root, "/tmp/check_machine.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    put("/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
    put("/proc/self/statm", "1000 500 100 1 0 400 0\n");
}

static void stop(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

static void v2(void)
{
    put("/proc/self/mountinfo",
        "24 30 0:22 / /proc rw - proc proc rw\n"
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/proc/self/cgroup", "0::/user/job\n");
}

START_TEST(meminfo_alone)
{
    struct ts_machine m;
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 16384 * MIB);
    ck_assert_uint_eq(m.free_bytes, 8192 * MIB);
}
END_TEST

START_TEST(v2_takes_the_lowest_of_own_and_parents)
{
    struct ts_machine m;
    v2();
    put("/sys/fs/cgroup/user/job/memory.max", "max\n");
    put("/sys/fs/cgroup/user/job/memory.current", "1048576\n");
    put("/sys/fs/cgroup/user/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/user/memory.current", "536870912\n");
    put("/sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file 104857600\nactive_file 4096\n");
    put("/sys/fs/cgroup/user/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 1024 * MIB);
    ck_assert_uint_eq(m.free_bytes, 612 * MIB + 4096); /* page cache counts as free */
    ck_assert_uint_eq(m.cpus, 1);
    put("/sys/fs/cgroup/user/job/memory.high", "268435456\n");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 256 * MIB);
    ck_assert_uint_eq(m.free_bytes, 255 * MIB);
}
END_TEST

START_TEST(v1_in_its_own_hierarchy)
{
    struct ts_machine m;
    put("/proc/self/mountinfo", "30 23 0:26 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                                "31 23 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
                                "32 23 0:28 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    put("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/\n");
    put("/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    put("/cg/memory/a/b/memory.usage_in_bytes", "4096\n");
    put("/cg/memory/a/memory.limit_in_bytes", "314572800\n");
    put("/cg/memory/a/memory.usage_in_bytes", "209715200\n");
    put("/cg/memory/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 20971520\ntotal_active_file 0\n");
    put("/cg/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    put("/cg/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    put("/cg/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    put("/cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 300 * MIB);
    ck_assert_uint_eq(m.free_bytes, 120 * MIB);
    ck_assert_uint_eq(m.cpus, 1);
}
END_TEST

/* A container without a namespace of its own sees its cgroup at the mount point, not at the path
 * that /proc/self/cgroup names. */
START_TEST(container_sees_its_cgroup_at_the_top)
{
    struct ts_machine m;
    put("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("/proc/self/cgroup", "0::/docker/abc\n");
    put("/sys/fs/cgroup/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 1024 * MIB);
    put("/proc/self/cgroup", "0::/somewhere/else\n");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 1024 * MIB);
}
END_TEST

START_TEST(nonsense_limits_nothing)
{
    struct ts_machine m;
    v2();
    put("/sys/fs/cgroup/user/job/memory.max", "much\n");
    put("/sys/fs/cgroup/user/job/memory.current", "");
    put("/sys/fs/cgroup/user/job/cpu.max", "0 0\n");
    put("/sys/fs/cgroup/user/memory.max", "");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.total_bytes, 16384 * MIB);
    ck_assert_uint_ge(m.cpus, 1);
    put("/proc/meminfo", "garbage");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.free_bytes, UINT64_MAX);
    put("/sys/fs/cgroup/user/job/memory.max", "100\n"); /* below what is in use: a page is left */
    put("/sys/fs/cgroup/user/job/memory.current", "200\n");
    ts_machine_get_at(root, &m);
    ck_assert_uint_eq(m.free_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
}
END_TEST

/* As in a chroot. */
START_TEST(without_proc_the_kernel_tells)
{
    struct ts_machine m;
    ts_machine_get_at("/nowhere", &m);
    ck_assert_uint_ge(m.cpus, 1);
    ck_assert_uint_ge(m.total_bytes, m.free_bytes);
    ck_assert_uint_ge(m.free_bytes, MIB);
    ck_assert_uint_lt(m.total_bytes, UINT64_C(1) << 50);
}
END_TEST

START_TEST(this_machine_makes_sense)
{
    struct ts_machine m;
    ts_machine_get(&m);
    ck_assert_uint_ge(m.cpus, 1);
    ck_assert_uint_ge(m.total_bytes, m.free_bytes);
    ck_assert_uint_lt(m.total_bytes, UINT64_C(1) << 50);
}
END_TEST

/* In a child, because limits of a process cannot be taken back. AddressSanitizer reserves terabytes
 * of addresses, which RLIMIT_AS counts, so the limit is only looked at, from made-up files. */
START_TEST(limits_of_the_process_count)
{
    const pid_t child = fork();
    int status;
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        const struct rlimit space = { UINT64_C(1) << 47, RLIM_INFINITY };
        struct ts_machine m;
        cpu_set_t one;
        char text[96];
        snprintf(text, sizeof text, "%" PRIu64 " 1 1 1 0 1 0\n",
                 ((UINT64_C(1) << 47) - 100 * MIB) / page);
        put("/proc/self/statm", text);
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        if (setrlimit(RLIMIT_AS, &space) != 0 || sched_setaffinity(0, sizeof one, &one) != 0)
            _exit(2);
        ts_machine_get_at(root, &m);
        _exit(m.free_bytes == 100 * MIB && m.cpus == 1 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

#define CACHES "/sys/devices/system/cpu/cpu0/cache/index"

/* Caches in any order; one of the third level may be missing. */
START_TEST(the_cache_that_cores_share)
{
    ck_assert_uint_eq(ts_machine_shared_cache_bytes_at(root), 0);
    put(CACHES "0/level", "1\n");
    put(CACHES "0/size", "48K\n");
    put(CACHES "1/level", "2\n");
    put(CACHES "1/size", "1024K\n");
    ck_assert_uint_eq(ts_machine_shared_cache_bytes_at(root), 0);
    put(CACHES "3/level", "3\n");
    ck_assert_uint_eq(ts_machine_shared_cache_bytes_at(root), 0);
    put(CACHES "3/size", "32768K\n");
    ck_assert_uint_eq(ts_machine_shared_cache_bytes_at(root), 32 * MIB);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("machine");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, start, stop);
    tcase_add_test(tc, meminfo_alone);
    tcase_add_test(tc, the_cache_that_cores_share);
    tcase_add_test(tc, v2_takes_the_lowest_of_own_and_parents);
    tcase_add_test(tc, v1_in_its_own_hierarchy);
    tcase_add_test(tc, container_sees_its_cgroup_at_the_top);
    tcase_add_test(tc, nonsense_limits_nothing);
    tcase_add_test(tc, without_proc_the_kernel_tells);
    tcase_add_test(tc, this_machine_makes_sense);
    tcase_add_test(tc, limits_of_the_process_count);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
