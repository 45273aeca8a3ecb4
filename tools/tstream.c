/* tstream.c - the command table of tstream. */
#include "tools/tstream.h"

#include <stddef.h>

#include "tools/tool.h"

int main(int argc, char **argv)
{
    static const struct ts_cmd *const cmds[] = { &tstream_cp, &tstream_top, &tstream_mttkrp,
                                                &tstream_devices, &tstream_bench, NULL };
    return tool_main("tstream", "decomposes sparse tensors that do not fit into memory", cmds, argc,
                     argv);
}
