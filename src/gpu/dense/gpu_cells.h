/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_cells.h - a dense tensor in the GPU backend: memory, and passes by the kernels of
 * cells_kernel.h.
 *
 * A member is a device. It has the rows of some shares (cells_shape.h). As many chunks as fit stay
 * on the device, from the first of its rows on; the others pass through slots (buffers) in each
 * pass over the cells. W (the cells times the outer factors) is always kept. If all cells stay, Y
 * (the cells times the inner factors) is kept for as many rows as fit; otherwise for all rows or
 * none. While the factors that Y and W were computed from do not change, further modes need no
 * cells of these rows. Without --gpu-memory, Y may take so much that all memory besides the cells
 * is below 1 GiB plus twice the factors, but it may always take a sixteenth of the cells: at high
 * ranks a full Y would be almost as large as the cells, and it only saves time.
 *
 * For a model of observed cells a pass computes two products. One is that of the values. The other
 * one is that of zeros and ones (which cells are known) with products of two columns: `pairs` has
 * its own tables and W, keeps no Y, and computes one group of columns at a time. Both products use
 * a chunk while it is on the device.
 *
 *   gpu_cells_memory.c   sizes, the memory of a member, and which chunks and Y stay
 *   gpu_cells_walk.c     sends slabs from the feed to the members, and computes on each chunk
 *   gpu_cells.c          the pass over a mode: products that have to be computed, and the exchange
 *                        between members
 *   gpu_cells_unknown.c  models of observed cells: memory, rows, and the errors at all cells
 *
 *   owner    ts_gpu owns the object; a member's memory is part of the member's allocation
 *   units    bytes; rows of the array
 *   threads  the thread of member 0 takes slabs and enqueues for all members; then each member's
 *            thread continues alone. Versions of factors change between jobs (functions that all
 *            members run)
 */
#ifndef TS_GPU_GPU_CELLS_H
#define TS_GPU_GPU_CELLS_H

#include "gpu/dense/cells_shape.h"
#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_types.h"

struct ts_slab_view;

enum {
    TS_GPU_CELLS_HOLD = TS_GPU_LENT
}; /* slabs whose copies to devices may be under way: as many as the feed lends at a time */

/* The versions of the factors that Y or W (cells times factors) was computed from. there: 1 if Y or
 * W exists. */
struct ts_gpu_cells_made {
    int there;
    uint64_t version[TS_MAX_ORDER];
};

struct ts_gpu_cells_member {
    uint64_t row, end; /* the member's rows of the array */
    uint64_t kept_end; /* rows before this one stay on the device */
    /* for rows before this one Y (cells times inner factors) is kept: whole chunks, or all rows */
    uint64_t y_end;
    int here;          /* 1: the rows up to kept_end are on the device already */
    double *b, *u, *v; /* tables of products of factor rows, ld elements a row */
    /* w: W (cells times outer factors). share_sum: what one share (group of chunks) adds to W, in
     * the memory of b; with several members (GPUs) what every share adds */
    double *w, *share_sum;
    double *acc; /* sums of the shares (groups of chunks) for the MTTKRP of a mode */
    /* Y (cells times inner factors), its partial sums and the sums of steps; or W (cells times
     * outer factors) of ranges of rows */
    double *scratch;
    double *all_y; /* in the memory for kept data: Y of the member's rows up to y_end */
    char *kept;    /* in the memory for kept data: the cells of rows up to kept_end */
    /* the members below are for models of observed cells */
    void *marked; /* copy of a chunk, in which held-out cells are NaN */
    /* only in the object `pairs`: products of column pairs of each factor, ld elements a row */
    double *pair[TS_MAX_ORDER];
    /* Gram matrix and right side of each row of the longest mode, in the layout of
     * observed_kernel.h */
    double *part;
    uint32_t *part_row; /* number of the row that each part belongs to */
    double *errors;     /* TS_CELLS_ERRORS sums for each unit (block of cells) */
};

struct ts_gpu_cells {
    struct ts_cells_shape shape;
    struct ts_gpu_cells_member member[TS_MAX_DEVICES];
    uint32_t threads;    /* threads of the host that copy cells */
    unsigned char *keep; /* for each slab, 1 if it stays on a device */
    uint64_t asked;      /* budget of a device in bytes; 0: none was given */
    /* the most rows of a member (GPU) whose Y (cells times inner factors) is kept */
    uint64_t y_kept;
    uint64_t most_rows;    /* the most rows of a member (GPU) */
    uint64_t acc_elements; /* elements of acc for the mode that needs most */
    /* the most rows of Y that scratch has room for, with their partial sums: at least a whole
     * step */
    uint64_t y_rows;
    uint64_t part_elements;  /* elements for the sums of steps (ranges of rows) in scratch */
    uint64_t piece_elements; /* elements for W of ranges of rows, in the same scratch memory */
    /* page-locked buffers for cells converted to the device's type; NULL: cells are sent
     * unconverted */
    void *stage[TS_GPU_CELLS_HOLD];
    uint64_t stage_bytes;
    uint64_t version[TS_MAX_ORDER];
    struct ts_gpu_cells_made y_made, w_made;
    /* the members below are for models of observed cells */
    /* the struct for products of pairs of columns of each factor; or NULL */
    struct ts_gpu_cells *pairs;
    uint32_t n_groups; /* in `pairs`: number of groups of columns, shape.rank each */
    double mean;       /* the mean that the pass subtracts from values */
    /* cells that the pass holds out; y_made and w_made refer to this mean and these cells */
    struct ts_hold_out hold_out;
    struct ts_cells_cut unit; /* division of the rows into units (blocks of cells), for errors */
    uint64_t unit_cols;       /* columns of a unit (block of cells) */
    uint64_t chunk_units;     /* number of units beside each other in the columns of a chunk */
    uint64_t unit_parts;      /* number of units beside each other in all columns of a step */
};

/* ---- defined in gpu_cells_memory.c */
int ts_gpu_cells_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_cells_free(struct ts_gpu *g);
/* Assigns parts of a member's memory, from base + *used on, and advances *used. base NULL: only
 * advances *used. */
void ts_gpu_cells_lay_out(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                          uint64_t *used);
/* Plans which cells and which rows of Y (cells times inner factors) stay on devices with `left`
 * bytes on each, and sets store_bytes. */
void ts_gpu_cells_plan(struct ts_gpu *g, uint64_t left);
void ts_gpu_cells_store(struct ts_gpu *g, struct ts_gpu_member *me);
uint64_t ts_gpu_cells_chunk_bytes(const struct ts_gpu *g); /* bytes of a chunk on a device */
/* bytes of Y (cells times inner factors) that a device keeps */
uint64_t ts_gpu_cells_y_bytes(const struct ts_gpu *g);
/* the fraction of the rows whose Y is kept */
double ts_gpu_cells_y_part(const struct ts_gpu *g);
uint64_t ts_gpu_cells_host_bytes(const struct ts_backend_conf *conf);
/* Whether cells are sent from the feed's memory, without conversion. */
int ts_gpu_cells_direct(const struct ts_dense *d);
/* Returns the number of steps that are gathered at once for a target (a mode whose MTTKRP is
 * computed). */
uint64_t ts_gpu_cells_steps(const struct ts_gpu_cells *c, const struct ts_cells_target *t);

/* Computes from c->shape the sizes of a member's work memory. */
void ts_gpu_cells_choose(struct ts_gpu_cells *c);
/* Assigns the memory of the tables of c (columns, or pairs of columns), as ts_gpu_cells_lay_out
 * does for all tables. */
void ts_gpu_cells_take(const struct ts_gpu *g, struct ts_gpu_cells *c, struct ts_gpu_member *me,
                       char *base, uint64_t *used);

/* ---- defined in gpu_cells_walk.c */
/* Rows of the array, or a part of their columns, that are on a device. */
struct ts_gpu_cells_block {
    const void *cell;
    uint64_t row, n_rows, col, n_cols, pitch;
};

/* A product that a pass computes: of the cells' values, or of ones for known cells. */
struct ts_gpu_cells_work {
    /* the object whose tables are used: tables of columns, or of pairs of columns */
    struct ts_gpu_cells *cells;
    struct ts_cells_as as;
    /* 1: the rows whose Y (cells times inner factors) is kept and valid are already added to the
     * MTTKRP's sums, so only cells of other rows are computed on */
    int rest;
    /* for each member (GPU), the target (the mode whose MTTKRP is computed) with its factors */
    struct ts_cells_target target[TS_MAX_DEVICES];
};

struct ts_gpu_cells_job { /* a pass over cells */
    struct ts_gpu *g;
    struct ts_feed *feed;
    struct ts_gpu_pass *pass[TS_MAX_DEVICES]; /* the pass of each member (GPU) */
    /* Enqueues the computation for a block of a member (GPU). Blocks come in the order of its
     * rows. */
    ts_gpu_error (*compute)(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                            const struct ts_gpu_cells_block *block);
    struct ts_gpu_cells_work work[2];
    uint32_t n_works;
    /* 1: of the rows whose cells stay on a device, those whose Y (cells times inner factors) is
     * kept are not computed on */
    int rest;
};

int ts_gpu_cells_walk(struct ts_gpu_cells_job *j, struct ts_err *err);

/* ---- defined in gpu_cells.c */
/* Notes that factor[mode] has changed, so products that were computed from it are not valid any
 * more. */
void ts_gpu_cells_changed(struct ts_gpu *g, uint32_t mode);
/* Sets the held-out cells and the mean of a pass. To be called before the members' passes. */
void ts_gpu_cells_begin(struct ts_gpu *g, const struct ts_gpu_request *ask);
/* Computes the products of a pass in `acc` of work[k].cells, where every member (GPU) then has all
 * of them. Called by all members; the targets of `work` may be unset. */
int ts_gpu_cells_multiply(struct ts_gpu_pass *p, struct ts_gpu_pass *all,
                          const struct ts_gpu_cells_work *work, uint32_t n, struct ts_err *err);
struct ts_cells_target ts_gpu_cells_target(const struct ts_gpu_pass *p,
                                           const struct ts_gpu_cells *c);
/* Computes a table of products of factor rows, for modes first .. end - 1 of the layout. */
ts_gpu_error ts_gpu_cells_table(const struct ts_gpu_pass *p, const struct ts_gpu_cells *c,
                                uint32_t first, uint32_t end, double *out);
/* Makes a pass over the cells: the thread of member 0 enqueues for all members (GPUs), the others
 * wait. */
int ts_gpu_cells_enqueue(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_gpu_cells_job *j,
                         struct ts_err *err);
/* Returns columns col .. col + n - 1 of rows row .. end - 1 of a block. */
struct ts_cells_x ts_gpu_cells_part_of(const struct ts_cells_shape *s,
                                       const struct ts_gpu_cells_block *b, uint64_t row,
                                       uint64_t end, uint64_t col, uint64_t n);
/* Computes the whole product of a pass, and stores it at args.out of each member (GPU). Called by
 * all members. */
int ts_gpu_cells_run(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);

/* ---- defined in gpu_cells_unknown.c */
int ts_gpu_cells_pairs_new(struct ts_gpu *g, struct ts_err *err);
void ts_gpu_cells_pairs_take(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                             uint64_t *used);
/* Compute the rows of a mode from observed cells (complete), or the sums of errors in the members'
 * memory (judge). */
int ts_gpu_cells_complete(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);
int ts_gpu_cells_judge(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);
/* Adds up the errors of all units (blocks of cells) after ts_gpu_cells_judge. */
int ts_gpu_cells_add_errors(struct ts_gpu *g, struct ts_error_sums *sums, struct ts_err *err);
/* Whether cells may be held out: memory for the copy of a chunk is allocated. */
static inline int ts_gpu_cells_may_mark(const struct ts_gpu *g)
{
    return g->observes || g->holds_out;
}
/* Copies the cells of x to m->marked with held-out cells as NaN, and makes x refer to the copy. */
ts_gpu_error ts_gpu_cells_mark(const struct ts_gpu *g, struct ts_gpu_member *me,
                               struct ts_cells_x *x);
struct ts_cells_places ts_gpu_cells_places(const struct ts_gpu *g);
ts_gpu_error ts_gpu_cells_pairs_warm(struct ts_gpu *g, struct ts_gpu_member *me);

#endif
