/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the communicator of a process that MPI has started. */
#include "tools/common/tool_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"
#include "tools/common/tool_launch.h"
#include "tools/common/tool_ranks.h"

static struct ts_comm *comm;

/* Called on a rank (process) that fails before it computes: joins the first exchange of the other
 * ranks, and reports its failure to them. */
static void leave(int status)
{
    struct ts_err err = *tool_failure();
    if (status != 0 && err.code == 0)
        ts_fail(&err, TS_EARG, "it ended with exit status %d", status);
    (void)tool_ranks_agree(status == 0 ? 0 : err.code, &err);
    ts_comm_mpi_close(comm);
    comm = NULL;
}

static const char *const *commands; /* commands that several ranks (processes) compute together */

static int is_together(const char *name)
{
    for (const char *const *c = commands; *c != NULL; c++)
        if (strcmp(*c, name) == 0)
            return 1;
    return 0;
}

/* Fails if a launcher of another MPI started several processes, each of which would regard itself
 * as the only one. */
static int refuse_strangers(const struct ts_cmd *cmd)
{
    char mpi[64];
    uint32_t rank, n;
    ts_comm_mpi_version(mpi, sizeof mpi);
    if (!tool_launch_place(&rank, &n) || rank == 0)
        fprintf(
            stderr,
            "%s %s: started as %u processes by the launcher of another MPI than that of %s-mpi, %s: "
            "start them with its launcher, or build with this launcher's MPI (--with-mpi)\n",
            cmd->program, cmd->name, tool_launch_mpi(), cmd->program, mpi);
    return 1;
}

/* Fails if several processes were started for a command that each of them would compute alone,
 * writing to the same files. */
static int refuse(const struct ts_cmd *cmd, int argc, char **argv)
{
    char all[128] = "";
    if (is_together(cmd->name) ? tool_ranks() != NULL || tool_launch_mpi() <= 1
                               : tool_ranks() == NULL)
        return -1;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return -1;
    if (tool_ranks() == NULL)
        return refuse_strangers(cmd);
    for (size_t i = 0, at = 0; commands[i] != NULL && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s",
                               i == 0                    ? ""
                               : commands[i + 1] == NULL ? " and "
                                                         : ", ",
                               commands[i]);
    return tool_usage(
        cmd,
        "started as %u processes by a launcher of MPI, and one is enough: of %s several compute "
        "%s alone",
        tool_ranks_count(), cmd->program, all);
}

/* Open MPI tries all networks before it uses shared memory among the ranks of a machine, which
 * takes a fifth of a second of each run. If all ranks are on this machine, selects shared memory,
 * unless the environment chooses. MPICH ignores this. */
static void stay_here(void)
{
    const char *all = getenv("OMPI_COMM_WORLD_SIZE"), *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (all != NULL && here != NULL && strcmp(all, here) == 0 && getenv("OMPI_MCA_btl") == NULL)
        (void)setenv("OMPI_MCA_pml", "ob1", 0);
}

int tool_mpi_main(const char *name, const char *const *together, int argc, char **argv,
                  int (*run)(int argc, char **argv))
{
    char plain[sizeof((struct ts_err *)0)->text];
    struct ts_err err;
    stay_here();
    if (ts_comm_mpi_open(name, &argc, &argv, &comm, &err) < 0) {
        fprintf(stderr, "%s: %s\n", name, tool_plain(err.text, plain, sizeof plain));
        return 1;
    }
    tool_ranks_set(comm, ts_comm_mpi_beside(comm));
    commands = together;
    tool_before_command(refuse);
    tool_before_end(leave);
    return run(argc, argv);
}
