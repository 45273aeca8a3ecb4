/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard_main.c - starts tshard; as one of several ranks, starts tshard-mpi instead. */
#include <stddef.h>

#include "tools/common/tool_launch.h"
#include "tools/common/tool_openmp.h"
#include "tools/tshard.h"

int main(int argc, char **argv)
{
    /* commands that ranks may run alone, each for its part of a tensor */
    static const char *const by_itself[] = { "part", "verify", "info", NULL };
    static const char *const quick[] = { "info", "part", NULL };
    if (tool_openmp_prepare("tshard", argv, quick))
        return 1;
    if (tool_launch_together(argc, argv, by_itself))
        return tool_launch_become("tshard-mpi", argv);
    return tshard_run(argc, argv);
}
