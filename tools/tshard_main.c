/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard_main.c - tshard: alone, or one of several ranks, which tshard-mpi is for. */
#include <string.h>

#include "tools/tool_launch.h"
#include "tools/tshard.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "build") == 0 && tool_launch_mpi() > 1)
        return tool_launch_become("tshard-mpi", "tshard build", argv);
    return tshard_run(argc, argv);
}
