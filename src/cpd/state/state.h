/* SPDX-License-Identifier: BSD-3-Clause */
/* state.h - writes and reads the state of a decomposition between two modes, a file from which the
 * run can be resumed.
 *
 * A state is at the beginning of a mode. It has the factors of the other modes, as the backend
 * stores them, and the Gram matrices. The mode's own factor is about to be replaced, and the mode's
 * product does not read it. So an interrupted mode is simply computed again. If the mode has a
 * constraint, its rows are updated from the old ones, and the state includes its own factor as
 * well. A state of an accelerated run (accelerate.h) also has factors of the sweep before.
 * docs/checkpoint.md describes the bytes.
 *
 *   owner    a state to be written points to memory of the caller; a state that was opened, to
 *            memory of the file object
 *   units    bytes, nanoseconds
 *   threads  one thread at a time
 *   errors   0 or a negative ts_code. A file is untrusted: everything in it is checked when it is
 *            opened, every byte of it against checksums, before memory is taken for what it claims
 *            to hold
 */
#ifndef TS_CPD_STATE_H
#define TS_CPD_STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files/open_dir.h"
#include "cpd/spec/spec.h"
#include "stream/backend.h"

#define TS_STATE_MAGIC   "TSHSTATE" /* 8 bytes, no NUL */
#define TS_STATE_VERSION 1u

/* The head of the file, 256 bytes. These follow: struct ts_disk_section[n_sections], the XXH3-64
 * (seed 0) of head and sections, and the contents of the sections one after another. Each is padded
 * with zeros to a multiple of 8 bytes and followed by the XXH3-64 of contents and padding. */
struct ts_disk_state {
    char magic[8];
    uint32_t version;
    uint32_t n_sections;
    uint64_t file_bytes;
    uint64_t serial;      /* the later of two states of a run has the greater number */
    uint64_t tensor_hash; /* checksum of the tensor's index */
    uint64_t nnz;
    uint32_t order, rank;
    uint32_t precision;    /* 0: float32, 1: float64 */
    uint32_t flags;        /* sum of values of enum ts_state_flag */
    uint32_t sweep, mode;  /* where the run continues: sweep from 1, mode from 0 */
    uint64_t saved_s;      /* time of day, seconds since 1970 */
    uint64_t run_ns;       /* time of the run so far, without pauses */
    uint8_t reserved[168]; /* zero */
};

struct ts_disk_section {
    char name[16];  /* padded with zeros */
    uint64_t bytes; /* of the contents, without padding and checksum */
    uint64_t reserved;
};

/* The section "constraints" has one struct for each mode. The section exists if some mode has a
 * constraint. */
struct ts_disk_constraint {
    /* sum of TS_DEMAND_* values; a program refuses a state with values that it does not know */
    uint32_t demands;
    uint32_t fixed; /* the factor is fixed: 0 or 1 */
    double l1, l2;
    /* The sum over the factor that its penalty needs. With l1, this is the sum of magnitudes. With
     * smooth, it is the sum of squared second differences of rows. With both, it is l1 times the
     * first plus smooth/2 times the second. With `observed`, it is the sum of squares, weighted as
     * l2 weights them. */
    double size;
    double lower, upper; /* with TS_DEMAND_BOUNDS; otherwise 0 */
    double smooth;       /* with TS_DEMAND_SMOOTH; otherwise 0 */
    double loss_at;      /* the parameter of the loss; 0 if it has none */
};

enum ts_demand {
    TS_DEMAND_NONNEG = 1,
    TS_DEMAND_SIMPLEX = 2,
    TS_DEMAND_BOUNDS = 4,
    TS_DEMAND_ORTHOGONAL = 8,
    TS_DEMAND_SMOOTH = 16,
    TS_DEMAND_OBSERVED = 32,
    TS_DEMAND_BY_COUNT = 64,
    TS_DEMAND_POISSON = 128,
    TS_DEMAND_LOSS = 256, /* times the value of enum ts_loss_kind (stream/loss.h), at most 15 */
    TS_DEMAND_LBFGSB = 4096,
    TS_DEMAND_MEAN = 8192,
    TS_DEMAND_BEST = 16384,
    TS_DEMAND_HELD = 32768,
    TS_DEMAND_END = 65536
};

/* Starts the section "accelerate" of accelerated runs. It is followed by the weights of the sweep
 * before (rank float64) and its column norms (order x rank). */
struct ts_disk_accelerate {
    /* Step length of the sweep that comes next or is being computed. -1: this sweep starts where
     * the sweep before it started. */
    double step;
    double best; /* fit (accelerate.h) of the last good sweep */
    /* Difference between `best` and the fits of the last two sweeps, the later one first. */
    double gain[2];
    uint64_t streak; /* number of good sweeps in a row */
    uint64_t taken;  /* 1: the extrapolation was made; 0: it comes next */
    uint64_t reserved[2];
};

_Static_assert(sizeof(struct ts_disk_accelerate) == 64, "on-disk size");
_Static_assert(sizeof(struct ts_disk_constraint) == 64, "on-disk size");
_Static_assert(sizeof(struct ts_disk_state) == 256, "on-disk size");
_Static_assert(sizeof(struct ts_disk_section) == 32, "on-disk size");

/* The section "best" exists if the factors with the least error at held-out cells are kept
 * (best.h). It starts with these numbers of the best sweep: its number (0: none yet), fit, change,
 * objective, errors at observed and at held-out cells, loss at held-out cells, log-likelihood,
 * violation of the KKT conditions, number of components that are zero, and the mean. Weights (rank
 * float64) and column norms (order x rank) follow. */
#define TS_BEST_NUMBERS 16u

/* The section "figures" has one struct for each finished sweep, if a mode has a constraint: what
 * was reported besides the fit (NaN: the run has no such figure). It may be missing, because
 * earlier programs did not write it. */
struct ts_disk_figures {
    double objective, log_likelihood, violation, rmse, held_out, held_out_loss;
    uint64_t n_dead; /* number of components that are zero in some mode */
    uint64_t reserved;
};

_Static_assert(sizeof(struct ts_disk_figures) == 64, "on-disk size");

enum ts_state_flag {
    TS_STATE_ENDED = 1, /* the run made all its sweeps, and only its result may be missing */
    /* float32: in the next sweep that ends, the last mode is summed in float64 */
    TS_STATE_WIDE = 2,
    TS_STATE_EXACT = 4, /* after the last whole sweep the residual was nothing but rounding */
    /* the last mode is solved, and another pass over it follows for the fit. It sums the MTTKRP in
     * float64, or the errors at observed cells. */
    TS_STATE_FIT = 8,
};

/* Numbers of 64 bits in a state: sums of struct ts_solver_sweep over the finished modes of the
 * current sweep, and numbers that a method stores. */
enum ts_state_part {
    TS_PART_TOTAL_NS,
    TS_PART_WAIT_NS,
    TS_PART_COPY_NS,
    TS_PART_KERNEL_NS,
    TS_PART_SOLVE_NS,
    TS_PART_EXPOSED_NS,
    TS_PART_SLOWEST_NS,
    TS_PART_BYTES_READ,
    TS_PART_N_SINGULAR,
    TS_PART_HELD_BEST,  /* bits of the least error at held-out cells in all past sweeps */
    TS_PART_HELD_SINCE, /* number of sweeps since the one with that error */
    /* Poisson models: float64, violation of the KKT conditions in the finished modes of the current
     * sweep, or in the last sweep */
    TS_PART_KKT,
    /* Poisson models: float64, log-likelihood after the last whole sweep */
    TS_PART_LOSS,
    /* models by gradient descent: float64, the step length (learning rate) */
    TS_PART_RATE,
    /* models by gradient descent: float64, objective after the last whole sweep */
    TS_PART_OBJECTIVE,
    /* models by L-BFGS-B: data of the stored pairs of steps (lbfgsb.c) */
    TS_PART_PAIRS,
    TS_PART_MEAN = TS_PART_LOSS, /* observed cells: float64, the mean that is subtracted */
    TS_N_PARTS = 16
};

struct ts_state_past { /* the fit and time of a finished sweep */
    double fit;
    uint64_t total_ns;
};

struct ts_state {
    uint64_t serial, tensor_hash, nnz, saved_s, run_ns;
    uint32_t order, rank, sweep, mode;
    enum ts_precision precision;
    unsigned flags;
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    /* Bit m: the factor of mode m is in the state. With ENDED all are. Otherwise all are but that
     * of `mode`, which is included only if its update reads the old rows. */
    uint32_t factors;
    /* 1: the specification has constraints: it is not plain least squares of all cells */
    int constrained;
    struct ts_spec spec;
    double size[TS_MAX_ORDER]; /* for each mode, the sum over its factor that its penalty needs */
    int accelerated;           /* 1: the run is accelerated: the members below are set */
    struct ts_disk_accelerate pace;
    double *before; /* rank + order x rank: weights and column norms of the sweep before */
    /* TS_BEST_NUMBERS + rank + order x rank: figures, weights and column norms of the best sweep,
     * if its factors are kept */
    double *best;
    uint32_t kept; /* bit m: the factor of mode m in the sweep before is in the state */
    /* for writing, by moment and mode: moments (matrices of a factor's size) of a method that
     * descends; the specification determines how many */
    const void *moment[TS_MOMENTS_MOST][TS_MAX_ORDER];
    /* for writing, by mode: factors of the sweep before, in the precision of the run */
    const void *before_rows[TS_MAX_ORDER];
    double *gram;   /* order x rank x rank: Gram matrices */
    double *lambda; /* rank: column norms of the mode that was solved last */
    uint64_t part[TS_N_PARTS];
    struct ts_state_past *past; /* sweep - 1 finished sweeps */
    int figured;                /* 1: `past` has figures for each of its sweeps */
    struct ts_disk_figures *figures;
    char *options; /* options of the run: strings "name=value", each ended by a NUL */
    uint64_t options_bytes;
};

#define TS_STATE_MAX_OPTIONS (UINT64_C(1) << 16)

/* ---- writing states ---- */

/* Sets ret to rows row .. row + n - 1 of the factor of `mode`, n x rank, in the precision of the
 * run. */
typedef int ts_state_rows_fn(void *ctx, uint32_t mode, uint64_t row, uint64_t n, void *ret,
                             struct ts_err *err);

uint64_t ts_state_bytes(const struct ts_state *s); /* size of the file in bytes */

/* Writes the state to the file fd, from its present position on. give_up (may be NULL): TS_ESTOP is
 * returned once it is not 0. */
int ts_state_write(const struct ts_state *s, ts_state_rows_fn *rows, void *ctx,
                   const atomic_int *give_up, int fd, const char *path, struct ts_err *err);

/* ---- reading states ---- */

struct ts_state_file;

/* Opens the file of a state. Returns TS_EIO with err->sys ENOENT if it does not exist. */
int ts_state_open(const char *path, struct ts_state_file **ret, struct ts_err *err);

/* Opens the file NAME of an open directory, and returns 1. Returns 0 if it does not exist. */
int ts_state_open_in(const struct ts_open_dir *dir, const char *name, struct ts_state_file **ret,
                     struct ts_err *err);
void ts_state_close(struct ts_state_file *f); /* f may be NULL */
const struct ts_state *ts_state_get(const struct ts_state_file *f);
const char *ts_state_path(const struct ts_state_file *f);
/* returns a number that differs between any two states */
uint64_t ts_state_sign(const struct ts_state_file *f);

/* Reads n rows of a factor as float64, whatever the precision of the run. */
int ts_state_rows(const struct ts_state_file *f, uint32_t mode, uint64_t row, uint64_t n,
                  double *ret, struct ts_err *err);

/* Reads all rows of the factor of the sweep before, in the precision of the run. The mode's bit in
 * `kept` of struct ts_state must be set. */
int ts_state_before(const struct ts_state_file *f, uint32_t mode, void *ret, struct ts_err *err);

/* Reads all rows of moment `which` (from 0) of a factor, in the precision of the run. */
int ts_state_moment(const struct ts_state_file *f, uint32_t which, uint32_t mode, void *ret,
                    struct ts_err *err);

/* Returns TS_EARG if the tensor is not the one of the state; the message says what differs. */
int ts_state_check_tensor(const struct ts_state_file *f, const struct ts_tensor *t,
                          struct ts_err *err);

/* Returns the value of an option of the run, or NULL if the state does not record the option. */
const char *ts_state_option(const struct ts_state *s, const char *name);

#endif
