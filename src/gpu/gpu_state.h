/* gpu_state.h - what the GPU backend holds, shared by its files.
 *
 *   owner    gpu_backend.c makes and frees it; gpu_pass.c works on the shards
 *   threads  one
 */
#ifndef TS_GPU_GPU_STATE_H
#define TS_GPU_GPU_STATE_H

#include <cuda_runtime.h>

#include "gpu/mttkrp_kernel.h"
#include "stream/backend.h"

enum {
    TS_GPU_SLOTS = 16,  /* shards under way when not all stay on the device */
    TS_GPU_STREAMS = 8, /* of kernels: a shard has too few partitions to fill a large GPU alone */
};

struct ts_gpu_slot {
    char *addr;
    cudaEvent_t used; /* the kernel that read it has ended */
};

/* The shards of a mode that stay on the device: the first n_kept of the mode copy. */
struct ts_gpu_kept {
    uint64_t n, bytes;
    uint64_t n_filled;          /* of them delivered so far */
    uint64_t nnz;               /* in all of them, once all are filled */
    char *memory;               /* NULL until the mode's first pass */
    uint64_t *offset;           /* n: of each in memory */
    unsigned char *filled;      /* n */
    unsigned char *keep;        /* a byte per shard of the mode, for struct ts_feed_deal */
    struct ts_gpu_shard *table; /* device; n entries, once all are filled */
    uint32_t n_partitions;
};

struct ts_gpu {
    const struct ts_tensor *tensor;
    int number; /* of the device */
    void (*done)(void *ctx, uint64_t nnz); /* as in struct ts_backend_conf */
    void *done_ctx;
    enum ts_precision precision;
    uint32_t rank, ld, element; /* element: bytes */
    uint64_t n_partitions[TS_MAX_ORDER];

    char *factor[TS_MAX_ORDER]; /* n_rows x ld */
    void *edge;                 /* largest mode */
    uint32_t *edge_row;
    double *dict;
    double *scratch, *gram, *inner; /* device */
    void *w;                        /* device, ld x ld of the precision */
    double *stage;                  /* device, stage_rows x rank */
    uint64_t stage_rows;
    void *host; /* page-locked: w, or gram and inner */

    struct ts_gpu_kept kept[TS_MAX_ORDER];
    char *slot_memory;
    uint64_t slot_bytes;
    uint32_t n_slots, next_slot;
    struct ts_gpu_slot slot[TS_GPU_SLOTS];

    cudaStream_t copy, compute[TS_GPU_STREAMS]; /* dense work runs on compute[0] */
    cudaEvent_t joined[TS_GPU_STREAMS], start;
};

/* Bytes that a shard takes on the device. */
static inline uint64_t ts_gpu_place(const struct ts_disk_shard *s)
{
    return ((uint64_t)s->raw_bytes + TS_SHARD_SLACK + 255) / 256 * 256;
}

/* factor[mode] := the MTTKRP; as struct ts_backend says. */
int ts_gpu_pass(struct ts_gpu *g, uint32_t mode, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err);

#endif
