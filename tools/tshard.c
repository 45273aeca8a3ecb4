/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard.c - the command table of tshard. */
#include "tools/tshard.h"

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#include "format/tensor.h"
#include "tools/tool.h"

static const char files[] =
    "NAME.tsh\n"
    "A tensor: a directory with an index and, for each mode, a copy of the nonzeros sorted for it. It "
    "holds no absolute path and can be moved.\n"
    "NAME.tsh.building\n"
    "The same while it is made; it also holds temporary files, unless --tmp names another place. One "
    "that a killed build left is cleared by the next build of that name.\n"
    "NAME.modeK.map, NAME.modeK.map.gz\n"
    "Names of the indices of mode K, one a line. They are taken where they lie beside the input.\n";

static const char environment[] =
    "TMPDIR\n"
    "Directory for temporary files of build and gen, where --tmp does not name one.\n"
    "OMP_STACKSIZE\n"
    "Stack of a thread, which counts as memory.\n"
    "TERM\n"
    "The line that tells how far a command is comes on a terminal that is not \"dumb\".\n";

int tshard_open(const char *operand, struct ts_tensor **ret, struct ts_err *err)
{
    char *path = tool_operand(operand, ".tsh");
    const int rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", operand)
                                : ts_tensor_open(path, ret, err);
    free(path);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct ts_cmd *const cmds[] = { &tshard_build_cmd,
                                                 &tshard_plan_cmd,
                                                 &tshard_info_cmd,
                                                 &tshard_verify_cmd,
                                                 &tshard_export_cmd,
                                                 &tshard_gen_cmd,
                                                 NULL };
    static const char *const other[] = { "cp",      "fit",    "status",  "top",   "report",
                                         "compare", "mttkrp", "devices", "bench", NULL };
    static const struct tool_program program = {
        .name = "tshard",
        .summary = "packs sparse tensors into shards",
        .cmds = cmds,
        .files = files,
        .environment = environment,
        .see_also = "tstream",
    };
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX,
            2); /* an arena a thread reserves 64 MiB of addresses: limits count those */
#endif
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* it would grow with what is freed, and then keep that */
#endif
    tool_sibling("tstream", other);
    return tool_main(&program, argc, argv);
}
