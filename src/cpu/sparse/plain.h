/* SPDX-License-Identifier: BSD-3-Clause */
/* plain.h - blocks kept in memory with their indices as whole bytes.
 *
 * Decoding a packed block takes about as long as the products of its nonzeros at rank 16. Where
 * memory is left, a partition is decoded in the second pass over its mode and kept *plain*: indices
 * of 1, 2 or 4 bytes, whichever its mode's rows need, and values as small as they are exact. Such a
 * block expands to what the decoder gives, bit for bit, in a tenth of the time, and takes two to
 * three times the bytes of a packed one. The packed bytes stay where they are: plain ones come on
 * top.
 *
 *   owner    the store owns the blocks, until it is freed
 *   units    bytes; partitions are counted over a mode copy, as in struct ts_shard_view
 *   threads  any thread gets and adds; no two add the same partition at the same time
 *   errors   0 or TS_ENOMEM; ts_plain_add gives NULL where no room is left
 */
#ifndef TS_CPU_PLAIN_H
#define TS_CPU_PLAIN_H

#include <stdint.h>

#include "format/blocks/unpack.h"
#include "format/tensor.h"
#include "stream/feed/feed.h"

/* How values are kept. */
enum ts_plain_value {
    TS_PLAIN_CONST, /* not stored: all are value_base */
    TS_PLAIN_U8,    /* a byte to add to value_base; float32 holds all values exactly */
    TS_PLAIN_U16,
    TS_PLAIN_F32,
    TS_PLAIN_F64,
};

/* The layout that all plain blocks of a mode share. */
struct ts_plain_conf {
    uint32_t order;
    uint32_t index_bytes[TS_MAX_ORDER]; /* bytes of an index at each level; [0] is for a fibre: 1 */
    enum ts_plain_value value;
    double value_base;
    int weights;   /* of nonzeros, as float32 */
    int as_double; /* as in struct ts_unpack_conf */
};

/* A plain block begins with this head. Then these arrays follow, none of them aligned: the
 * positions where rows start, a byte each; for each level from 1 the indices, of all fibres where
 * the block is shared and the level is above the leaf, otherwise of all nonzeros; where it is
 * shared, the fibre of each nonzero, a byte each; the values; the weights. */
struct ts_plain_head {
    uint32_t row;
    uint8_t last;       /* nonzeros - 1 */
    uint8_t n_starts;   /* rows that start inside */
    uint8_t last_fibre; /* fibres - 1, when shared */
    uint8_t shared;
};

struct ts_plain;

/* Most bytes that the plain blocks of a tensor take, of one mode or (-1) of all; and those of
 * partitions begin .. end - 1 of a mode. */
uint64_t ts_plain_bytes(const struct ts_tensor *t, int only_mode);
uint64_t ts_plain_bytes_of(const struct ts_tensor *t, uint32_t mode, uint64_t begin, uint64_t end);

/* A store of at most `bytes`. */
int ts_plain_new(const struct ts_tensor *t, uint64_t bytes, struct ts_plain **ret,
                 struct ts_err *err);
void ts_plain_free(struct ts_plain *p); /* NULL is fine */

/* Bytes of a store itself, without blocks. */
uint64_t ts_plain_own_bytes(const struct ts_tensor *t);

void ts_plain_conf(const struct ts_tensor *t, uint32_t mode, int as_double,
                   struct ts_plain_conf *ret);

/* The plain blocks of a partition, or NULL. */
const void *ts_plain_get(const struct ts_plain *p, uint32_t mode, uint64_t partition);

/* Where the next block begins. */
const void *ts_plain_next(const struct ts_plain_conf *c, const void *plain);

/* Decodes partition k of a shard, which is `partition` of its mode, and keeps it. buffer: memory of
 * the caller. NULL: no room is left. */
const void *ts_plain_add(struct ts_plain *p, uint32_t mode, uint64_t partition,
                         const struct ts_disk_shard *entry, const void *raw, uint32_t k,
                         ts_unpack_fn *unpack, struct ts_unpacked *buffer);

/* A pass over the mode begins. Returns whether it keeps what it decodes: the first one does not,
 * since with only one pass that would cost more than it saves. p NULL: no pass does. */
int ts_plain_keeps(struct ts_plain *p, uint32_t mode);

/* The plain blocks of partition k of a shard, decoded and kept now where `keep` says so; or NULL. p
 * NULL: there are none. */
const void *ts_plain_of(struct ts_plain *p, int keep, const struct ts_shard_view *view, uint32_t k,
                        ts_unpack_fn *unpack, struct ts_unpacked *buffer);

#endif
