/* SPDX-License-Identifier: BSD-3-Clause */
/* The comm of a process that MPI has started, from the first line of a program to the last. */
#include "tools/tool_mpi.h"

#include <stdio.h>

#include "tools/tool.h"
#include "tools/tool_ranks.h"

static struct ts_comm *comm;

/* A rank that fails before it computes is missed by the others in their first call: this is its answer. */
static void leave(int status)
{
    struct ts_err err = *tool_failure();
    if (status != 0 && err.code == 0)
        ts_fail(&err, TS_EARG, "it ended with exit status %d", status);
    (void)tool_ranks_agree(status == 0 ? 0 : err.code, &err);
    ts_comm_mpi_close(comm);
    comm = NULL;
}

int tool_mpi_main(const char *name, int argc, char **argv, int (*run)(int argc, char **argv))
{
    struct ts_err err;
    if (ts_comm_mpi_open(name, &argc, &argv, &comm, &err) < 0) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return 1;
    }
    tool_ranks_set(comm, ts_comm_mpi_beside(comm));
    tool_before_end(leave);
    return run(argc, argv);
}
