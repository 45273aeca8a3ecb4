/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_ranks.h - the ranks that this process is one of: tshard-mpi or tstream-mpi under a launcher
 * of MPI. Rank 0 speaks and writes; the others compute, and what they print is dropped.
 *
 *   owner    main sets and closes the comm
 *   threads  one
 *   errors   those of the comm (stream/comm.h)
 */
#ifndef TS_TOOLS_TOOL_RANKS_H
#define TS_TOOLS_TOOL_RANKS_H

#include "api/tools.h"

/* From now on this process is a rank; `beside` of them share its machine. */
void tool_ranks_set(struct ts_comm *comm, uint32_t beside);

/* NULL: there are no others. */
struct ts_comm *tool_ranks(void);
uint32_t tool_ranks_count(void); /* 1 where there are no others */
int tool_ranks_speaks(void);     /* this is rank 0, or there are no others */
const volatile sig_atomic_t *
tool_ranks_stop(void); /* for code between passes, where ranks must not part ways */

/* The run has stopped: waits a moment for the signal that this rank is to get, too. */
void tool_ranks_stopped(void);

/* What a step ended with, the same on all ranks. */
int tool_ranks_agree(int rc, struct ts_err *err);

/* What a step ended with, as above; where all is well all get rank 0's n bytes. */
int tool_ranks_tell(int rc, void *bytes, uint64_t n, struct ts_err *err);

/* Sets *number to the least number of all ranks. */
int tool_ranks_least(int rc, uint32_t *number, struct ts_err *err);

/* All ranks have the same text, or TS_EARG; what: "options", say. */
int tool_ranks_same(const char *what, const char *text, struct ts_err *err);

#endif
