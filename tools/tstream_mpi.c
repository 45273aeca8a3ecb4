/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_mpi.c - tstream-mpi: tstream as one of several ranks, started by mpirun or srun. */
#include "tools/tool_mpi.h"
#include "tools/tstream.h"

int main(int argc, char **argv)
{
    return tool_mpi_main("tstream-mpi", "cp", argc, argv, tstream_run);
}
