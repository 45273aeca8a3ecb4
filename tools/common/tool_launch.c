/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the environment variables of launchers such as mpirun and srun. */
#include "tools/common/tool_launch.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t count(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

uint32_t tool_launch_mpi(void)
{
    static const char *const size[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE" };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (count(size[i]) > 0)
            return count(size[i]);
    return getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL ? count("SLURM_STEP_NUM_TASKS")
                                                                     : 1;
}

int tool_launch_place(uint32_t *rank, uint32_t *n)
{
    static const char *const name[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "MV2_COMM_WORLD_RANK", "SLURM_PROCID" };
    *n = tool_launch_mpi();
    if (*n <= 1 && count("SLURM_STEP_NUM_TASKS") > 0)
        *n = count("SLURM_STEP_NUM_TASKS");
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (getenv(name[i]) != NULL) {
            *rank = count(name[i]);
            return *rank < *n;
        }
    return 0;
}

/* Replaces this process by a program: the one in the directory of this program, or else in the
 * PATH. */
static void become(const char *program, char **argv)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    char *slash = NULL;
    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash != NULL && strlen(program) < 60) {
        strcpy(slash + 1, program);
        execv(path, argv);
    }
    execvp(program, argv);
}

int tool_launch_together(int argc, char **argv, const char *const *by_itself)
{
    if (argc < 2 || argv[1][0] == '-' || tool_launch_mpi() <= 1)
        return 0;
    while (*by_itself != NULL && strcmp(argv[1], *by_itself) != 0)
        by_itself++;
    return *by_itself == NULL;
}

int tool_launch_become(const char *program, char **argv)
{
    uint32_t rank, n;
    become(program, argv);
    if (!tool_launch_place(&rank, &n) || rank == 0)
        fprintf(
            stderr,
            "%.*s %s: started as %u processes by a launcher of MPI, for which there is %s, and it is not "
            "installed: build with --with-mpi, or start one\n",
            (int)strcspn(program, "-"), program, argv[1], tool_launch_mpi(), program);
    return 1;
}
