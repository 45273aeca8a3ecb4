/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard_mpi.c - starts tshard as one of several ranks of mpirun or srun. */
#include <stddef.h>

#include "tools/common/tool_mpi.h"
#include "tools/common/tool_openmp.h"
#include "tools/tshard.h"

int main(int argc, char **argv)
{
    static const char *const together[] = { "build", NULL };
    static const char *const quick[] = { NULL };
    if (tool_openmp_prepare("tshard-mpi", argv, quick))
        return 1;
    return tool_mpi_main("tshard-mpi", together, argc, argv, tshard_run);
}
