/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_mpi.c - starts tstream as one of several ranks of mpirun or srun. */
#include <stddef.h>

#include "tools/common/tool_mpi.h"
#include "tools/common/tool_openmp.h"
#include "tools/tstream.h"

int main(int argc, char **argv)
{
    static const char *const together[] = { "cp", "score", "fit", "mttkrp", NULL };
    static const char *const quick[] = { NULL };
    if (tool_openmp_prepare("tstream-mpi", argv, quick))
        return 1;
    tstream_environment();
    return tool_mpi_main("tstream-mpi", together, argc, argv, tstream_run);
}
