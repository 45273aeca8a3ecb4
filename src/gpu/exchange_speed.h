/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_speed.h - how fast an exchange is, and whether it brings what it should.
 *
 *   owner    the object owns the exchange, a replica on each device and a thread for each rank of a
 *            run
 *   units    bytes, nanoseconds
 *   threads  one
 *   errors   0 or a negative ts_code; after a failed run only free is allowed
 */
#ifndef TS_GPU_EXCHANGE_SPEED_H
#define TS_GPU_EXCHANGE_SPEED_H

#include "gpu/exchange.h"

struct ts_exchange_speed;

/* Replicas have room for most_bytes; stop as in ts_exchange_new. */
int ts_exchange_speed_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                          uint64_t most_bytes, const volatile sig_atomic_t *stop,
                          struct ts_exchange_speed **ret, struct ts_err *err);
void ts_exchange_speed_free(struct ts_exchange_speed *s);

const struct ts_exchange *ts_exchange_speed_of(const struct ts_exchange_speed *s);

/* *ns: the median time of a gather of `bytes` in all, from when all ranks begin until every replica
 * is whole. Each rank has one span: of equal lengths, or, when `unequal`, rank r of r + 1 shares.
 * What arrives is compared first, byte by byte. */
int ts_exchange_speed_run(struct ts_exchange_speed *s, uint64_t bytes, int unequal, uint64_t *ns,
                          struct ts_err *err);

#endif
