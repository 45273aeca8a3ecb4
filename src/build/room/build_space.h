/* SPDX-License-Identifier: BSD-3-Clause */
/* build_space.h - what a build takes of disk and memory: one estimate for every source, and for the
 * plan of a build.
 *
 * Bounds, not a guess. At least: records that do not fit an area go through files, at 8 bytes a
 * word; packed blocks have headers; and a copy holds the cells without loss, so it has no fewer
 * bits than they have information, where the law of the cells is known (the generator). At most:
 * every index of a block at its full width.
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

/* Bounds are added and multiplied in float64, where a high bound that is not known is infinite. */
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
    uint64_t beside_bytes; /* ts_build_memory_share_beside */
    char separator;        /* of the columns of a table; ' ' or 0: blanks */
    struct ts_space read;  /* nonzeros that are read, without zeros, for all ranks */
    uint64_t own_low; /* with several ranks: lower bound of the nonzeros that this rank reads */
    /* lower bound of the bytes of this rank's files that are written already */
    uint64_t runs_bytes;
    struct ts_space nnz;               /* cells of the tensor */
    struct ts_space dim[TS_MAX_ORDER]; /* the largest index plus 1 */
    /* packed bytes, if better bounds are known; 0, 0: not known */
    struct ts_space copy[TS_MAX_ORDER];
    uint32_t value_bits; /* most bits of a packed value with its weight */
    double cell_bits;    /* lower bound of the information in cells and values; 0: not known */
    /* upper bound of the bytes of labels, and of names that are being collected */
    uint64_t names_bytes;
};

/* Computes the bounds. With several ranks, lower bounds of memory and temporary files are those of
 * this rank. */
void ts_build_space_estimate(const struct ts_build_space_in *in, struct ts_need *ret);

/* Fills in what is known about draws: the number of cells that they fall on, and the information in
 * these. */
void ts_build_space_of_synth(const struct ts_synth *s, struct ts_build_space_in *in);

/* Lines of text files: of plain ones from some pieces of each; of packed ones at least those
 * of the start or, where no line is left out, as many as the start has in as many bytes as are
 * packed, or as gzip says; 0 to UINT64_MAX of a pipe. Lines
 * with a 0 may be zeros that are left out, so they count for the upper bound alone; so do those
 * with a number too near to 0 for the type that is stored, and with something missing, where these
 * lines are left out. unpack_bytes: memory for unpacking. */
void ts_build_space_of_text(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                            struct ts_build_space_in *in);

/* Nonzeros by the headers of binary files; without --zeros keep, those of the values that are
 * looked at, some of each plain file. */
void ts_build_space_of_binary(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                              struct ts_build_space_in *in);

/* What is picked of a tensor: at most what lies in shards with a picked row, and at least what lies
 * in shards whose rows all are picked, in each mode. */
void ts_build_space_of_tensor(const struct ts_tensor *t, const struct ts_pick *pick,
                              struct ts_build_space_in *in);

#endif
