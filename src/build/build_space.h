/* SPDX-License-Identifier: BSD-3-Clause */
/* build_space.h - what a build takes of disk and memory: one estimate for every source, and for the
 * plan of a build.
 *
 * Bounds, not a guess. At least: records that do not fit an area go through files, at 8 bytes a
 * word; packed blocks have headers; and a copy holds the cells without loss, so it has no fewer bits
 * than they have information, where the law of the cells is known (the generator). At most: every
 * index of a block at its full width.
 *
 *   units    bytes, nonzeros; a high bound of UINT64_MAX: not known
 *   threads  pure
 *   errors   none
 */
#ifndef TS_BUILD_BUILD_SPACE_H
#define TS_BUILD_BUILD_SPACE_H

#include "build/build.h"

struct ts_space {
    uint64_t low, high;
};

struct ts_build_space_in {
    const struct ts_build_options *o;
    uint32_t order;
    uint64_t beside_bytes;              /* ts_build_memory_share_beside */
    struct ts_space read;               /* nonzeros that come in, zeros left out */
    uint64_t runs_bytes;                /* of sorted runs that are written already, at least */
    struct ts_space nnz;                /* cells of the tensor */
    struct ts_space dim[TS_MAX_ORDER];  /* the largest index and 1 */
    struct ts_space copy[TS_MAX_ORDER]; /* packed bytes, where they are known better; 0, 0: not */
    uint32_t value_bits;                /* of a packed value with its weight, at most */
    double cell_bits; /* at least so much information is in the cells and values; 0: not known */
    uint64_t names_bytes; /* of labels and of names on their way, at most */
};

struct ts_build_space {
    struct ts_space result, tmp; /* peaks: of the directory that is made, of temporary files */
    struct ts_space both;        /* peak of both together, on one disk */
    struct ts_space file;        /* largest file; high is not used */
    struct ts_space memory;      /* records alone; high is not used */
};

void ts_build_space_estimate(const struct ts_build_space_in *in, struct ts_build_space *ret);

/* What is known of draws: how many cells they fall on, and the information of these. */
void ts_build_space_of_synth(const struct ts_synth *s, struct ts_build_space_in *in);

/* Lines of plain text files, from some pieces of each; 0 to UINT64_MAX where one is packed or a
 * pipe. Lines without any number but 0 may be zeros that are left out, so they count for the upper
 * bound alone. */
void ts_build_space_of_text(const char *const paths[], uint32_t n_paths,
                            struct ts_build_space_in *in);

#endif
