/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard_main.c - starts tshard; if it is one of several processes of an MPI launcher, starts
 * tshard-mpi instead. */
#include <stddef.h>

#include "tools/common/tool_launch.h"
#include "tools/common/tool_openmp.h"
#include "tools/tshard.h"

int main(int argc, char **argv)
{
    /* commands that each process may run alone, for its part of a tensor */
    static const char *const by_itself[] = { "part", "verify", "info", NULL };
    static const char *const quick[] = { "info", "part", NULL };
    if (tool_openmp_prepare("tshard", argv, quick))
        return 1;
    if (tool_launch_together(argc, argv, by_itself))
        return tool_launch_become("tshard-mpi", argv);
    return tshard_run(argc, argv);
}
