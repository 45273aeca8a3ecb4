/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream.h - decompositions of sparse tensors that do not fit in memory, for programs.
 *
 * A tensor is a directory NAME.tsh that `tshard build` or ts_builder_new made; it is opened by ts_open. A
 * session holds processors and memory for it; ts_cp computes a decomposition, whose weights and
 * factors are read, saved and compared. Results are the bytes that the command line gives.
 *
 *   errors   a function that can fail returns 0, or one of the negative TS_ERR_ codes, or a pointer that is
 *            NULL; and fills *err (which may be NULL) with the code and one sentence in English that
 *            says what was found where. On failure nothing is left open, and *ret is not touched
 *   structs  a conf or a result begins with its size, which the caller sets: fields are only added at the
 *            end, so that a program goes on with newer libraries. All other fields may be zero: the default
 *   owner    what a function named _new, _open or _load returns, and ts_open and ts_cp, is the caller's,
 *            to be given to the function named _free or _close, which take NULL. Strings and arrays that
 *            are given are copied or used during the call alone, unless it says otherwise
 *   units    modes, indices and components from 0; bytes; matrices row-major without padding
 *   threads  a tensor and a decomposition are read-only: any number of threads may use one. A session, a
 *            builder (but for ts_builder_add) and a cursor belong to one thread at a time. Several sessions
 *            may run in one process side by side
 *   stop     a pointer to an int, which must stay while it is used: once it is not 0 (a signal's handler or
 *            another thread sets it), long work ends within two seconds with TS_ERR_STOPPED
 *   process  the library prints nothing, ends no process (but see docs/api.md on OpenMP) and installs no
 *            handler; numbers have a point in every locale. Callbacks must return: no longjmp, no exception
 */
#ifndef TSTREAM_H
#define TSTREAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TS_API
#define TS_API __attribute__((visibility("default")))
#endif

#define TS_MODES_MAX 16u /* modes of a tensor, at least 2 */

/* ---- errors ---- */

enum {
    TS_ERR_MEMORY = -1,   /* out of memory, or out of that allowed */
    TS_ERR_IO = -2,       /* a system call on a file failed: errno is in sys */
    TS_ERR_FORMAT = -3,   /* what was read is not what it should be */
    TS_ERR_DEVICE = -4,   /* CUDA or NCCL failed */
    TS_ERR_LIMIT = -5,    /* well-formed, but beyond what can be done */
    TS_ERR_BUSY = -6,     /* held by another process, or what is to be made is there */
    TS_ERR_ARGUMENT = -7, /* the request makes no sense */
    TS_ERR_STOPPED = -8   /* *stop was not 0, or a callback said so */
};

typedef struct {
    int code; /* 0: nothing failed */
    int sys;  /* errno or the like, 0: none */
    char text[1024];
} ts_error;

/* The version of the library, such as "0.2.0".
 *
 *   returns  a string that stays
 *   errors   none
 */
TS_API const char *ts_library_version(void);

/* How sentences of errors and notes name what the caller may set: by the fields of this header (such as
 * host_memory), or by the keywords of the Python package, which asks for it. What only the programs
 * can do is named with them. Sentences count modes, components and rows from 0 in the words of the package, and modes
 * and components from 1 otherwise, as the programs do. */
enum { TS_WORDS_C = 0, TS_WORDS_PYTHON = 1 };

/* Chooses between them, for the whole process; TS_WORDS_C is what holds before. Other numbers change nothing.
 *
 *   threads  any; sentences that are being written may be in either
 *   errors   none
 */
TS_API void ts_words(int words);

/* What is worth knowing and no failure: one sentence, which is the library's and valid during the call. */
typedef void ts_note_fn(void *ctx, const char *sentence);

/* ---- tensors ---- */

/* A sparse tensor on disk, opened: read-only. */
typedef struct ts_tensor ts_tensor;

/* Opens the tensor in the directory `path`, or the dense one in a file of NumPy (.npy). Memory: a few bytes for each
 * shard. Of a dense one ts_nnz is the number of cells, and what is computed nonzero by nonzero refuses it (ts_each, ts_cursor_open,
 * ts_build_copy, ts_build_select, and losses other than least squares); its norm is not known, NaN, before a session
 * was opened.
 *
 *   returns  the tensor, NULL on failure
 *   owner    the caller, until ts_close
 *   errors   TS_ERR_IO, TS_ERR_FORMAT (no tensor, or a damaged one), TS_ERR_MEMORY, TS_ERR_BUSY (it is being
 *            replaced)
 */
TS_API ts_tensor *ts_open(const char *path, ts_error *err);

/* A dense tensor in memory: an array without gaps. */
typedef struct {
    size_t size;         /* sizeof(ts_array_conf) */
    const char *name;    /* for sentences and records; NULL: "array" */
    const void *cells;   /* of any alignment */
    const char *type;    /* of a cell: "float32", "float64", or "int8" to "uint64" */
    uint32_t order;      /* 2 to 8 */
    const uint64_t *dim; /* that many sizes */
    int fortran;         /* the first index changes with each cell; 0: the last one */
    int swapped;         /* the bytes of a cell are in the other order than this machine's */
} ts_array_conf;

/* Opens it, and reads it once, for the norm. Nothing is copied. Cells that are NaN are unknown, which
 * takes `observed` of ts_cp_conf.
 *
 *   returns  the tensor, NULL on failure
 *   owner    the caller, until ts_close; the cells are the caller's, and must not change until then
 *   errors   TS_ERR_ARGUMENT, TS_ERR_FORMAT (a shape that is not possible, an infinite cell), TS_ERR_LIMIT,
 *            TS_ERR_MEMORY
 */
TS_API ts_tensor *ts_open_array(const ts_array_conf *conf, ts_error *err);

/* Closes a tensor; NULL is fine. No session, cursor or walk may use it any more.
 *
 *   errors   none
 */
TS_API void ts_close(ts_tensor *t);

/* What a tensor is: the path that it was opened by, the number of modes, the number of indices of a mode (0:
 * there is no such mode), how many of these have a nonzero, the number of nonzeros, the square root of the sum
 * of the squares of all cells, bytes of a value (4: float32, 8: float64), and how its input counted indices (from 0
 * or 1), for what is shown. A cell that holds several nonzeros (ts_has_duplicates) is their sum: the norm of such
 * a tensor takes a pass over it, once, and is NaN where that fails.
 *
 *   owner    strings are the tensor's
 *   errors   none
 */
TS_API const char *ts_path(const ts_tensor *t);
TS_API uint32_t ts_order(const ts_tensor *t);
TS_API uint64_t ts_dim(const ts_tensor *t, uint32_t mode);
TS_API uint64_t ts_used(const ts_tensor *t, uint32_t mode);
TS_API uint64_t ts_nnz(const ts_tensor *t);
TS_API double ts_norm(const ts_tensor *t);
TS_API uint32_t ts_value_bytes(const ts_tensor *t);
TS_API uint32_t ts_first_index(const ts_tensor *t);
TS_API int ts_is_dense(const ts_tensor *t);
TS_API int ts_has_duplicates(const ts_tensor *t);

/* Whether a file of JSON that a command wrote (models.json, run.json) is as it was written: its n bytes lie at
 * `bytes`, `name` is for the sentence. Its version must be known and its checksum right.
 *
 *   returns  0; 1: a file of 0.2.0 or before, which has neither; or the code of a failure
 *   errors   TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_json_file_check(const char *name, const void *bytes, size_t n, ts_error *err);

/* Whether `observed` is taken for given of sessions and runs by this loss (TS_LOSS_...), because nothing else is possible: cells of the
 * tensor have weights, or are unknown (NaN); or the loss is for numbers above 0 and all cells are listed. Reads a dense
 * tensor that was not looked at before.
 *
 *   returns  1 or 0
 *   errors   none: a tensor that cannot be read does not; a session says why
 */
TS_API int ts_takes_observed(const ts_tensor *t, int loss);

/* What a mode is called, or, for mode == order, what the values are.
 *
 *   returns  the name, NULL where it has none
 *   owner    the tensor
 *   errors   none
 */
TS_API const char *ts_name(const ts_tensor *t, uint32_t mode);

/* Labels of n indices of a mode, in any order and as often as one likes: ret[i] becomes that of index[i], or
 * NULL where it has none.
 *
 *   returns  0, or the code of a failure
 *   owner    the caller, until ts_labels_free
 *   errors   TS_ERR_ARGUMENT (no such mode), TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_labels(const ts_tensor *t, uint32_t mode, uint64_t n, const uint64_t *index,
                     char **ret, ts_error *err);

/* Frees the n labels that ts_labels gave, and sets them to NULL; the array itself is the caller's.
 *
 *   errors   none
 */
TS_API void ts_labels_free(uint64_t n, char **label);

/* The indices of a mode that have a nonzero, ascending. ret has room for as many as ts_used tells.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (no such mode), TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_used_indices(const ts_tensor *t, uint32_t mode, uint64_t *ret, ts_error *err);

/* Takes n nonzeros, at most 16384: index is n x order, value n; both are the library's and valid during the
 * call. thread is below conf->threads. Not 0 ends the walk with TS_ERR_STOPPED. */
typedef int ts_each_fn(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                       const double *value);

typedef struct {
    size_t size;
    uint32_t mode;    /* the copy that is read, sorted by this mode first */
    uint32_t threads; /* 1: in the order of the copy; more: side by side, in any; 0: all CPUs */
    ts_each_fn *fn;
    void *ctx;
    const volatile int *stop; /* may be NULL */
} ts_each_conf;

/* Walks over all nonzeros. Memory: a shard (4 MiB by default) and 16384 nonzeros for each thread.
 *
 *   returns  0, or the code of a failure
 *   threads  conf->fn is called from conf->threads threads
 *   errors   TS_ERR_ARGUMENT, TS_ERR_IO, TS_ERR_FORMAT (damage: every shard is checked), TS_ERR_MEMORY,
 *            TS_ERR_STOPPED
 */
TS_API int ts_each(const ts_tensor *t, const ts_each_conf *conf, ts_error *err);

/* A walk at the caller's pace. */
typedef struct ts_cursor ts_cursor;

/* Begins a walk over the copy of `mode`. The tensor must stay open.
 *
 *   returns  the cursor, NULL on failure
 *   owner    the caller, until ts_cursor_close
 *   errors   TS_ERR_ARGUMENT (no such mode), TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API ts_cursor *ts_cursor_open(const ts_tensor *t, uint32_t mode, ts_error *err);

/* Ends a walk; NULL is fine.
 *
 *   errors   none
 */
TS_API void ts_cursor_close(ts_cursor *c);

/* The next nonzeros, at most `room`, which must be 256 or more: *n of them, 0 at the end. index has room for
 * room x order numbers, value for room.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (too little room), TS_ERR_IO, TS_ERR_FORMAT
 */
TS_API int ts_cursor_next(ts_cursor *c, uint64_t room, uint64_t *index, double *value, uint64_t *n,
                          ts_error *err);

/* ---- building ---- */

/* What becomes of nonzeros at one place. */
enum {
    TS_SUM_DUPLICATES = 0,
    TS_KEEP_DUPLICATES = 1,
    TS_REFUSE_DUPLICATES = 2 /* the build fails */
};

/* How far a build is; valid during the call. */
typedef struct {
    size_t size;
    const char *what, *unit;
    uint32_t phase, n_phases; /* from 1 */
    uint64_t done, total;     /* total 0: not known */
} ts_build_progress;

/* Everything about a build but where its nonzeros come from. */
typedef struct {
    size_t size;
    const char *out;      /* the directory to make; it appears whole and on disk */
    int replace;          /* a tensor that is there is replaced; other files never are */
    uint64_t memory;      /* of all together, at least 32 MiB; 0: half of what is free */
    const char *tmp;      /* directory for sorted runs; NULL: that of `out` */
    uint32_t threads;     /* 0: all CPUs */
    uint64_t shard_bytes; /* 64 KiB to 256 MiB; 0: 4 MiB, as tshard build has it */
    int duplicates;       /* nonzeros at one place: TS_SUM_DUPLICATES, ... */
    int float64;          /* values are kept as float64, not float32 */
    uint32_t
        first_index; /* of text, 0 or 1, and what is shown later; arrays and binary files start at 0 */
    const uint64_t *dim;      /* sizes of the modes; NULL: the largest indices */
    uint32_t order;           /* of dim and name. Not 0 for a builder: its modes */
    const char *const *name;  /* of the modes; NULL: none */
    const char *const *label; /* a file for each mode, a label a line, or NULL; NULL: none */
    uint32_t n_labels;        /* of label. The files are read when all nonzeros are there */
    const volatile int *stop; /* may be NULL */
    void (*progress)(void *ctx, const ts_build_progress *p); /* now and then; may be NULL */
    ts_note_fn *note;                                        /* may be NULL */
    void *ctx;
    int keep_zeros; /* cells of value 0 are kept, not left out, as observed of ts_cp wants them */
    /* Of a builder: cells have weights, which ts_builder_add_weighted
     * takes, so that observed of ts_cp counts each so many times. Values
     * are float32 then; nonzeros at one place become their mean by
     * weights, with the sum of these. */
    int weights;
    int skip_missing; /* lines of files with a missing field are left out and counted, not refused */
    int no_space_check; /* a build starts even where the disk has no room for what it takes at least */
    uint64_t expect;    /* of a builder: nonzeros that will be added, zeros left out; 0: not known */
} ts_build_conf;

typedef struct {
    size_t size;
    uint64_t nnz;        /* of the tensor */
    uint64_t read;       /* that came in, */
    uint64_t duplicates; /* of these merged with others, */
    uint64_t zeros;      /* and left out */
    uint64_t runs;       /* sorted runs that went through a file */
    uint64_t rounded;    /* values and weights nearer to 0 than the type holds as a normal number, which became 0 */
    uint64_t missing;    /* lines of files that were left out: skip_missing */
} ts_build_result;

/* Builds a tensor from files in the formats of `tshard build`, all parts of one tensor; "-" is standard
 * input. ret may be NULL.
 *
 *   returns  0 once the tensor is in place, or the code of a failure: then nothing is left of it
 *   errors   TS_ERR_ARGUMENT, TS_ERR_FORMAT (file and line are named), TS_ERR_IO, TS_ERR_LIMIT (sizes,
 *            memory), TS_ERR_MEMORY, TS_ERR_BUSY (conf->out is there), TS_ERR_STOPPED
 */
TS_API int ts_build_files(const ts_build_conf *conf, uint32_t n_paths, const char *const *path,
                          ts_build_result *ret, ts_error *err);

/* Whether the first line of a table names its columns. */
enum { TS_HEADER_AUTO = 0, TS_HEADER_YES = 1, TS_HEADER_NONE = 2 };

/* What the columns of a table are, by the options of `tshard build`. A column or mode is given by its name, or by its
 * number from 1. */
typedef struct {
    size_t size;
    const char *separator; /* one character: " " is blanks and tabs; NULL: a comma */
    int header;            /* TS_HEADER_AUTO and so on */
    /* columns that are modes; NULL: those that name of the conf says, or all but the last */
    const char *const *column;
    uint32_t n_columns;
    const char *value, *weights; /* columns; value may be "none", and each line counts 1 */
    const char *const *text;     /* modes whose fields are names, whatever they look like */
    uint32_t n_text;
    const char *const *bin; /* "week=7d": modes of times, with the widths of their bins */
    uint32_t n_bins;
    /* what numbers of times are, as of ts_bins_new: "week=s", or "s" for all modes of times */
    const char *const *time_unit;
    uint32_t n_units;
    int sorted_names; /* names get indices in the order of their bytes */
} ts_table_conf;

/* Builds a tensor from files that are parts of one table: CSV, TSV, columns between blanks. ret may be NULL.
 *
 *   returns  0 once the tensor is in place, or the code of a failure: then nothing is left of it
 *   errors   those of ts_build_files
 */
TS_API int ts_build_table(const ts_build_conf *conf, const ts_table_conf *table, uint32_t n_paths,
                          const char *const *path, ts_build_result *ret, ts_error *err);

/* A build from arrays that come piece by piece, in any order: memory is that of conf for any number of
 * nonzeros. */
typedef struct ts_builder ts_builder;

/* Begins a build. It runs in threads of its own from the start; callbacks of conf come from one of them.
 * Strings and arrays of conf must stay until ts_builder_free.
 *
 *   returns  the builder, NULL on failure
 *   owner    the caller, until ts_builder_free
 *   errors   TS_ERR_ARGUMENT, TS_ERR_MEMORY; what else may go wrong is found by ts_builder_add or
 *            ts_builder_finish
 */
TS_API ts_builder *ts_builder_new(const ts_build_conf *conf, ts_error *err);

/* Gives n nonzeros: index n x order from 0, value n; zeros are left out. Returns when they were taken, so the
 * arrays are the caller's again. After a failure only ts_builder_free makes sense.
 *
 *   returns  0, or the code of a failure, of the build too
 *   threads  any number of threads may add
 *   errors   TS_ERR_ARGUMENT (an index beyond its mode, a value that is not finite), and those of
 *            ts_build_files
 */
TS_API int ts_builder_add(ts_builder *b, uint64_t n, const uint64_t *index, const double *value,
                          ts_error *err);

/* The same where conf has weights: a number for each nonzero, none below 0; a cell of weight 0 counts for nothing. By ts_builder_add
 * such a builder takes nonzeros of weight 1.
 *
 *   returns  0, or the code of a failure, of the build too
 *   threads  any number of threads may add
 *   errors   those of ts_builder_add; TS_ERR_ARGUMENT (a weight below 0, or that float32 does not hold; a builder without weights)
 */
TS_API int ts_builder_add_weighted(ts_builder *b, uint64_t n, const uint64_t *index,
                                   const double *value, const double *weight, ts_error *err);

/* Says that there are no more nonzeros, and waits until the tensor is in place. ret may be NULL.
 *
 *   returns  0, or the code of a failure: then nothing is left of the tensor
 *   errors   those of ts_build_files
 */
TS_API int ts_builder_finish(ts_builder *b, ts_build_result *ret, ts_error *err);

/* Frees a builder; NULL is fine. Before ts_builder_finish it ends the build, and nothing is left of it.
 *
 *   errors   none
 */
TS_API void ts_builder_free(ts_builder *b);

/* Builds a tensor from another: with other sizes, shards, names or precision. What conf does not say is as in
 * `t`. ret may be NULL. A tensor whose cells have weights (tshard build --weights) is refused.
 *
 *   returns  0 once the tensor is in place, or the code of a failure: then nothing is left of it
 *   errors   those of ts_build_files
 */
TS_API int ts_build_copy(const ts_build_conf *conf, const ts_tensor *t, ts_build_result *ret,
                         ts_error *err);

/* Which nonzeros of a tensor become another one: those of which all that is said here holds. Zeros say nothing. */
typedef struct {
    size_t size;
    /* a share of the nonzeros, in [0, 1), is held out, chosen by a hash of each cell and the seed: the same cells
     * as hold_out of ts_cp. It is not taken; or it alone, with `held` */
    double hold_out;
    uint64_t seed;
    int held;
    /* for each mode the indices that are taken, n_keep of them, from 0 and in any order; or NULL: all */
    const uint64_t *const *keep;
    const uint64_t *n_keep;
    const uint64_t
        *at_least;      /* for each mode: slices with so many nonzeros of the whole; NULL: all */
    uint32_t sum_modes; /* bit m: mode m is left out, and what falls on one cell is added up */
} ts_select_conf;

/* Builds a tensor of a part of another, as `tshard split` and `tshard select` do, within conf->memory: sizes, names, labels and the
 * first index, precision, kept zeros and kept duplicates are those of `t`, whatever conf says of them. ret may be NULL.
 *
 *   returns  0 once the tensor is in place, or the code of a failure: then nothing is left of it
 *   errors   those of ts_build_files; TS_ERR_FORMAT where no nonzero is left
 */
TS_API int ts_build_select(const ts_build_conf *conf, const ts_tensor *t,
                           const ts_select_conf *select, ts_build_result *ret, ts_error *err);

/* Bins of the times of one mode, as `tshard build --bin` makes them, for arrays that a caller turns into indices.
 * They are numbered from the year 1: a caller subtracts the least. */
typedef struct ts_bins ts_bins;

#define TS_BINS_LABEL 32 /* bytes of a label */

/* Bins of a width such as "7d", "1h" or "1mo". `unit` is what numbers are: "s", "ms", "us" or "ns" since 1970, "date"
 * (20240131), "year", or "iso" (no times at all); NULL: ts_bins_look finds out. `name` is that of the mode, in
 * sentences.
 *
 *   returns  NULL on failure
 *   owner    the caller: ts_bins_free
 *   errors   TS_ERR_ARGUMENT, TS_ERR_MEMORY
 */
TS_API ts_bins *ts_bins_new(const char *width, const char *unit, const char *name, ts_error *err);

/* Frees it; NULL is fine.
 *
 *   errors   none
 */
TS_API void ts_bins_free(ts_bins *b);

/* Looks at n times, as they would stand in a file, before the first ts_bins_of: what numbers are is decided by them.
 *
 *   threads  one at a time
 *   errors   none
 */
TS_API void ts_bins_look(ts_bins *b, uint64_t n, const char *const *time);

/* The bins of n times, in ret. A time that may be read in two ways is refused with both. *n_taken is how many were
 * taken: on failure the number, from 0, of the time that was not.
 *
 *   threads  one at a time
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_FORMAT
 */
TS_API int ts_bins_of(ts_bins *b, uint64_t n, const char *const *time, uint64_t *ret,
                      uint64_t *n_taken, ts_error *err);

/* The start of a bin: "2024-05-27", "2024-05-27T13:00", "2024-05".
 *
 *   errors   none
 */
TS_API void ts_bins_label(const ts_bins *b, uint64_t bin, char ret[TS_BINS_LABEL]);

/* ---- decompositions ---- */

/* How factors are stored. */
enum { TS_REAL_FLOAT32 = 0, TS_REAL_FLOAT64 = 1 };

/* A sum of `rank` rank-one tensors: weights, and for each mode a factor matrix with a row for each index.
 * Of modes with empty slices only rows that may differ from zero are held. Read-only. */
typedef struct ts_kruskal ts_cpd;

/* Makes a decomposition of arrays, which are copied: factor[m] is dim[m] x rank, stored in `precision`; nothing
 * is sorted or normed.
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free
 *   errors   TS_ERR_ARGUMENT (shapes, numbers that are not finite), TS_ERR_MEMORY
 */
TS_API ts_cpd *ts_cpd_new(uint32_t order, const uint64_t *dim, uint32_t rank, int precision,
                          const double *weight, const double *const *factor, ts_error *err);

/* Reads what `tstream cp`, Tensor Toolbox, pyttb or SPLATT wrote: a ktensor file, or a directory, in which .npy
 * files come first. Factors of 1 MiB or more in .npy files are checked, and then mapped rather than held: such
 * a file may be removed or replaced by another, but not be written to while the decomposition is there.
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free
 *   errors   TS_ERR_IO, TS_ERR_FORMAT (file and line or byte are named), TS_ERR_MEMORY, TS_ERR_STOPPED
 */
TS_API ts_cpd *ts_cpd_load(const char *path, const volatile int *stop, ts_error *err);

/* Frees a decomposition; NULL is fine.
 *
 *   errors   none
 */
TS_API void ts_cpd_free(ts_cpd *c);

/* Files of a decomposition: model.ktensor; modeK.npy and weights.npy; modeK.mat and lambda.mat. */
enum { TS_FILE_KTENSOR = 1, TS_FILE_NPY = 2, TS_FILE_SPLATT = 4 };

typedef struct {
    size_t size;
    unsigned formats; /* sum of TS_FILE_...; 0: TS_FILE_KTENSOR */
    int held_rows;    /* those alone, with a file of their indices; 0: one for each index */
    int replace;      /* a decomposition of this library is replaced; other files never are */
    uint32_t threads; /* 0: all CPUs */
    const volatile int *stop;
    ts_note_fn *note;
    void *ctx;
} ts_save_conf;

/* Writes a decomposition as files in `dir`, which appears whole and on disk. conf may be NULL.
 *
 *   returns  0, or the code of a failure: then what was in `dir` is there as before
 *   errors   TS_ERR_ARGUMENT, TS_ERR_BUSY (`dir` is there), TS_ERR_IO, TS_ERR_LIMIT (the disk has no room),
 *            TS_ERR_MEMORY, TS_ERR_STOPPED
 */
TS_API int ts_cpd_save(const ts_cpd *c, const char *dir, const ts_save_conf *conf, ts_error *err);

/* What a decomposition is: the number of modes, of components, TS_REAL_..., the number of indices of a mode
 * (0: there is no such mode), and the weights, rank of them.
 *
 *   owner    the weights are the decomposition's
 *   errors   none
 */
TS_API uint32_t ts_cpd_order(const ts_cpd *c);
TS_API uint32_t ts_cpd_rank(const ts_cpd *c);
TS_API int ts_cpd_precision(const ts_cpd *c);
TS_API uint64_t ts_cpd_dim(const ts_cpd *c, uint32_t mode);
TS_API const double *ts_cpd_weights(const ts_cpd *c);

/* The rows of a mode that are held: how many, their numbers (rows x rank of float or double, by precision),
 * and their indices, ascending, or NULL where row i is index i.
 *
 *   returns  0 or NULL where there is no such mode
 *   owner    the decomposition, until ts_cpd_free
 *   errors   none
 */
TS_API uint64_t ts_cpd_held(const ts_cpd *c, uint32_t mode);
TS_API const void *ts_cpd_factor(const ts_cpd *c, uint32_t mode);
TS_API const uint64_t *ts_cpd_index(const ts_cpd *c, uint32_t mode);

/* Copies the rows of the n indices from `first` on, zeros included: ret has room for n x rank.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (no such mode, no such rows)
 */
TS_API int ts_cpd_rows(const ts_cpd *c, uint32_t mode, uint64_t first, uint64_t n, double *ret,
                       ts_error *err);

/* Finds the n entries of largest magnitude of a column, largest first, of equals that of the lower index: their
 * indices and values. *found: how many there are, fewer where the mode has fewer rows.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (no such mode or component), TS_ERR_MEMORY
 */
TS_API int ts_cpd_top(const ts_cpd *c, uint32_t mode, uint32_t component, uint32_t n,
                      uint64_t *index, double *value, uint32_t *found, ts_error *err);

/* Computes the values of n cells, in float64: index is n x order, ret has room for n.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (an index beyond its mode)
 */
TS_API int ts_cpd_predict(const ts_cpd *c, uint64_t n, const uint64_t *index, double *ret,
                          ts_error *err);

/* Counts those of n cells, whose values ts_cpd_predict gave, of which an index has a row of zeros in the model, as an index
 * without nonzeros has: the 0 there is no prediction (of log odds it is a probability of 1/2, of a logarithm a mean of 1).
 *
 *   returns  how many they are
 *   errors   none
 */
TS_API uint64_t ts_cpd_unseen(const ts_cpd *c, uint64_t n, const uint64_t *index,
                              const double *value);

/* ---- sessions ---- */

/* What a model is judged by. TS_LOSS_LEAST_SQUARES: the distance to the tensor. TS_LOSS_POISSON: of counts, their
 * likelihood as Poisson numbers whose means are the model's values; no entry of its factors is below 0. The others
 * (generalized CP) take a step of each mode against its gradient in a sweep, so give sweeps some hundred, and their fit is the
 * share of the deviance that is explained: of zeros and ones whose odds, or log odds, are the model's; of numbers above 0, with
 * observed, as gamma numbers of these means; of counts the logarithms of whose means they are; and the square of small errors, a
 * multiple of the magnitude of others. */
enum {
    TS_LOSS_LEAST_SQUARES = 0,
    TS_LOSS_POISSON = 1,
    TS_LOSS_BERNOULLI = 2,
    TS_LOSS_BERNOULLI_LOGIT = 3,
    TS_LOSS_GAMMA = 4,
    TS_LOSS_POISSON_LOG = 5,
    TS_LOSS_HUBER = 6
};

/* The loss that the programs' --loss calls so, with its number behind a colon where it takes one: "gamma", "huber:0.5". Fields `loss` and
 * `loss_at` of the confs below take what it returns.
 *
 *   returns  0, or the code of a failure: *loss and *loss_at stay as they are
 *   errors   TS_ERR_ARGUMENT names the losses that there are
 */
TS_API int ts_loss_named(const char *text, int *loss, double *loss_at, ts_error *err);

/* The name of a loss, and what help calls its number, "D". Losses count from 0.
 *
 *   owner    the library
 *   errors   none: beyond the last loss both are NULL, and the second is for one that takes no number
 */
TS_API const char *ts_loss_name(int loss);
TS_API const char *ts_loss_number(int loss);

/* How models by losses after TS_LOSS_POISSON descend: a step of each
 * mode a sweep, cells that are not listed being drawn anew; or a step of
 * all modes by L-BFGS-B, the same cells standing for them. */
enum { TS_OPTIMIZER_ADAM = 0, TS_OPTIMIZER_LBFGSB = 1 };

typedef struct {
    size_t size;
    uint32_t rank;        /* 1 to 2048 */
    int precision;        /* of factors and products: TS_REAL_FLOAT32, ... */
    uint32_t threads;     /* 0: all CPUs. Results do not depend on it */
    uint64_t host_memory; /* for shards; 0: what is free, less a reserve. Factors come on top */
    int cpu;              /* no GPU, though there is one */
    const char *gpus;     /* as --gpus of the programs: "2", "0,2"; NULL: one when there is one */
    uint64_t gpu_memory;  /* of each; 0: what is free */
    volatile int *stop;   /* may be NULL; a callback that returns not 0 sets it */
    ts_note_fn *note;     /* from the calling thread; may be NULL */
    /* So many nonzeros were worked through: from any thread, several at once; may be NULL. */
    void (*work)(void *ctx, uint64_t nnz);
    void *ctx;
    int checkpoints;   /* runs save states: an eighth of host_memory at most holds a copy of one */
    const char *trace; /* file for what ran when, JSON for ui.perfetto.dev; NULL: none */
    int replace;       /* a trace that the library wrote is replaced; other files never are */
    /* Bit m: ts_cp will be asked for nonneg, l1, simplex or bounds of
     * mode m, or for fix of mode m which is the last: that takes memory
     * for a second factor as large, that of GPUs where they compute. */
    uint32_t own_rows;
    int accelerate; /* ts_cp will be asked for accelerate, which takes memory for second
                        * factors, in host memory also for GPUs */
    /* Bit m: ts_cp will be asked for smooth of mode m, which takes
     * memory for its factor in float64 and a little more, or twice where
     * own_rows has the bit, too. */
    uint32_t smooth;
    /* ts_cp will be asked for observed, which takes memory for Gram
     * matrices of rows that parts of the tensor share; on CPU cores, and
     * on GPUs, there of dense arrays up to rank 128 (float64: 64). */
    int observed;
    /* TS_LOSS_... that ts_cp will be asked for: TS_LOSS_POISSON takes
     * memory for a second factor as large as the largest, and a little
     * more for each thread; those after it take two more models
     * besides, in host memory. */
    int loss;
    /* TS_OPTIMIZER_... of such a loss; LBFGSB takes twelve more models,
     * not two. */
    int optimizer;
    int patience; /* not 0: runs have patience, with memory for the best factors */
    /* Not 0: runs have hold_out. Without observed and with least squares
     * that takes a little memory of GPUs, where the rank is then at most
     * 128 (float64: 64). */
    int hold_out;
} ts_session_conf;

/* Processors, memory, and what stays of a tensor in it. */
typedef struct ts_session ts_session;

/* Opens a session: takes processors and memory for a tensor, which must stay open.
 *
 *   returns  the session, NULL on failure
 *   owner    the caller, until ts_session_close
 *   errors   TS_ERR_ARGUMENT, TS_ERR_LIMIT (factors or budgets are more than there is), TS_ERR_DEVICE,
 *            TS_ERR_MEMORY, TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_STOPPED
 */
TS_API ts_session *ts_session_open(const ts_tensor *t, const ts_session_conf *conf, ts_error *err);

/* Gives back what a session took; NULL is fine. Decompositions that it computed stay. A trace gets its
 * name now, unless a run failed or was stopped; what goes wrong then is a note.
 *
 *   errors   none
 */
TS_API void ts_session_close(ts_session *s);

typedef struct {
    size_t size;
    uint32_t threads, n_gpus;
    uint64_t host_bytes;   /* the budget for shards */
    uint64_t factor_bytes; /* factor matrices in host memory */
} ts_session_info;

/* Tells what a session took.
 *
 *   errors   none
 */
TS_API void ts_session_describe(const ts_session *s, ts_session_info *ret);

/* Where a run is. */
typedef struct {
    size_t size;
    uint32_t sweep, mode; /* under way; sweep from 1, 0 before the first run */
    uint64_t done, total; /* nonzeros of the mode that were worked through, and all: an estimate */
} ts_progress;

/* Tells how far the run of a session is, without slowing it down.
 *
 *   threads  any thread, also while ts_cp runs, until ts_session_close
 *   errors   none
 */
TS_API void ts_session_progress(const ts_session *s, ts_progress *ret);

/* One sweep over all modes; valid during the call. */
typedef struct {
    size_t size;
    uint32_t sweep;     /* from 1 */
    double fit, change; /* 1 - |X - model| / |X|, and its change */
    double seconds;     /* of the sweep, and of it, mean over devices: */
    double wait_seconds, copy_seconds, product_seconds, solve_seconds;
    uint64_t bytes_read;
    uint32_t n_singular;  /* modes that needed the pseudo-inverse */
    uint32_t n_dead;      /* components that are zero in some mode */
    double objective;     /* 1/2 |X - model|^2 with penalties; NaN where there are none */
    double rmse;          /* with observed: root mean square error at listed cells, */
    double held_out_rmse; /* and at those that are held out; NaN where there are none */
    /* With TS_LOSS_POISSON, else NaN: sum of x log m over the nonzeros
     * without the sum of m over all cells, whose negative is the
     * objective; and the largest violation of the conditions of an
     * optimum that the sweep met, 0 at one. */
    double log_likelihood;
    double violation;
    double
        held_out_loss; /* of another loss than least squares: its mean at cells held out; else NaN */
} ts_sweep;

/* A sweep is over. Not 0 ends the run with TS_ERR_STOPPED. */
typedef int ts_sweep_fn(void *ctx, const ts_sweep *s);

/* Whether a run goes on from the last state of one that was to write the same directory. With TS_RESUME there
 * must be a state; with TS_RESUME_IF_ANY the run starts anew where there is none. Rank, precision,
 * tensor, seed, constraints and accelerate must be those of the state; sweeps and tol may be others. */
enum { TS_RESUME_NEVER = 0, TS_RESUME = 1, TS_RESUME_IF_ANY = 2 };

/* A mode of a sweep was solved. Not 0 ends the run with TS_ERR_STOPPED. */
typedef int ts_mode_fn(void *ctx, uint32_t sweep, uint32_t mode, double seconds);

typedef struct {
    size_t size;
    uint32_t sweeps;     /* at most; 0: 50 */
    double tol;          /* done when the fit changes by less; 0: all sweeps. See loss */
    uint64_t seed;       /* of random initial factors */
    const ts_cpd *start; /* initial factors; NULL: random ones. Weights count with constraints */
    ts_sweep_fn *sweep;  /* from the calling thread; may be NULL */
    ts_mode_fn *mode;    /* the same */
    void *ctx;
    double max_seconds; /* the run is stopped then; 0: no limit */

    /* What is kept on disk, as `tstream cp --out` keeps it. */
    const char *out;           /* directory of the result; NULL: nothing is kept */
    unsigned formats;          /* of the result: sum of TS_FILE_...; 0: TS_FILE_KTENSOR */
    int held_rows;             /* as in ts_save_conf */
    int replace;               /* a result that is there, or the state of a run that did not end */
    int resume;                /* TS_RESUME_...: whether an earlier run to `out` goes on */
    double checkpoint_seconds; /* between states; 0: 300; below 0: one when the run ends early */
    /* Constraints. What is minimised is 1/2 |X - model|^2 and, for each
     * mode, l1 times the sum of magnitudes and l2 / 2 times the sum of
     * squares of its factor. All but l2, and fix of modes other than the
     * last, take a session that was opened for them (own_rows). */
    uint32_t nonneg;  /* bit m: no entry of mode m's factor is below 0 */
    const double *l1; /* order of them; NULL: none */
    const double *l2; /* the same */
    /* Bit m: mode m's factor stays that of start, its rows of empty
     * slices being 0. Nothing else can be asked of it, and not of all
     * modes. */
    uint32_t fix;
    /* Fewer sweeps: each starts where the last two point to, and one
     * that makes the fit fall, or what is minimised rise, is given
     * up; so fits may fall for a sweep. Takes a session that was
     * opened for it, least squares of all cells, no orthogonal. */
    int accelerate;
    /* Bit m: rows of mode m's factor are not negative and sum to 1.
     * Columns of such modes, and of those with bounds, keep their
     * lengths and signs: weights are of the others. */
    uint32_t simplex;
    /* Order of them each, bounds of entries: -INFINITY and INFINITY are
     * none. Both are given or, for no bounds at all, NULL. */
    const double *lower;
    const double *upper;
    /* Not 0, with start NULL: initial factors are leading left singular
     * vectors of the tensor's unfoldings, found with seed in about the
     * time of two sweeps; of modes that must not be negative their
     * positive part. */
    int nvecs;
    /* Bit m: columns of mode m's factor are orthonormal, on CPU
     * cores. Nothing else can be asked of it, it has as many used
     * indices as the rank at least, and one mode has to be free,
     * without fix, simplex, bounds and orthogonal. */
    uint32_t orthogonal;
    /* Order of them; NULL: none. smooth / 2 times the sum of squares of
     * second differences of the rows of neighbouring indices is
     * minimised too, empty slices lying on the curve between: for modes
     * of up to 2^22 indices, without simplex, fix and orthogonal. Takes
     * a session that was opened for it, with nonneg, l1 or bounds of the
     * same mode in own_rows, too. */
    const double *smooth;
    /* Not 0: cells that are not listed are unknown, not zeros, and fits
     * are those at the listed cells. It goes with l2, which all modes
     * should have, nonneg, bounds and fix. Takes a session that was
     * opened for it. Where l2 is NULL there is no penalty, also where
     * weights or NaN imply this; tstream cp takes 0.1 in both cases. */
    int observed;
    int l2_by_count; /* l2 counts once for each nonzero of a row, not once for the row */
    /* Nothing is learnt from this share of the listed cells, chosen by a
     * hash of each cell and seed, and their error is told. Below 1.
     * Without observed they are zeros to the model, like cells that are
     * not listed; those of a dense tensor are unknown, and observed is
     * taken for given. On GPUs, too; there with least squares and
     * without observed it takes a session that was opened for it. One
     * cell must be held out, and one be left: TS_ERR_ARGUMENT. */
    double hold_out;
    /* Ends when that error has not fallen for so many sweeps; 0: never.
     * The result is the model that had the least, which is kept in host
     * memory: it takes a session that was opened for it. */
    uint32_t patience;
    /* TS_LOSS_..., of a session that was opened for it. With
     * TS_LOSS_POISSON the run is done when the violation is less than
     * tol, and nothing else but nonneg can be asked of the factors; with
     * those after it l2, nonneg and bounds can, and observed, and it is
     * done when the loss fell in none of ten sweeps by tol times all
     * that it has fallen since the first one (the programs' is 1e-4). */
    int loss;
    uint32_t inner; /* with TS_LOSS_POISSON: rounds of each row in a sweep; 0: 10 */
    double loss_at; /* the number of a loss that takes one: of TS_LOSS_HUBER, errors up to it count by their squares */
    int optimizer;  /* TS_OPTIMIZER_..., of a session that was opened for it */
    /* Not 0, with observed and least squares: the model is of the cells
     * less the mean of those that are not held out. The result has a
     * component more than its rank, whose values are that mean. */
    int mean;
    /* Where the share of hold_out begins, from 0 to less than 1: of
     * cross-validation with K folds, k / K with a hold_out of 1 / K.
     * Not 0: without `out`. */
    double hold_out_from;
    /* Not 0, with out: init.ktensor, too, the start in all digits of
     * float64. A run that starts from it with the same seed, by which a
     * loss, hold_out and orthogonal draw, too, has the bits of this one.
     * One that goes on has the start that it saved, or writes it now,
     * where it was drawn or is given again; what was computed, by nvecs
     * or a loss, cannot be written then, and is refused. Several models
     * that save theirs may go on with 0, and do not with 1 where they
     * began with 0. */
    int save_init;
} ts_cp_conf;

typedef struct {
    size_t size;
    double fit;
    uint32_t sweeps;
    int converged;              /* as tol says */
    int exact;                  /* nothing but rounding is left of |X - model| */
    uint32_t sweeps_before;     /* of the sweeps, those of an earlier run that went on here */
    uint32_t n_dead;            /* components that are zero in some mode */
    double objective;           /* as in ts_sweep */
    double rmse, held_out_rmse; /* likewise */
    int overfits;               /* it ended because the error of held-out cells did not fall */
    double log_likelihood, violation, held_out_loss; /* as in ts_sweep */
    double mean;                                     /* that was subtracted; NaN: none was */
    uint32_t best_sweep;                             /* with patience, whose model it is; else 0 */
} ts_cp_result;

/* Computes a CP decomposition by alternating least squares: columns of norm 1, sorted by weight, signs fixed.
 * conf and ret may be NULL. A session serves any number of runs, until one fails or is stopped.
 *
 * With conf->out the result is written there too. Until it is in place, states of the run lie beside it, in
 * OUT.partial, from which it goes on after a failure, a stop or a crash: by conf->resume, or by
 * `tstream cp --resume OUT`; and the library goes on from states of `tstream cp`. The bits are those of a run
 * without a stop. The result holds run.json, the record of the run, and OUT.partial/status.json tells how far
 * one is, written once a second by a thread of the run: what `tstream info` and `tstream status` show.
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free; it does not need the session
 *   errors   TS_ERR_ARGUMENT, TS_ERR_LIMIT (numbers beyond what the precision holds), TS_ERR_IO,
 *            TS_ERR_FORMAT (a damaged shard or state), TS_ERR_DEVICE, TS_ERR_MEMORY, TS_ERR_BUSY (conf->out
 *            is there), TS_ERR_STOPPED. The sentence tells which state is kept
 */
TS_API ts_cpd *ts_cp(ts_session *s, const ts_cp_conf *conf, ts_cp_result *ret, ts_error *err);

/* Several models of a tensor, of several ranks and starts. */

/* A sweep of model `model`, counted from 0, is over. Not 0 ends all with TS_ERR_STOPPED. */
typedef int ts_several_sweep_fn(void *ctx, uint32_t model, const ts_sweep *s);

typedef struct {
    size_t size;
    uint32_t n_ranks; /* at least 1 */
    const uint32_t
        *rank; /* n_ranks of them, no two the same; that of the session's conf does not count */
    uint32_t restarts; /* models of each rank, with seeds seed, seed + 1 and so on; 0: 1 */
    /* What the models have in common, NULL for defaults: without
     * sweep, mode and start. max_seconds is of all together, and out
     * the directory of all. */
    const ts_cp_conf *run;
    /* Initial factors of each model, NULL for random ones; NULL: none is given. */
    const ts_cpd *const *start;
    ts_several_sweep_fn *sweep; /* from the calling thread; may be NULL */
    void *ctx;
} ts_several_conf;

/* A row of the table of models. */
typedef struct {
    size_t size;
    uint32_t rank;
    uint32_t sweeps;
    uint64_t seed;
    double fit, objective; /* as in ts_cp_result, and likewise: */
    int converged, exact;
    uint32_t n_dead;
    int best; /* of its rank: highest fit, with penalties lowest objective, with hold_out lowest error there;
               * of equals the first */
    double seconds; /* of its sweeps, others beside it included */
    double score;   /* factor match score with the best of its rank: 1 for the same components */
    double held_out_rmse; /* as in ts_cp_result */
    double held_out_loss; /* likewise */
} ts_several_result;

/* Computes n_ranks x restarts models, those of rank[0] first: side by side, each pass over the tensor serving all, on CPU cores
 * and on GPUs as many as there is memory for (see `tstream cp --restarts`). Each is, bit for bit, what ts_cp computes
 * with this rank and seed. With run->out they are written there too, as `tstream cp --rank 8,16 --restarts 5` writes them: r8.s1
 * and so on, links to the best of each rank, models.json and models.tsv; the directory appears when all are done. Until then
 * OUT.partial holds models that are done and states of others: with run->resume those are read, and these go on, also where
 * the command began the run, and `tstream cp --resume OUT` goes on with what the library began. Where all are done there
 * is nothing to go on with. Of `session` the trace must be NULL. ret has room for a decomposition of each, result (may be NULL) for a
 * row of each, the size of the first being that of all. On failure none is left.
 *
 *   returns  0, or the code of a failure
 *   owner    decompositions are the caller's, until ts_cpd_free
 *   errors   TS_ERR_ARGUMENT, and those of ts_session_open and ts_cp
 */
TS_API int ts_cp_several(const ts_tensor *t, const ts_session_conf *session,
                         const ts_several_conf *conf, ts_cpd **ret, ts_several_result *result,
                         ts_error *err);

typedef struct {
    size_t size;
    double fit;
    double error;    /* estimate of what rounding may have changed in it */
    double residual; /* |X - model| */
    double norm, model_norm;
} ts_fit_result;

/* Computes the exact fit of any decomposition, in float64, with a session of its own. Of conf, rank and
 * precision do not matter; it may be NULL. ret may be NULL.
 *
 * Where cells have weights or are unknown (NaN), the fit is that of the known cells alone, each as often as its weight says: of
 * observed runs; and residual and norm are.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (shapes differ), and those of ts_session_open
 */
TS_API int ts_fit(const ts_tensor *t, const ts_cpd *c, const ts_session_conf *conf,
                  ts_fit_result *ret, ts_error *err);

/* What is wanted beside sums over all nonzeros. */
typedef struct {
    size_t size;
    uint32_t mode; /* of slices: the copy of the tensor that is read is sorted by it */
    int float32; /* factors and products in float32, in half the memory and time; sums are float64 */
    /* Room for as many nonzeros, those of largest residual: of each its
     * indices (n_top x order), its value and the model's. NULL: not
     * wanted. */
    uint32_t n_top;
    uint64_t *top_index;
    double *top_value, *top_model;
    /* Room for a number for each slice of mode that has a nonzero, in
     * the order of ts_used_indices: nonzeros, the sum of their weights,
     * sums of values and of the model's, root mean square and mean
     * magnitude of residuals. NULL: not wanted. */
    uint64_t *slice_nnz;
    double *slice_weight, *slice_value, *slice_model;
    double *slice_rmse, *slice_mae;
} ts_cpd_score_conf;

typedef struct {
    size_t size;
    uint64_t nnz;     /* nonzeros, or known cells of a dense tensor */
    double weight;    /* as many, or the sum of weights, by which all that follows is: */
    double rmse, mae; /* root mean square and mean magnitude of value - model */
    double mean_value, mean_model; /* at these cells */
    /* Log-likelihoods, NaN where there is none: of residuals that are
     * Gaussian with the variance that they have; and of counts where the
     * model is above 0, as Poisson numbers whose means are its values
     * (all cells count), without terms that no model changes. */
    double gaussian, poisson;
    uint32_t n_top; /* how many were found */
    /* Nonzeros of which an index has a row of zeros in the model, as an
     * index that was never seen has: the 0 there is no prediction. */
    uint64_t unseen;
} ts_cpd_score_result;

/* Compares a decomposition with the nonzeros of a tensor of its shape, as `tstream score` does, by a session of its own on CPU cores.
 * Other cells count in the Poisson likelihood alone. conf and session may be NULL; of the latter rank, precision and what is of GPUs
 * do not matter. The bits depend neither on threads nor on memory.
 *
 *   returns  0, or the code of a failure
 *   owner    arrays of conf are the caller's, and are filled
 *   errors   TS_ERR_ARGUMENT (shapes differ, no such mode), TS_ERR_LIMIT (numbers beyond what the precision holds), and those of
 *            ts_session_open
 */
TS_API int ts_cpd_score(const ts_cpd *c, const ts_tensor *t, const ts_cpd_score_conf *conf,
                        const ts_session_conf *session, ts_cpd_score_result *ret, ts_error *err);

typedef struct {
    size_t size;
    double consistency; /* in per cent, 100 at most */
    double normalised;  /* the same over the core's own size; 0 for a core of zeros */
    uint32_t n_singular; /* modes whose columns depend on each other, to rounding: there it says little */
    /* Above, the size of a component is shared among the modes alike,
     * as corcond of the N-way toolbox does. Here the factors are as they
     * are, with the weights in the first mode, as in TLViz. */
    double given, given_normalised;
} ts_core_result;

/* Computes the core consistency of a decomposition (Bro and Kiers, 2003), as `tstream fit --diagnose` does: near 100 where its
 * components are as many and as separate as the nonzeros support. Cells that are not listed are zeros. Of conf the number
 * of threads and `stop` matter; it may be NULL. Takes memory for the factors once more and two cores of rank^order numbers.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (shapes differ, a tensor that is dense or has weights), TS_ERR_LIMIT (the core is too large),
 *            TS_ERR_STOPPED, and what reading finds
 */
TS_API int ts_cpd_core(const ts_cpd *c, const ts_tensor *t, const ts_session_conf *conf,
                       ts_core_result *ret, ts_error *err);

#ifdef __cplusplus
}
#endif

#endif
