/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_main.c - starts tstream; if it is one of several processes of an MPI launcher, starts
 * tstream-mpi instead. */
#include <stddef.h>

#include "tools/common/tool_launch.h"
#include "tools/common/tool_openmp.h"
#include "tools/tstream.h"

int main(int argc, char **argv)
{
    /* commands that each process may run alone, to print the devices of its machine */
    static const char *const by_itself[] = { "devices", NULL };
    static const char *const quick[] = { "status", "info", "top", "devices", NULL };
    if (tool_openmp_prepare("tstream", argv, quick))
        return 1;
    if (tool_launch_together(argc, argv, by_itself))
        return tool_launch_become("tstream-mpi", argv);
    tstream_environment();
    return tstream_run(argc, argv);
}
