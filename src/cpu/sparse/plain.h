/* SPDX-License-Identifier: BSD-3-Clause */
/* plain.h - decoded blocks that are kept in memory, with indices as whole bytes.
 *
 * Decoding a packed block takes about as long as the products of its nonzeros at rank 16. If memory
 * is left, the second pass over a mode decodes its partitions and keeps them *plain*: with indices
 * of 1, 2 or 4 bytes, as the number of rows requires, and values in the smallest type that holds
 * them exactly. A plain block expands to what the decoder gives, bit for bit, in a tenth of the
 * time. It takes two to three times the bytes of a packed one. Packed bytes stay in the feed's
 * memory, so this memory is additional.
 *
 *   owner    the store owns the blocks, until it is freed
 *   units    bytes; partitions are counted over a mode copy, as in struct ts_shard_view
 *   threads  any thread gets and adds; no two add the same partition at the same time
 *   errors   0 or TS_ENOMEM; ts_plain_add returns NULL if the store is full
 */
#ifndef TS_CPU_PLAIN_H
#define TS_CPU_PLAIN_H

#include <stdint.h>

#include "format/blocks/unpack.h"
#include "format/tensor.h"
#include "stream/feed/feed.h"

/* How the values of plain (decoded) blocks are stored. */
enum ts_plain_value {
    TS_PLAIN_CONST, /* values are not stored: all are value_base */
    TS_PLAIN_U8,    /* a byte that is added to value_base; all sums are exact in float32 */
    TS_PLAIN_U16,
    TS_PLAIN_F32,
    TS_PLAIN_F64,
};

/* The layout that all plain (decoded) blocks of a mode share. */
struct ts_plain_conf {
    uint32_t order;
    /* bytes of an index at each level; at [0], of the fibre number of a nonzero: 1 */
    uint32_t index_bytes[TS_MAX_ORDER];
    enum ts_plain_value value;
    double value_base;
    int weights;   /* 1: weights of nonzeros follow, as float32 */
    int as_double; /* 1: values expand to double (struct ts_unpack_conf) */
};

/* The head of a plain (decoded) block. A block is shared if its nonzeros share fibres, so that the
 * indices of a fibre are stored once. These arrays follow without alignment: positions at which
 * rows start, a byte each; for each level from 1 on the indices of all nonzeros or, if the block is
 * shared and the level is not the last one, of all fibres; if the block is shared, the fibre of
 * each nonzero, a byte each; values; weights. */
struct ts_plain_head {
    uint32_t row;
    uint8_t last;       /* number of nonzeros - 1 */
    uint8_t n_starts;   /* number of rows that start inside of the block */
    uint8_t last_fibre; /* number of fibres - 1, if the block is shared */
    uint8_t shared;
};

struct ts_plain;

/* ts_plain_bytes returns the most bytes that plain (decoded) blocks of one mode, or of all modes
 * (-1), can take. ts_plain_bytes_of returns the same for partitions begin .. end - 1 of a mode. */
uint64_t ts_plain_bytes(const struct ts_tensor *t, int only_mode);
uint64_t ts_plain_bytes_of(const struct ts_tensor *t, uint32_t mode, uint64_t begin, uint64_t end);

/* Makes a store for at most `bytes` of blocks. */
int ts_plain_new(const struct ts_tensor *t, uint64_t bytes, struct ts_plain **ret,
                 struct ts_err *err);
void ts_plain_free(struct ts_plain *p); /* p may be NULL */

/* Returns the bytes of the store without its blocks. */
uint64_t ts_plain_own_bytes(const struct ts_tensor *t);

void ts_plain_conf(const struct ts_tensor *t, uint32_t mode, int as_double,
                   struct ts_plain_conf *ret);

/* Returns the plain (decoded) blocks of a partition, or NULL if the store has none. */
const void *ts_plain_get(const struct ts_plain *p, uint32_t mode, uint64_t partition);

/* Returns the address of the plain (decoded) block after `plain`. */
const void *ts_plain_next(const struct ts_plain_conf *c, const void *plain);

/* Decodes partition k of a shard, which is number `partition` of its mode, and stores it. buffer:
 * memory of the caller for a block. Returns NULL if the store is full. */
const void *ts_plain_add(struct ts_plain *p, uint32_t mode, uint64_t partition,
                         const struct ts_disk_shard *entry, const void *raw, uint32_t k,
                         ts_unpack_fn *unpack, struct ts_unpacked *buffer);

/* To be called when a pass over the mode begins. Returns whether the pass keeps decoded blocks. The
 * first pass does not: if there is only one pass, keeping them costs more than it saves. p may be
 * NULL: returns 0. */
int ts_plain_keeps(struct ts_plain *p, uint32_t mode);

/* Returns the plain (decoded) blocks of partition k of a shard, or NULL. With `keep`, decodes and
 * stores them if they are not in the store. p may be NULL: returns NULL. */
const void *ts_plain_of(struct ts_plain *p, int keep, const struct ts_shard_view *view, uint32_t k,
                        ts_unpack_fn *unpack, struct ts_unpacked *buffer);

#endif
