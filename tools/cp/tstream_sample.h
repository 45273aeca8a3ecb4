/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_sample.h - measures in a few seconds, on some of its shards, how fast this machine
 * decomposes a tensor.
 *
 * The sample is the tensor with all of its rows but fewer shards, spread evenly over each mode.
 * Real sweeps run over it, through backend and feed as in tstream cp: with factor matrices of full
 * size, so that memory accesses are those of the run, and with the same fraction of shards in
 * memory, so that the others are read from disk during computation. The time of a product is
 * scaled in proportion to nonzeros; the time of solving for rows is not scaled.
 *
 *   owner    the sample borrows the tensor and owns its tables of shards
 *   units    seconds, bytes
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_TSTREAM_SAMPLE_H
#define TS_TOOLS_TSTREAM_SAMPLE_H

#include "api/tools.h"

struct tstream_sample {
    struct ts_tensor tensor;
    uint64_t nnz[TS_MAX_ORDER]; /* nonzeros of the sample's shards of each mode */
    int whole;                  /* 1: the sample has all shards of all modes */
    /* for a dense tensor: an array with fewer slices of the mode whose index changes most slowly;
     * or NULL */
    struct ts_tensor *array;
};

/* Makes a sample of at most `bytes` of shards, but at least two shards of each mode. */
int tstream_sample_new(const struct ts_tensor *t, uint64_t bytes, struct tstream_sample *ret,
                       struct ts_err *err);
void tstream_sample_free(struct tstream_sample *s);

/* Seconds of a sweep over the whole tensor, by mode. */
struct tstream_pace {
    double product_s[TS_MAX_ORDER]; /* MTTKRP of a later sweep, including waits for shards */
    /* other steps of the mode: inverse, rows, Gram matrix, scaling */
    double rows_s[TS_MAX_ORDER];
    double again_s;          /* a second pass over the last mode, for the fit; 0: none */
    double first_s;          /* first sweep, which also reads and checks resident shards */
    double sweep_s;          /* a sweep after the first */
    double link_bytes_per_s; /* rate of copies from host to one device; 0: there were none */
    uint32_t n_sweeps;       /* number of measured sweeps, without the first */
};

/* Measures sweeps over the sample for `seconds`, at least two. conf: configuration of the run. */
int tstream_sample_pace(const struct ts_engine_conf *conf, const struct tstream_sample *s,
                        const struct ts_tensor *whole, double resident_share, uint64_t seed,
                        uint32_t inner, double seconds, struct tstream_pace *ret,
                        struct ts_err *err);

/* Measures the read speed of the tensor's disk in bytes per second: reads shards like the feed,
 * without using the bytes, for at most half a second. */
int tstream_sample_disk(const struct tstream_sample *s, double *ret, struct ts_err *err);

#endif
