/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_main.c - tstream: alone, or one of several ranks, which tstream-mpi is for. */
#include <stddef.h>

#include "tools/tool_launch.h"
#include "tools/tstream.h"

int main(int argc, char **argv)
{
    static const char *const by_itself[] = { "devices", NULL }; /* of each machine */
    if (tool_launch_together(argc, argv, by_itself))
        return tool_launch_become("tstream-mpi", argv);
    tstream_environment();
    return tstream_run(argc, argv);
}
