/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets environment variables and limits for OpenMP, and executes the program again so that they
 * apply. */
#include "tools/common/tool_openmp.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#define ENOUGH_STACK ((rlim_t)1 << 20)
#define LEAST_STACK  ((rlim_t)512 << 10)
#define NEW_STACK    ((rlim_t)8 << 20) /* the usual limit on the size of a stack */

/* Whether the user has set how long threads spin while they wait. */
static int waits_are_chosen(void)
{
    static const char *const name[] = { "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (getenv(name[i]) != NULL)
            return 1;
    return 0;
}

/* Sets the environment variables that let waiting threads spin only briefly. Returns 1 if GNU's
 * OpenMP must be loaded again to read them. LLVM's reads its variable when the first parallel
 * region begins. */
static int shorten_waits(void)
{
    if (waits_are_chosen())
        return 0;
    setenv("KMP_BLOCKTIME", "0", 1);
    return setenv("GOMP_SPINCOUNT", "1000", 1) == 0;
}

/* Raises the limit on the size of stacks if it is low; *raised is then 1. Returns 1 if the limit
 * stays too low. */
static int raise_stack(int *raised)
{
    struct rlimit limit;
    rlim_t before;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= ENOUGH_STACK)
        return 0;
    before = limit.rlim_cur;
    limit.rlim_cur =
        limit.rlim_max != RLIM_INFINITY && limit.rlim_max < NEW_STACK ? limit.rlim_max : NEW_STACK;
    *raised = limit.rlim_cur > before && setrlimit(RLIMIT_STACK, &limit) == 0;
    return (*raised ? limit.rlim_cur : before) < LEAST_STACK;
}

static int is_one_of(const char *command, const char *const *names)
{
    while (*names != NULL && strcmp(command, *names) != 0)
        names++;
    return *names != NULL;
}

/* Executes this program again; if that fails, it continues unchanged. If a loader was started with
 * the program as its operand, /proc/self/exe is the loader, and AT_BASE is 0. Executed again, it
 * would take the command for a program. */
static void execute_again(char **argv)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || getauxval(AT_BASE) == 0)
        return;
    path[n] = '\0';
    execv(path, argv);
}

int tool_openmp_prepare(const char *program, char **argv, const char *const *quick)
{
    int raised = 0, changed;
    if (argv[0] == NULL || argv[1] == NULL || argv[1][0] == '-' || is_one_of(argv[1], quick))
        return 0;
    if (raise_stack(&raised)) {
        fprintf(stderr, "%s %s: the stack is limited to less than 512 KiB: raise ulimit -s\n",
                program, argv[1]);
        return 1;
    }
    changed = shorten_waits();
    if (changed || raised)
        execute_again(argv);
    return 0;
}
