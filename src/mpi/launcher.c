/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the helper process, which outlives its rank. Between fork and _exit it calls only
 * functions that are safe in the child of a program with several threads. */
#include "mpi/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST   2  /* most launchers of a rank: a launcher and its proxy */
#define CLIMBS 32 /* most ancestors of the rank that are examined */
#define STAT   512
#define BELOW  4096          /* most processes in the list of those to kill */
#define HELPER "tstream-end" /* the name of the processes that end others */

struct process {
    pid_t pid;
    unsigned long long start; /* start time: tells apart two processes that had the same pid */
};

/* Knows the launchers of Open MPI, PRRTE, MPICH (Hydra) and Intel (Hydra). Slurm's slurmstepd is
 * left out, because Slurm itself handles lost nodes. */
int ts_launcher_is(const char *comm)
{
    static const char *const names[] = {
        "mpirun",         "mpiexec",       "mpiexec.hydra", "mpiexec.openmpi",
        "mpirun.openmpi", "mpiexec.mpich", "mpirun.mpich",  "orterun",
        "orted",          "prte",          "prted",         "prterun"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(comm, names[i]) == 0)
            return 1;
    return strncmp(comm, "hydra_", 6) == 0;
}

/* Returns field n (3 or later) of /proc/PID/stat (proc(5)). rest: the text from field 3 on. Field 4
 * is the pid of the parent, field 22 the start time. */
static unsigned long long field_of(const char *rest, int n)
{
    for (int i = 3; i < n && *rest != '\0'; i++)
        rest += strcspn(rest, " ") + 1;
    return strtoull(rest, NULL, 10);
}

/* Reads /proc/PID/stat into text. Returns a pointer to its field 3, or NULL if there is no such
 * process. The name of the process follows the first '(' of text and is terminated; it may contain
 * brackets and spaces. */
static const char *read_stat(pid_t pid, char *text)
{
    char path[64], *end;
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    n = read(fd, text, STAT - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')');
    if (end == NULL || strchr(text, '(') == NULL || end[1] != ' ')
        return NULL;
    *end = '\0';
    return end + 2;
}

/* Finds the launcher nearest to the rank, and returns the number of entries of ret. With MPICH, a
 * proxy (the rank's parent) comes first and the launcher second. Ancestors above them are left out:
 * another launcher may have started the program that started this one. */
static uint32_t find_launcher(struct process *ret)
{
    pid_t pid = getppid();
    uint32_t n = 0;
    for (int i = 0; i < CLIMBS && n < MOST && pid > 1; i++) {
        char text[STAT];
        const char *rest = read_stat(pid, text),
                   *name = rest == NULL ? NULL : strchr(text, '(') + 1;
        if (rest == NULL)
            break;
        if (ts_launcher_is(name)) {
            ret[n++] = (struct process){ .pid = pid, .start = field_of(rest, 22) };
            if (strncmp(name, "hydra_", 6) != 0)
                break;
        } else if (n > 0) {
            break;
        }
        pid = (pid_t)field_of(rest, 4);
    }
    return n;
}

static void rest_ms(long ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    while (nanosleep(&t, &t) != 0)
        continue;
}

static void signal_all(const struct process *p, uint32_t n, int signal)
{
    for (uint32_t i = 0; i < n; i++) {
        char text[STAT];
        const char *rest = read_stat(p[i].pid, text);
        if (rest != NULL && field_of(rest, 22) == p[i].start)
            kill(p[i].pid, signal);
    }
}

/* Closes all file descriptors, because a launcher waits until all writers of a rank's pipes have
 * closed them. */
static void close_files(void)
{
    struct rlimit most;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0U, ~0U, 0U) == 0)
        return;
#endif
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur > 1 << 20)
        most.rlim_cur = 1 << 20;
    for (int fd = 0; fd < (int)most.rlim_cur; fd++)
        close(fd);
}

/* ---- processes that a launcher has started on this machine ---- */

/* the launchers, followed by all their descendants on this machine that were found */
static struct process below[BELOW];

static int is_parent(unsigned long long pid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if ((unsigned long long)below[i].pid == pid)
            return 1;
    return 0;
}

/* Adds a process to `below`, which has n entries, if its parent is in `below`. Skips processes that
 * `below` has already and helper processes like this one. Returns the new number of entries. */
static uint32_t add_below(pid_t pid, uint32_t n)
{
    char text[STAT];
    const char *rest = read_stat(pid, text);
    if (rest == NULL || n == BELOW || is_parent((unsigned long long)pid, n) ||
        !is_parent(field_of(rest, 4), n) || strcmp(strchr(text, '(') + 1, HELPER) == 0)
        return n;
    below[n] = (struct process){ .pid = pid, .start = field_of(rest, 22) };
    return n + 1;
}

/* Calls add_below for all processes of /proc. It uses getdents64, as readdir is not safe after
 * fork. */
static uint32_t add_all_below(uint32_t n)
{
    struct entry {
        uint64_t ino, next;
        unsigned short bytes;
        char type, name[];
    };
    _Alignas(8) char text[4096];
    const int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;
    while (fd >= 0 && (got = syscall(SYS_getdents64, fd, text, sizeof text)) > 0)
        for (long at = 0; at < got;) {
            const struct entry *e = (const struct entry *)(text + at);
            if (e->name[0] >= '1' && e->name[0] <= '9')
                n = add_below((pid_t)strtol(e->name, NULL, 10), n);
            at += e->bytes;
        }
    if (fd >= 0)
        close(fd);
    return n;
}

static uint32_t find_below(uint32_t n)
{
    uint32_t before;
    do { /* a process may be listed before its parent */
        before = n;
        n = add_all_below(n);
    } while (n > before);
    return n;
}

/* The work of the helper process. It lists all processes before it kills one, because a stopped
 * rank could not be found any more after its launcher has ended. */
static void end_all(const struct process *rank, const struct process *launcher, uint32_t n)
{
    uint32_t all = n;
    (void)setsid(); /* a launcher kills the process group of its rank */
    (void)prctl(PR_SET_NAME, HELPER);
    close_files();
    rest_ms(700);
    memcpy(below, launcher, n * sizeof *launcher);
    if (n > 0)
        all = find_below(n);
    signal_all(rank, 1, SIGKILL);
    rest_ms(300);
    if (n > 0)
        all = find_below(all);
    signal_all(below + n, all - n, SIGKILL);
    signal_all(launcher, n, SIGKILL);
}

void ts_launcher_end_soon(void)
{
    static atomic_flag was_called = ATOMIC_FLAG_INIT;
    struct process launcher[MOST], rank = { .pid = getpid() };
    char text[STAT];
    const char *rest = read_stat(rank.pid, text);
    const uint32_t n = find_launcher(launcher);
    if (rest == NULL || atomic_flag_test_and_set(&was_called))
        return;
    rank.start = field_of(rest, 22);
    if (fork() == 0) {
        end_all(&rank, launcher, n);
        _exit(0);
    }
}
