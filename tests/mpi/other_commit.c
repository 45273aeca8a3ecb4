/* SPDX-License-Identifier: BSD-3-Clause */
/* other_commit.c - what makes a program one of another commit, for check_mpi.sh: linked with
 * --wrap=tool_commit, it tells this one wherever its own is asked for. */
#include "tools/common/tool_version.h"

const char *__wrap_tool_commit(void);

const char *__wrap_tool_commit(void)
{
    return "of another day";
}
