/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_cells.h - what the GPU backend holds of a dense tensor (cells_kernel.h), and its passes.
 *
 * Each member has the rows of some shares (cells_shape.h). Chunks that fit stay with it, from its first one on; the
 * others come through slots in each pass over the cells. Y is kept of as many rows as there is room for, where all cells stay,
 * or of all or none; and W always is: while the factors that they were made of stay as they are, further modes need no cell of
 * these rows. Without a budget that says how much memory there may be, Y takes what leaves all that lies beside the cells
 * below 1 GiB and twice the factors, but a sixteenth of the cells in any case: at high ranks it would have a good part of their
 * size, and it saves nothing but time.
 *
 *   gpu_cells_memory.c  sizes, the memory of a member, what stays
 *   gpu_cells_walk.c    slabs from the feed to the members, and what is computed of each chunk
 *   gpu_cells.c         the pass over a mode: what has to be computed, and what members send each other
 *
 *   owner    ts_gpu owns it, and each member's memory is a part of what the member has
 *   units    bytes; rows of the array
 *   threads  member 0's thread walks and enqueues for all members; then each does its own. Versions change between jobs
 */
#ifndef TS_GPU_GPU_CELLS_H
#define TS_GPU_GPU_CELLS_H

#include "gpu/cells_shape.h"
#include "gpu/gpu_state.h"

struct ts_slab_view;

enum {
    TS_GPU_CELLS_HOLD = TS_GPU_LENT
}; /* slabs whose copies to devices may be under way: as many as the feed holds */

/* Of which factors a result was made. */
struct ts_gpu_cells_made {
    int there;
    uint64_t version[TS_MAX_ORDER];
};

struct ts_gpu_cells_member {
    uint64_t row, end;     /* its rows */
    uint64_t kept_end;     /* those before it stay */
    uint64_t y_end;        /* and Y of those before it; whole chunks, or all */
    int here;              /* and are there */
    double *b, *u, *v;     /* tables, ld elements a row */
    double *w, *share_sum; /* W; of one share, in the place of b, or of several members, of all */
    double *acc;           /* of a mode: sums of shares */
    double *scratch;       /* y, parts of y, part of a gather; or W of pieces */
    double *all_y;         /* in the store: Y of its rows up to y_end */
    char *kept;            /* in the store: cells that stay */
};

struct ts_gpu_cells {
    struct ts_cells_shape shape;
    struct ts_gpu_cells_member member[TS_MAX_DEVICES];
    uint32_t threads;        /* of the host, that copy cells */
    unsigned char *keep;     /* for each slab: it stays with a member */
    uint64_t asked;          /* bytes of a device: its budget; 0: none was given */
    uint64_t y_kept;         /* rows of a member, at most, whose Y is kept */
    uint64_t most_rows;      /* of a member */
    uint64_t acc_elements;   /* of the mode that has most */
    uint64_t y_rows;         /* of Y in scratch, at most, with their parts; but a whole step */
    uint64_t part_elements;  /* of gathers there */
    uint64_t piece_elements; /* of W of pieces; these take the place of both */
    void *stage
        [TS_GPU_CELLS_HOLD]; /* page-locked: cells as the device has them; NULL: they are sent as they are */
    uint64_t stage_bytes;
    uint64_t version[TS_MAX_ORDER];
    struct ts_gpu_cells_made y_made, w_made;
};

/* ---- gpu_cells_memory.c */
int ts_gpu_cells_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_cells_free(struct ts_gpu *g);
/* Divides a member's memory from base + *used on; base NULL: only counts. */
void ts_gpu_cells_lay_out(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                          uint64_t *used);
/* What stays, with `left` bytes on each device, and store_bytes. */
void ts_gpu_cells_plan(struct ts_gpu *g, uint64_t left);
void ts_gpu_cells_store(struct ts_gpu *g, struct ts_gpu_member *me);
uint64_t ts_gpu_cells_chunk_bytes(const struct ts_gpu *g); /* the place of a chunk */
uint64_t ts_gpu_cells_y_bytes(const struct ts_gpu *g);     /* of Y that is kept, on a device */
double ts_gpu_cells_y_part(const struct ts_gpu *g);        /* of its rows */
uint64_t ts_gpu_cells_host_bytes(const struct ts_backend_conf *conf);
/* Whether cells are sent from where the feed has them. */
int ts_gpu_cells_direct(const struct ts_dense *d);
/* Steps of a target that are gathered at a time. */
uint64_t ts_gpu_cells_steps(const struct ts_gpu_cells *c, const struct ts_cells_target *t);

/* ---- gpu_cells_walk.c */
/* Rows of the array that lie on a device. */
struct ts_gpu_cells_block {
    const void *cell;
    uint64_t row, n_rows, col, n_cols, pitch;
};

struct ts_gpu_cells_job { /* a pass over cells */
    struct ts_gpu *g;
    struct ts_feed *feed;
    struct ts_gpu_pass *pass[TS_MAX_DEVICES]; /* each member's */
    /* Enqueues what is computed of a block of a member. Blocks come in the order of its rows. */
    cudaError_t (*compute)(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                           const struct ts_gpu_cells_block *block);
    struct ts_cells_target target[TS_MAX_DEVICES]; /* of each member, whose factors it names */
    int rest; /* of cells that stay, those alone whose Y is not kept */
};

int ts_gpu_cells_walk(struct ts_gpu_cells_job *j, struct ts_err *err);

/* ---- gpu_cells.c */
/* factor[mode] is another one. */
void ts_gpu_cells_changed(struct ts_gpu *g, uint32_t mode);
/* The product of a member's pass, in its args.out, complete on every member. All members call it. */
int ts_gpu_cells_run(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);
cudaError_t ts_gpu_cells_warm(struct ts_gpu *g, struct ts_gpu_member *me);

#endif
