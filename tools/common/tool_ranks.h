/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_ranks.h - the ranks of a run of tshard-mpi or tstream-mpi under an MPI launcher. Rank 0
 * prints and writes files. The others only compute; their output is dropped.
 *
 *   owner    main sets and closes the communicator
 *   threads  one
 *   errors   those of the communicator (stream/comm.h)
 */
#ifndef TS_TOOLS_TOOL_RANKS_H
#define TS_TOOLS_TOOL_RANKS_H

#include "api/tools.h"

/* Makes this process a rank of comm. `beside`: number of ranks on its machine. */
void tool_ranks_set(struct ts_comm *comm, uint32_t beside);

/* Returns the communicator; NULL if this is the only process. */
struct ts_comm *tool_ranks(void);
uint32_t tool_ranks_count(void); /* number of ranks; 1 for a single process */
int tool_ranks_speaks(void);     /* whether this is rank 0, or the only process */
/* Returns the flag that a command checks between passes over the tensor in order to stop. With
 * several ranks it is always 0: no rank may stop there alone, since others would wait for it. */
const volatile sig_atomic_t *tool_ranks_stop(void);

/* Waits, after another rank was stopped by a signal, until the signal reaches this rank, at most
 * two seconds. */
void tool_ranks_stopped(void);

/* Makes all ranks return the same result after a step of the work: a failure if rc is a failure on
 * any rank. */
int tool_ranks_agree(int rc, struct ts_err *err);

/* Like tool_ranks_agree. If no rank failed, copies the n bytes at `bytes` from rank 0 to all
 * ranks. */
int tool_ranks_tell(int rc, void *bytes, uint64_t n, struct ts_err *err);

/* Like tool_ranks_agree. If no rank failed, sets *number on all ranks to the smallest *number of
 * any rank. */
int tool_ranks_least(int rc, uint32_t *number, struct ts_err *err);

/* Returns 0 if all ranks have the same text, else TS_EARG. what: name of the text in messages,
 * such as "options". */
int tool_ranks_same(const char *what, const char *text, struct ts_err *err);

#endif
