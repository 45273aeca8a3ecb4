/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_speed.h - measures the speed of an exchange, and checks the data that arrives.
 *
 *   owner    the object owns the exchange, a replica on each device and, during a run, a thread for
 *            each rank
 *   units    bytes, nanoseconds
 *   threads  one
 *   errors   0 or a negative ts_code; after a failed run only free is allowed
 */
#ifndef TS_GPU_EXCHANGE_SPEED_H
#define TS_GPU_EXCHANGE_SPEED_H

#include "gpu/exchange/exchange.h"

struct ts_exchange_speed;

/* Makes an exchange with replicas of most_bytes; stop: as for ts_exchange_new. */
int ts_exchange_speed_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                          uint64_t most_bytes, const volatile sig_atomic_t *stop,
                          struct ts_exchange_speed **ret, struct ts_err *err);
void ts_exchange_speed_free(struct ts_exchange_speed *s);

const struct ts_exchange *ts_exchange_speed_of(const struct ts_exchange_speed *s);

/* Sets *ns to the median time of a gather of `bytes` in total, from the start of all ranks until
 * every replica is complete. Each rank has one span. The spans have equal lengths; if `unequal` is
 * 1, that of rank r is r + 1 times as long as that of rank 0. Before the timing, one gather is
 * compared byte by byte. */
int ts_exchange_speed_run(struct ts_exchange_speed *s, uint64_t bytes, int unequal, uint64_t *ns,
                          struct ts_err *err);

#endif
