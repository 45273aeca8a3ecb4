/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_cells.h - what the GPU backend holds of a dense tensor (cells_kernel.h), and its passes.
 *
 * Each member has the rows of some shares (cells_shape.h). Chunks that fit stay with it, from
 * its first one on; the others come through slots in each pass over the cells. Y is kept of as
 * many rows as there is room for, where all cells stay, or of all or none; and W always is:
 * while the factors that they were made of stay as they are, further modes need no cell of these
 * rows. Without a budget that says how much memory there may be, Y takes what leaves all that
 * lies beside the cells below 1 GiB and twice the factors, but a sixteenth of the cells in any
 * case: at high ranks it would have a good part of their size, and it saves nothing but time.
 *
 * Of a model of observed cells a pass makes two products: of the values, and of zeros and ones
 * with pairs of columns (`pairs`, which has tables and W of its own, and keeps no Y), as many at
 * a time as make a group. Both are computed of a chunk while it is there.
 *
 *   gpu_cells_memory.c  sizes, the memory of a member, what stays
 *   gpu_cells_walk.c    slabs from the feed to the members, and what is computed of each chunk
 *   gpu_cells.c         the pass over a mode: what has to be computed, and what members send
 *                       each other
 *   gpu_cells_unknown.c models of observed cells: their memory, their rows, and the errors at
 *   all cells
 *
 *   owner    ts_gpu owns it, and each member's memory is a part of what the member has
 *   units    bytes; rows of the array
 *   threads  member 0's thread walks and enqueues for all members; then each does its own.
 *            Versions change between jobs
 * */
#ifndef TS_GPU_GPU_CELLS_H
#define TS_GPU_GPU_CELLS_H

#include "gpu/dense/cells_shape.h"
#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_types.h"

struct ts_slab_view;

enum {
    TS_GPU_CELLS_HOLD = TS_GPU_LENT
}; /* slabs whose copies to devices may be under way: as many as the feed holds */

/* The factors that a result was made from. */
struct ts_gpu_cells_made {
    int there;
    uint64_t version[TS_MAX_ORDER];
};

struct ts_gpu_cells_member {
    uint64_t row, end;     /* its rows */
    uint64_t kept_end;     /* rows before this one stay on the device */
    uint64_t y_end;        /* for rows before this one Y is kept, too; whole chunks, or all */
    int here;              /* these rows are on the device already */
    double *b, *u, *v;     /* tables, ld elements a row */
    double *w, *share_sum; /* W; of one share, in the place of b, or of several members, of all */
    double *acc;           /* sums of shares of a mode */
    double *scratch;       /* y, parts of y, part of a gather; or W of pieces */
    double *all_y;         /* in the store: Y of its rows up to y_end */
    char *kept;            /* in the store: cells that stay */
    /* for models of observed cells */
    void *marked;               /* a chunk, in which cells that are held out are NaN */
    double *pair[TS_MAX_ORDER]; /* in `pairs`: of each factor, ld elements a row */
    double *part; /* sums of each row of the longest mode, in the layout of observed_kernel.h */
    uint32_t *part_row; /* rows that these sums belong to */
    double *errors;     /* TS_CELLS_ERRORS of each unit */
};

struct ts_gpu_cells {
    struct ts_cells_shape shape;
    struct ts_gpu_cells_member member[TS_MAX_DEVICES];
    uint32_t threads;      /* threads of the host that copy cells */
    unsigned char *keep;   /* for each slab: it stays with a member */
    uint64_t asked;        /* bytes of a device: its budget; 0: none was given */
    uint64_t y_kept;       /* rows of a member, at most, whose Y is kept */
    uint64_t most_rows;    /* the most rows of a member */
    uint64_t acc_elements; /* elements of acc for the mode that needs most */
    /* the most rows of Y in scratch, with their parts, but at least a whole step */
    uint64_t y_rows;
    uint64_t part_elements;  /* elements of gathers there */
    uint64_t piece_elements; /* elements of W of pieces, which replace both */
    /* page-locked: cells as the device has them; NULL: they are sent as they are */
    void *stage[TS_GPU_CELLS_HOLD];
    uint64_t stage_bytes;
    uint64_t version[TS_MAX_ORDER];
    struct ts_gpu_cells_made y_made, w_made;
    /* for models of observed cells */
    struct ts_gpu_cells *pairs; /* tables of pairs of columns; or NULL */
    uint32_t n_groups;          /* in `pairs`: of columns, shape.rank each */
    double mean;                /* the mean that the pass subtracts from values */
    /* cells that the pass holds out; y_made and w_made refer to this mean and these cells */
    struct ts_hold_out hold_out;
    struct ts_cells_cut unit; /* division of the rows into units, for errors */
    uint64_t unit_cols;       /* columns of a unit */
    uint64_t chunk_units;     /* units in the columns of a chunk */
    uint64_t unit_parts;      /* units in all columns of a step */
};

/* ---- gpu_cells_memory.c */
int ts_gpu_cells_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_cells_free(struct ts_gpu *g);
/* Divides a member's memory from base + *used on; base NULL: only counts. */
void ts_gpu_cells_lay_out(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                          uint64_t *used);
/* Plans what stays on devices with `left` bytes on each, and sets store_bytes. */
void ts_gpu_cells_plan(struct ts_gpu *g, uint64_t left);
void ts_gpu_cells_store(struct ts_gpu *g, struct ts_gpu_member *me);
uint64_t ts_gpu_cells_chunk_bytes(const struct ts_gpu *g); /* the place of a chunk */
uint64_t ts_gpu_cells_y_bytes(const struct ts_gpu *g);     /* bytes of Y that a device keeps */
double ts_gpu_cells_y_part(const struct ts_gpu *g); /* share of the rows of Y that are kept */
uint64_t ts_gpu_cells_host_bytes(const struct ts_backend_conf *conf);
/* Whether cells are sent from where the feed has them. */
int ts_gpu_cells_direct(const struct ts_dense *d);
/* Steps of a target that are gathered at a time. */
uint64_t ts_gpu_cells_steps(const struct ts_gpu_cells *c, const struct ts_cells_target *t);

/* From shape on: what of each of a member's tables there is at a time. */
void ts_gpu_cells_choose(struct ts_gpu_cells *c);
/* Divides what one set of tables takes. */
void ts_gpu_cells_take(const struct ts_gpu *g, struct ts_gpu_cells *c, struct ts_gpu_member *me,
                       char *base, uint64_t *used);

/* ---- gpu_cells_walk.c */
/* Rows of the array that lie on a device. */
struct ts_gpu_cells_block {
    const void *cell;
    uint64_t row, n_rows, col, n_cols, pitch;
};

/* A product of a pass. */
struct ts_gpu_cells_work {
    /* the object whose tables are used: tables of columns, or of pairs of columns */
    struct ts_gpu_cells *cells;
    struct ts_cells_as as;
    int rest; /* its Y is good as far as it is kept, and gathered: the other rows are computed */
    /* for each member, the target with its factors */
    struct ts_cells_target target[TS_MAX_DEVICES];
};

struct ts_gpu_cells_job { /* a pass over cells */
    struct ts_gpu *g;
    struct ts_feed *feed;
    struct ts_gpu_pass *pass[TS_MAX_DEVICES]; /* each member's */
    /* Enqueues the computation for a block of a member. Blocks come in the order of its rows. */
    ts_gpu_error (*compute)(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                            const struct ts_gpu_cells_block *block);
    struct ts_gpu_cells_work work[2];
    uint32_t n_works;
    int rest; /* computes only those cells on the device whose Y is not kept */
};

int ts_gpu_cells_walk(struct ts_gpu_cells_job *j, struct ts_err *err);

/* ---- gpu_cells.c */
/* factor[mode] is another one. */
void ts_gpu_cells_changed(struct ts_gpu *g, uint32_t mode);
/* Before the members' passes. */
void ts_gpu_cells_begin(struct ts_gpu *g, const struct ts_gpu_request *ask);
/* The products of a member's pass, in acc of their cells, complete on every member. All members
 * call it, and targets need not be there. */
int ts_gpu_cells_multiply(struct ts_gpu_pass *p, struct ts_gpu_pass *all,
                          const struct ts_gpu_cells_work *work, uint32_t n, struct ts_err *err);
struct ts_cells_target ts_gpu_cells_target(const struct ts_gpu_pass *p,
                                           const struct ts_gpu_cells *c);
/* Products of the factors of modes first .. end - 1 of the layout. */
ts_gpu_error ts_gpu_cells_table(const struct ts_gpu_pass *p, const struct ts_gpu_cells *c,
                                uint32_t first, uint32_t end, double *out);
/* All members' passes over cells, enqueued by the thread of member 0; the others wait for it. */
int ts_gpu_cells_enqueue(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_gpu_cells_job *j,
                         struct ts_err *err);
/* Columns col .. col + n - 1 of a block, and of its rows those from `row` to `end`. */
struct ts_cells_x ts_gpu_cells_part_of(const struct ts_cells_shape *s,
                                       const struct ts_gpu_cells_block *b, uint64_t row,
                                       uint64_t end, uint64_t col, uint64_t n);
/* The product of a member's pass, in its args.out, complete on every member. All members call
 * it. */
int ts_gpu_cells_run(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);

/* ---- gpu_cells_unknown.c */
int ts_gpu_cells_pairs_new(struct ts_gpu *g, struct ts_err *err);
void ts_gpu_cells_pairs_take(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                             uint64_t *used);
/* The rows of a mode of a model of observed cells; or with ask->errors the errors, in the
 * members' memory. */
int ts_gpu_cells_complete(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);
int ts_gpu_cells_judge(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err);
/* The sums of errors of all units, after such a pass. */
int ts_gpu_cells_add_errors(struct ts_gpu *g, struct ts_error_sums *sums, struct ts_err *err);
/* Whether cells may be held out: there is memory for it. */
static inline int ts_gpu_cells_may_mark(const struct ts_gpu *g)
{
    return g->observes || g->holds_out;
}
/* To be called if cells are held out. Afterwards x is in the member's copy. */
ts_gpu_error ts_gpu_cells_mark(const struct ts_gpu *g, struct ts_gpu_member *me,
                               struct ts_cells_x *x);
struct ts_cells_places ts_gpu_cells_places(const struct ts_gpu *g);
ts_gpu_error ts_gpu_cells_pairs_warm(struct ts_gpu *g, struct ts_gpu_member *me);

#endif
