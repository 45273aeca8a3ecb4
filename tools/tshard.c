/* tshard.c - the command table of tshard. */
#include "tools/tshard.h"

#include <malloc.h>
#include <stddef.h>

#include "tools/tool.h"

int main(int argc, char **argv)
{
    static const struct ts_cmd *const cmds[] = { &tshard_build_cmd,  &tshard_info_cmd,
                                                 &tshard_verify_cmd, &tshard_export_cmd,
                                                 &tshard_gen_cmd,    NULL };
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 2); /* an arena a thread reserves 64 MiB of addresses: limits count those */
#endif
    return tool_main("tshard", "packs sparse tensors into shards", cmds, argc, argv);
}
