/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_main.c - tstream: alone, or one of several ranks, which tstream-mpi is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tool_launch.h"
#include "tools/tstream.h"

#define MPI_PROGRAM "tstream-mpi"

static int is_first(void)
{
    uint32_t rank, n;
    return !tool_launch_place(&rank, &n) || rank == 0;
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
    if (argc > 1 && strcmp(argv[1], "cp") == 0 && tool_launch_mpi() > 1) {
        become_mpi(argv);
        if (is_first())
            fprintf(
                stderr,
                "tstream cp: started as %u processes by a launcher of MPI, for which there is " MPI_PROGRAM
                ", and it is not installed: build with --with-mpi, or start one\n",
                tool_launch_mpi());
        return 1;
    }
    return tstream_run(argc, argv);
}
