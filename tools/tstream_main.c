/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_main.c - tstream: alone, or one of several ranks, which tstream-mpi is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tstream.h"

#define MPI_PROGRAM "tstream-mpi"

static uint32_t count(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

/* How many processes a launcher of MPI has started, by what it sets: that of Open MPI, those that speak PMI (MPICH, Intel),
 * Slurm's where it prepares for MPI. */
static uint32_t launched(void)
{
    static const char *const size[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE" };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (count(size[i]) > 0)
            return count(size[i]);
    return getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL ? count("SLURM_STEP_NUM_TASKS")
                                                                     : 1;
}

static int is_first(void)
{
    static const char *const rank[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "MV2_COMM_WORLD_RANK" };
    for (size_t i = 0; i < sizeof rank / sizeof *rank; i++)
        if (getenv(rank[i]) != NULL)
            return count(rank[i]) == 0;
    return 1;
}

/* The program beside this one; else as the shell would find it. */
static void become_mpi(char **argv)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof MPI_PROGRAM - 1);
    char *slash = NULL;
    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash != NULL) {
        strcpy(slash + 1, MPI_PROGRAM);
        execv(path, argv);
    }
    execvp(MPI_PROGRAM, argv);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "cp") == 0 && launched() > 1) {
        become_mpi(argv);
        if (is_first())
            fprintf(
                stderr,
                "tstream cp: started as %u processes by a launcher of MPI, for which there is " MPI_PROGRAM
                ", and it is not installed: build with --with-mpi, or start one\n",
                launched());
        return 1;
    }
    return tstream_run(argc, argv);
}
