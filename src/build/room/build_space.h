/* SPDX-License-Identifier: BSD-3-Clause */
/* build_space.h - computes bounds of the disk space and memory of a build. All sources use the same
 * function, and so does the plan of a build.
 *
 * The results are bounds, not guesses. Lower bounds: records that do not fit in an area go through
 * files, with 8 bytes for each word, and packed blocks have headers. If the distribution of the
 * cells is known (the generator), a mode copy has at least as many bits as the entropy of the
 * cells, because it is lossless. Upper bound: each index in a block has its full width.
 *
 *   units    bytes, nonzeros; high UINT64_MAX: not known
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

/* Convert bounds to bytes and from bytes. Bounds are computed in float64, where an unknown upper
 * bound is infinite. */
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
    uint64_t beside_bytes; /* memory that reading needs besides text and batches */
    char separator;        /* separator of columns in a table; ' ' or 0: blanks */
    /* number of nonzeros that all ranks read, without dropped zeros */
    struct ts_space read;
    uint64_t own_low; /* with several ranks: lower bound of the nonzeros that this rank reads */
    /* lower bound of the bytes that this rank has written to temporary files */
    uint64_t runs_bytes;
    struct ts_space nnz;               /* number of cells of the tensor */
    struct ts_space dim[TS_MAX_ORDER]; /* size of each mode: the largest index + 1 */
    /* bounds of the bytes of each mode copy, if better ones are known; 0, 0: not known */
    struct ts_space copy[TS_MAX_ORDER];
    uint32_t value_bits; /* most bits of a packed value and its weight */
    /* lower bound of the information in cells and values, in bits; 0: not known */
    double cell_bits;
    /* upper bound of the bytes of labels, and of names on disk during the build */
    uint64_t names_bytes;
};

/* Computes the bounds. With several ranks, the lower bounds of memory and temporary files are those
 * of this rank alone. */
void ts_build_space_estimate(const struct ts_build_space_in *in, struct ts_need *ret);

/* Sets bounds for the generator: of the number of different cells that it draws, and of the entropy
 * of these cells. */
void ts_build_space_of_synth(const struct ts_synth *s, struct ts_build_space_in *in);

/* Sets bounds of the number of nonzeros in text files. In files that are not compressed, it counts
 * the lines of some pieces. For a compressed file only a lower bound is known: the lines at its
 * start or, if no line is left out, an extrapolation to its size. For a pipe the bounds are 0 and
 * UINT64_MAX. Lines that may be left out (zeros, numbers too near to 0 for the stored type, missing
 * fields) count only for the upper bound. unpack_bytes: memory for decompression. */
void ts_build_space_of_text(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                            struct ts_build_space_in *in);

/* Sets bounds of the number of nonzeros from the headers of binary files. Without --zeros keep, the
 * number of zeros is estimated from some values of each file that is not compressed. */
void ts_build_space_of_binary(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                              struct ts_build_space_in *in);

/* Sets bounds of the number of nonzeros of a tensor that `pick` selects. Upper bound: all nonzeros
 * in shards with a picked row. Lower bound: the nonzeros in shards whose rows are all picked. The
 * bounds of all modes are combined. */
void ts_build_space_of_tensor(const struct ts_tensor *t, const struct ts_pick *pick,
                              struct ts_build_space_in *in);

#endif
