/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_main.c - tstream: alone, or one of several ranks, which tstream-mpi is for. */
#include <stddef.h>

#include "tools/common/tool_launch.h"
#include "tools/common/tool_openmp.h"
#include "tools/tstream.h"

int main(int argc, char **argv)
{
    static const char *const by_itself[] = { "devices", NULL }; /* of each machine */
    static const char *const quick[] = { "status", "info", "top", "devices", NULL };
    if (tool_openmp_prepare("tstream", argv, quick))
        return 1;
    if (tool_launch_together(argc, argv, by_itself))
        return tool_launch_become("tstream-mpi", argv);
    tstream_environment();
    return tstream_run(argc, argv);
}
