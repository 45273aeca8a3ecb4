/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_sample.h - how fast this machine decomposes a tensor, measured in a few seconds on some
 * of its shards.
 *
 * The sample is the tensor with all of its rows but fewer shards, spread evenly over each mode.
 * Real sweeps run over it, through backend and feed as in tstream cp: with factor matrices of full
 * size, so that rows are as far away as in the run, and with the same share of shards in memory, so
 * that the others come from disk beside the computation. What a product takes is in proportion to
 * nonzeros; solving for rows takes what it takes.
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
    uint64_t nnz[TS_MAX_ORDER]; /* of each mode: in its shards */
    int whole;                  /* all shards of all modes */
    struct ts_tensor *array; /* of a dense tensor: an array of fewer slices of the mode whose index
                                 * changes most slowly, as `tensor` is; or NULL */
};

/* At most `bytes` of shards, but two of each mode at least. */
int tstream_sample_new(const struct ts_tensor *t, uint64_t bytes, struct tstream_sample *ret,
                       struct ts_err *err);
void tstream_sample_free(struct tstream_sample *s);

/* Of the whole tensor, mode by mode. */
struct tstream_pace {
    double product_s[TS_MAX_ORDER]; /* of a later sweep: the MTTKRP, waiting for shards included */
    double rows_s[TS_MAX_ORDER];    /* all else: inverse, rows, Gram matrix, scaling */
    double again_s; /* a pass over the last mode that the sweep is judged by; 0: there is none */
    double first_s; /* a first sweep, which reads and checks what stays */
    double sweep_s; /* a later one */
    double link_bytes_per_s; /* host to device, one of them; 0: nothing was sent */
    uint32_t n_sweeps;       /* that were measured, without the first */
};

/* Sweeps over the sample for `seconds`, two at least. `conf` is that of the run. */
int tstream_sample_pace(const struct ts_engine_conf *conf, const struct tstream_sample *s,
                        const struct ts_tensor *whole, double resident_share, uint64_t seed,
                        uint32_t inner, double seconds, struct tstream_pace *ret,
                        struct ts_err *err);

/* Bytes a second of the disk that the tensor lies on: shards read as the feed reads them, nobody
 * looking at the bytes, for half a second at most. */
int tstream_sample_disk(const struct tstream_sample *s, double *ret, struct ts_err *err);

#endif
