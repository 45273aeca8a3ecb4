/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_main.c - tstream: alone, or one of several ranks, which tstream-mpi is for. */
#include <string.h>

#include "tools/tool_launch.h"
#include "tools/tstream.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "cp") == 0 && tool_launch_mpi() > 1)
        return tool_launch_become("tstream-mpi", "tstream cp", argv);
    return tstream_run(argc, argv);
}
