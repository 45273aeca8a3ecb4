/* SPDX-License-Identifier: BSD-3-Clause */
/* build_space.h - bounds the disk space and memory of a build: one estimate for all sources, and
 * for the plan of a build.
 *
 * The results are bounds, not guesses. Lower bounds: records that do not fit in an area go through
 * files, at 8 bytes a word; packed blocks have headers. If the distribution of the cells is known
 * (the generator), a copy has at least the bits of their entropy, as it is lossless. Upper bound:
 * every index of a block has its full width.
 *
 *   units    bytes, nonzeros; a high bound of UINT64_MAX: not known
 *   threads  pure
 *   errors   none
 */
#ifndef TS_BUILD_BUILD_SPACE_H
#define TS_BUILD_BUILD_SPACE_H

#include <math.h>
#include <stdint.h>

#include "build/build.h"
#include "build/room/room.h"
#include "format/tensor.h"
#include "source/tensor_source.h"

/* Bounds are computed in float64, where an unknown upper bound is infinite. These convert from and
 * to bytes. */
static inline uint64_t ts_space_bytes(double x)
{
    return x < 9e18 ? (uint64_t)x : UINT64_MAX;
}

static inline double ts_space_number(uint64_t x)
{
    return x == UINT64_MAX ? INFINITY : (double)x;
}

struct ts_build_space_in {
    const struct ts_build_options *o;
    uint32_t order;
    uint64_t beside_bytes; /* as in ts_build_memory_share_beside */
    char separator;        /* separator of a table's columns; ' ' or 0: blanks */
    /* number of nonzeros that are read, without dropped zeros, over all ranks */
    struct ts_space read;
    uint64_t own_low; /* with several ranks: lower bound of the nonzeros that this rank reads */
    /* lower bound of the bytes of this rank's files that are written already */
    uint64_t runs_bytes;
    struct ts_space nnz;               /* number of cells of the tensor */
    struct ts_space dim[TS_MAX_ORDER]; /* size of each mode: the largest index + 1 */
    /* bytes of each mode's copy, if better bounds are known; 0, 0: not known */
    struct ts_space copy[TS_MAX_ORDER];
    uint32_t value_bits; /* most bits of a packed value with its weight */
    double cell_bits;    /* lower bound of the information in cells and values; 0: not known */
    /* upper bound of the bytes of labels, and of names that are being collected */
    uint64_t names_bytes;
};

/* Computes the bounds. With several ranks, lower bounds of memory and temporary files are for this
 * rank alone. */
void ts_build_space_estimate(const struct ts_build_space_in *in, struct ts_need *ret);

/* Sets what is known about draws of the generator: the number of cells that they fall on, and the
 * entropy of these cells. */
void ts_build_space_of_synth(const struct ts_synth *s, struct ts_build_space_in *in);

/* Sets bounds of the number of nonzeros in text files. Lines of plain files are counted in some
 * pieces of each. For a packed file only a lower bound is known: the lines at its start or, if no
 * line is left out, an extrapolation to its size. A pipe is unknown: 0 to UINT64_MAX. Lines that
 * may be left out count only for the upper bound: zeros, numbers too near to 0 for the stored type,
 * missing fields. unpack_bytes: memory for unpacking. */
void ts_build_space_of_text(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                            struct ts_build_space_in *in);

/* Sets bounds of the number of nonzeros from the headers of binary files. Without --zeros keep,
 * zeros are estimated from some values of each plain file. */
void ts_build_space_of_binary(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                              struct ts_build_space_in *in);

/* Sets bounds of the number of picked nonzeros of a tensor. At most: all nonzeros in shards with a
 * picked row. At least: the nonzeros in shards whose rows are all picked. Both are computed for
 * each mode. */
void ts_build_space_of_tensor(const struct ts_tensor *t, const struct ts_pick *pick,
                              struct ts_build_space_in *in);

#endif
