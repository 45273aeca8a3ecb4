/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream.h - decompositions of sparse tensors that do not fit in memory, for programs.
 *
 * A tensor is a directory NAME.tsh made by `tshard build` or ts_builder_new. ts_open opens it. A
 * session holds processors and memory for it. ts_cp computes a decomposition. Its weights and
 * factors can be read, saved and compared. Results have the same bytes as those of the command
 * line.
 *
 *   errors   a function that can fail returns 0 or a negative TS_ERR_ code, or a pointer that is
 *            NULL on failure. It fills *err (which may be NULL) with the code and one English
 *            sentence that says what was found where. On failure nothing stays open, and *ret does
 *            not change
 *   structs  a conf or a result begins with its size, which the caller sets. New fields are only
 *            added at the end, so programs keep working with newer libraries. Zero is the default
 *            of all other fields
 *   owner    the caller owns what ts_open, ts_cp and functions named _new, _open or _load return,
 *            and passes it to the function named _free or _close. These take NULL. Strings and
 *            arrays from the caller are copied, or used during the call only, unless the comment
 *            says otherwise
 *   units    modes, indices and components count from 0; sizes are bytes; matrices are row-major
 *            without padding
 *   threads  a tensor and a decomposition are read-only: any number of threads may use one. A
 *            session, a builder (except in ts_builder_add) and a cursor belong to one thread at a
 *            time. Several sessions may run side by side in one process
 *   stop     a pointer to an int that must stay valid while it is used. If a signal handler or
 *            another thread sets the int, long work ends within two seconds with TS_ERR_STOPPED
 *   process  the library prints nothing, ends no process (but see docs/api.md on OpenMP) and
 *            installs no handler. Numbers have a point in every locale. Callbacks must return: no
 *            longjmp, no exception
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
    TS_ERR_MEMORY = -1,   /* out of memory, or beyond the allowed memory */
    TS_ERR_IO = -2,       /* a system call on a file failed; sys is errno */
    TS_ERR_FORMAT = -3,   /* a file has invalid contents */
    TS_ERR_DEVICE = -4,   /* CUDA or NCCL failed */
    TS_ERR_LIMIT = -5,    /* a valid request that is too large */
    TS_ERR_BUSY = -6,     /* another process holds it, or the result already exists */
    TS_ERR_ARGUMENT = -7, /* an invalid request */
    TS_ERR_STOPPED = -8   /* *stop was not 0, or a callback stopped it */
};

typedef struct {
    int code; /* 0: no error */
    int sys;  /* errno or a code of CUDA; 0: none */
    char text[1024];
} ts_error;

/* The version of the library, such as "0.2.0".
 *
 *   returns  a string that is always valid
 *   errors   none
 */
TS_API const char *ts_library_version(void);

/* How errors and notes name settings: by the fields of this header (such as host_memory), or by the
 * keywords of the Python package. Settings that only the programs have are named as their options.
 * In the words of the package, modes, components and rows count from 0. In the words of C, modes
 * and components count from 1, as in the programs. */
enum { TS_WORDS_C = 0, TS_WORDS_PYTHON = 1 };

/* Chooses the words, for the whole process. TS_WORDS_C is the default. Other numbers change
 * nothing.
 *
 *   threads  any; a sentence that is being written may have either words
 *   errors   none
 */
TS_API void ts_words(int words);

/* Receives a note: a sentence about something that is not an error. It belongs to the library and
 * is valid during the call. */
typedef void ts_note_fn(void *ctx, const char *sentence);

/* ---- tensors ---- */

/* A sparse tensor on disk, opened: read-only. */
typedef struct ts_tensor ts_tensor;

/* Opens the tensor in the directory `path`, or the dense tensor in a NumPy file (.npy). It takes a
 * few bytes of memory for each shard. For a dense tensor, ts_nnz is the number of cells, and the
 * norm is NaN until a session has been opened. Functions that walk over nonzeros refuse a dense
 * tensor: ts_each, ts_cursor_open, ts_build_copy and ts_build_select. So do losses other than least
 * squares.
 *
 * Of a tensor that tshard append made longer, the first to open it merges the segments. This takes
 * as long as a build from a tensor, and the memory of ts_build_conf.memory 0. It also waits while
 * another process changes the tensor. The result is put beside the segments. If this user does not
 * own the tensor, it is put in $TMPDIR or /tmp, and removed by ts_close.
 *
 *   returns  the tensor, NULL on failure
 *   owner    the caller, until ts_close
 *   errors   TS_ERR_IO, TS_ERR_FORMAT (not a tensor, or damaged), TS_ERR_MEMORY, TS_ERR_BUSY (it is
 *            being replaced)
 */
TS_API ts_tensor *ts_open(const char *path, ts_error *err);

/* A dense tensor in memory: an array without gaps. */
typedef struct {
    size_t size;         /* sizeof(ts_array_conf) */
    const char *name;    /* name in errors and records; NULL: "array" */
    const void *cells;   /* the cells, with any alignment */
    const char *type;    /* type of a cell: "float32", "float64", or "int8" to "uint64" */
    uint32_t order;      /* 2 to 8 */
    const uint64_t *dim; /* sizes of the modes */
    int fortran;         /* not 0: the first index changes fastest; 0: the last index */
    int swapped;         /* not 0: cells do not have the byte order of this machine */
    /* names of the modes, and for each mode names of its indices, as many as its size; NULL, and
     * NULL in place of one of them: none. They are copied. */
    const char *const *mode_name;
    const char *const *const *label;
} ts_array_conf;

/* Opens an array and reads it once, for the norm. Nothing is copied. NaN cells are unknown, and
 * runs then need `observed` of ts_cp_conf.
 *
 *   returns  the tensor, NULL on failure
 *   owner    the caller, until ts_close; the cells belong to the caller and must not change until
 *            then
 *   errors   TS_ERR_ARGUMENT, TS_ERR_FORMAT (an impossible shape, an infinite cell), TS_ERR_LIMIT,
 *            TS_ERR_MEMORY
 */
TS_API ts_tensor *ts_open_array(const ts_array_conf *conf, ts_error *err);

/* Closes a tensor; NULL is fine. No session, cursor or walk may use it any more.
 *
 *   errors   none
 */
TS_API void ts_close(ts_tensor *t);

/* Properties of a tensor: ts_path: the path that it was opened with; ts_order: the number of modes;
 * ts_dim: the number of indices of a mode, 0 if the mode does not exist; ts_used: the number of
 * indices of a mode that have a nonzero; ts_nnz: the number of nonzeros; ts_norm: the square root
 * of the sum of squares of all cells; ts_value_bytes: bytes of a value, 4 for float32 and 8 for
 * float64; ts_first_index: the first index of its input, 0 or 1, for display; ts_is_dense: whether
 * it is a dense tensor; ts_has_duplicates: whether cells hold several nonzeros. Such a cell is
 * their sum. The norm then takes one pass over the tensor, and is NaN if the pass fails.
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

/* Checks that a JSON file of a command (models.json, run.json) is unchanged. `bytes` has its n
 * bytes, and `name` is its name in errors. Its version must be known and its checksum correct.
 *
 *   returns  0; 1 for a file of 0.2.0 or earlier, which has no checksum; or the code of a failure
 *   errors   TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_json_file_check(const char *name, const void *bytes, size_t n, ts_error *err);

/* Whether sessions and runs with this loss (TS_LOSS_...) imply `observed`, because nothing else is
 * possible. This is so if cells of the tensor have weights or are unknown (NaN), or if the loss
 * needs positive values and all cells are listed. A dense tensor is read if that has not happened
 * before.
 *
 *   returns  1 or 0
 *   errors   none: 0 for a tensor that cannot be read; opening a session reports the cause
 */
TS_API int ts_takes_observed(const ts_tensor *t, int loss);

/* The name of a mode, or of the values for mode == order.
 *
 *   returns  the name, NULL if there is none
 *   owner    the tensor
 *   errors   none
 */
TS_API const char *ts_name(const ts_tensor *t, uint32_t mode);

/* Gets the labels of n indices of a mode, in any order and with repetitions. ret[i] becomes the
 * label of index[i], or NULL if it has none.
 *
 *   returns  0, or the code of a failure
 *   owner    the caller, until ts_labels_free
 *   errors   TS_ERR_ARGUMENT (no such mode), TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_labels(const ts_tensor *t, uint32_t mode, uint64_t n, const uint64_t *index,
                     char **ret, ts_error *err);

/* Frees the n labels of ts_labels and sets them to NULL. The array itself belongs to the caller.
 *
 *   errors   none
 */
TS_API void ts_labels_free(uint64_t n, char **label);

/* Gets the indices of a mode that have a nonzero, ascending. ret has room for ts_used of them.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (no such mode), TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_used_indices(const ts_tensor *t, uint32_t mode, uint64_t *ret, ts_error *err);

/* Receives n nonzeros, at most 16384. index is n x order, value has n numbers. Both belong to the
 * library and are valid during the call. thread is less than conf->threads. A result other than 0
 * ends the walk with TS_ERR_STOPPED. */
typedef int ts_each_fn(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                       const double *value);

typedef struct {
    size_t size;
    uint32_t mode;    /* read the copy that is sorted by this mode first */
    uint32_t threads; /* 1: in the order of the copy; more: in any order; 0: all CPUs */
    ts_each_fn *fn;
    void *ctx;
    const volatile int *stop; /* may be NULL */
} ts_each_conf;

/* Walks over all nonzeros. Memory: a shard (4 MiB by default) and 16384 nonzeros for each thread.
 *
 *   returns  0, or the code of a failure
 *   threads  conf->fn is called from conf->threads threads
 *   errors   TS_ERR_ARGUMENT, TS_ERR_IO, TS_ERR_FORMAT (damage: every shard is checked),
 *            TS_ERR_MEMORY, TS_ERR_STOPPED
 */
TS_API int ts_each(const ts_tensor *t, const ts_each_conf *conf, ts_error *err);

/* A walk in steps that the caller takes. */
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

/* Gets the next nonzeros: *n of them, at most `room`, and 0 at the end. room is at least 256. index
 * has room for room x order numbers, value for room numbers.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (too little room), TS_ERR_IO, TS_ERR_FORMAT
 */
TS_API int ts_cursor_next(ts_cursor *c, uint64_t room, uint64_t *index, double *value, uint64_t *n,
                          ts_error *err);

/* ---- building ---- */

/* What to do with several nonzeros of one cell. */
enum {
    TS_SUM_DUPLICATES = 0,
    TS_KEEP_DUPLICATES = 1,
    TS_REFUSE_DUPLICATES = 2 /* the build fails */
};

/* What becomes of each value, after those of a cell were added up; 0 stays 0. */
enum {
    TS_BUILD_AS_IT_IS = 0,
    TS_BUILD_LOG1P = 1,  /* log(1 + value) */
    TS_BUILD_BINARY = 2, /* 1 */
    TS_BUILD_SCALE = 3   /* `scale` times the value */
};

/* Progress of a build; valid during the call. */
typedef struct {
    size_t size;
    const char *what, *unit;
    uint32_t phase, n_phases; /* from 1 */
    uint64_t done, total;     /* total 0: unknown */
} ts_build_progress;

/* Settings of a build, without the source of its nonzeros. */
typedef struct {
    size_t size;
    const char *out;      /* directory to write; it appears when it is complete and on disk */
    int replace;          /* replace an existing tensor; other files are never touched */
    uint64_t memory;      /* memory of the build, at least 32 MiB; 0: half of the free memory */
    const char *tmp;      /* directory for sorted runs; NULL: that of `out` */
    uint32_t threads;     /* number of threads; 0: all CPUs */
    uint64_t shard_bytes; /* 64 KiB to 256 MiB; 0: 4 MiB, as in tshard build */
    int duplicates;       /* several nonzeros of one cell: TS_SUM_DUPLICATES and so on */
    int float64;          /* store values as float64 instead of float32 */
    /* first index of text, 0 or 1, also for display; arrays and binary files start at 0 */
    uint32_t first_index;
    const uint64_t *dim;      /* sizes of the modes; NULL: the largest indices */
    uint32_t order;           /* length of dim and name. A builder needs it: its number of modes */
    const char *const *name;  /* names of the modes; NULL: none */
    const char *const *label; /* for each mode a file with a label a line, or NULL; NULL: none */
    uint32_t n_labels;        /* length of label. The files are read after all nonzeros */
    const volatile int *stop; /* may be NULL */
    void (*progress)(void *ctx, const ts_build_progress *p); /* called at times; may be NULL */
    ts_note_fn *note;                                        /* may be NULL */
    void *ctx;
    int keep_zeros; /* keep listed cells of value 0, for observed of ts_cp */
    /* For a builder: cells have weights (ts_builder_add_weighted).
     * With observed of ts_cp a weight multiplies the terms of its
     * cell. Values are then float32. Several nonzeros of one cell
     * become their weighted mean, with the sum of their weights. */
    int weights;
    int skip_missing; /* skip and count lines of files with a missing field; 0: they are an error */
    int no_space_check; /* start even if free disk space is less than the build needs at least */
    uint64_t expect;    /* for a builder: number of nonzeros to come, without zeros; 0: unknown */
    int partial_map;    /* files of labels may have more or fewer names than the mode has indices */
    int transform;      /* of values: TS_BUILD_LOG1P and so on */
    double scale;       /* of TS_BUILD_SCALE: finite, not 0 */
    int repeat;         /* of an append: nonzeros may be those of an earlier one */
    /* For a builder whose arrays were made of a table: lines that
     * the file `options` of the tensor gets beside its own
     * (docs/format.md), such as "value=rating", or "bin.3=7d" of
     * mode 3. A later append finds its columns by them. */
    const char *const *told;
    uint32_t n_told;
} ts_build_conf;

typedef struct {
    size_t size;
    uint64_t nnz;        /* nonzeros of the tensor */
    uint64_t read;       /* nonzeros of the input */
    uint64_t duplicates; /* nonzeros of the input that were merged with others */
    uint64_t zeros;      /* zeros of the input that were left out */
    uint64_t runs;       /* sorted runs in temporary files */
    /* values and weights that became 0, because they are too small for a normal number */
    uint64_t rounded;
    uint64_t missing;  /* lines of files that skip_missing left out */
    uint32_t segments; /* that the tensor has now: 1, and one more for each append */
} ts_build_result;

/* Builds one tensor from files in the formats of `tshard build`. "-" is standard input. ret may be
 * NULL.
 *
 *   returns  0 once the tensor is in place, or the code of a failure; then no part of it remains
 *   errors   TS_ERR_ARGUMENT, TS_ERR_FORMAT (file and line are named), TS_ERR_IO, TS_ERR_LIMIT
 *            (sizes, memory), TS_ERR_MEMORY, TS_ERR_BUSY (conf->out exists), TS_ERR_STOPPED
 */
TS_API int ts_build_files(const ts_build_conf *conf, uint32_t n_paths, const char *const *path,
                          ts_build_result *ret, ts_error *err);

/* Whether the first line of a table names its columns. */
enum { TS_HEADER_AUTO = 0, TS_HEADER_YES = 1, TS_HEADER_NONE = 2 };

/* Columns of a table, as the options of `tshard build` give them. A column or a mode is given by
 * its name, or by its number from 1. */
typedef struct {
    size_t size;
    const char *separator; /* one character: " " is blanks and tabs; NULL: a comma */
    int header;            /* TS_HEADER_AUTO and so on */
    /* columns that are modes; NULL: those in name of the conf, or all
     * but the last */
    const char *const *column;
    uint32_t n_columns;
    const char *value, *weights; /* columns; value "none": each line counts as 1 */
    const char *const *text;     /* modes whose fields are names, even if they look like numbers */
    uint32_t n_text;
    const char *const *bin; /* "week=7d": a mode that is a time, and the width of its bins */
    uint32_t n_bins;
    /* units of times as in ts_bins_new: "week=s", or "s" for all modes
     * that are times */
    const char *const *time_unit;
    uint32_t n_units;
    int sorted_names;  /* names get indices in the order of their bytes */
    int decimal_comma; /* 1,5 is one and a half, in columns of values and weights */
    int no_quotes;     /* double quotes are characters as any other */
} ts_table_conf;

/* Builds a tensor from files that are parts of one table: CSV, TSV, or columns separated by blanks.
 * ret may be NULL.
 *
 *   returns  0 once the tensor is in place, or the code of a failure; then no part of it remains
 *   errors   those of ts_build_files
 */
TS_API int ts_build_table(const ts_build_conf *conf, const ts_table_conf *table, uint32_t n_paths,
                          const char *const *path, ts_build_result *ret, ts_error *err);

/* A build from arrays that are added piece by piece, in any order. It needs the memory of conf for
 * any number of nonzeros. */
typedef struct ts_builder ts_builder;

/* Begins a build. It runs in its own threads, and one of them calls the callbacks of conf. Strings
 * and arrays of conf must stay valid until ts_builder_free.
 *
 *   returns  the builder, NULL on failure
 *   owner    the caller, until ts_builder_free
 *   errors   TS_ERR_ARGUMENT, TS_ERR_MEMORY; ts_builder_add and ts_builder_finish report other
 *            errors
 */
TS_API ts_builder *ts_builder_new(const ts_build_conf *conf, ts_error *err);

/* Adds n nonzeros. index is n x order, from 0; value has n numbers. Zeros are left out. The caller
 * may reuse the arrays after the call. After a failure only ts_builder_free is allowed.
 *
 *   returns  0, or the code of a failure, which may be one of the build
 *   threads  any number of threads may add
 *   errors   TS_ERR_ARGUMENT (an index beyond its mode, a value that is not finite), and those of
 *            ts_build_files
 */
TS_API int ts_builder_add(ts_builder *b, uint64_t n, const uint64_t *index, const double *value,
                          ts_error *err);

/* The same for a conf with weights. Each nonzero has a weight of 0 or more; a cell of weight 0 does
 * not count. ts_builder_add adds nonzeros of weight 1 to such a builder.
 *
 *   returns  0, or the code of a failure, which may be one of the build
 *   threads  any number of threads may add
 *   errors   those of ts_builder_add; TS_ERR_ARGUMENT (a negative weight, one beyond float32, or a
 *            builder without weights)
 */
TS_API int ts_builder_add_weighted(ts_builder *b, uint64_t n, const uint64_t *index,
                                   const double *value, const double *weight, ts_error *err);

/* The same of columns: index[m] has n indices of mode m. weight has n weights of a conf with
 * weights, or is NULL: weights of 1.
 *
 *   returns  0, or the code of a failure, which may be one of the build
 *   threads  any number of threads may add
 *   errors   those of ts_builder_add_weighted
 */
TS_API int ts_builder_add_columns(ts_builder *b, uint64_t n, const uint64_t *const *index,
                                  const double *value, const double *weight, ts_error *err);

/* Ends the input and waits until the tensor is in place. ret may be NULL.
 *
 *   returns  0, or the code of a failure; then no part of the tensor remains
 *   errors   those of ts_build_files
 */
TS_API int ts_builder_finish(ts_builder *b, ts_build_result *ret, ts_error *err);

/* Frees a builder; NULL is fine. Before ts_builder_finish it ends the build, and no part of the
 * tensor remains.
 *
 *   errors   none
 */
TS_API void ts_builder_free(ts_builder *b);

/* Begins an append of arrays to the tensor conf->out, as a new segment. ts_builder_add and the
 * other functions of a builder do the rest, and the segment appears when ts_builder_finish returns.
 * Of conf, memory, tmp, threads, shard_bytes, stop, progress, note, expect, repeat and label are
 * used. Files of labels have the labels of the tensor, and then those of new indices. Other fields
 * that are not 0 must be as in the build of the tensor. Tensors that are open stay as they are.
 *
 *   returns  the builder, NULL on failure
 *   owner    the caller, until ts_builder_free
 *   errors   TS_ERR_ARGUMENT (conf differs from the tensor), TS_ERR_IO, TS_ERR_FORMAT,
 *            TS_ERR_MEMORY; ts_builder_add and ts_builder_finish also report those of
 *            ts_append_files
 */
TS_API ts_builder *ts_builder_append(const ts_build_conf *conf, ts_error *err);

/* Appends files to the tensor conf->out, as tshard append does. Fields of conf and table that are 0
 * have the values of the tensor's build, and others must be as they were then. table may be NULL.
 * Segments are never merged by this call. In `ret`, which may be NULL, nnz is that of the new
 * segment.
 *
 *   returns  0 once the segment is in place, or the code of a failure; then nothing has changed
 *   errors   those of ts_build_files; TS_ERR_ARGUMENT (a difference to the build of the tensor,
 *            or nonzeros that were appended before, without `repeat`), TS_ERR_BUSY (another process
 *            changes the tensor, or it may not be written)
 */
TS_API int ts_append_files(const ts_build_conf *conf, const ts_table_conf *table, uint32_t n_paths,
                           const char *const *path, ts_build_result *ret, ts_error *err);

/* Takes back what was appended last, as tshard undo does. In `ret`, which may be NULL, nnz is that
 * of the segment that is gone.
 *
 *   returns  0, or the code of a failure; then nothing has changed
 *   errors   TS_ERR_ARGUMENT (nothing was appended), TS_ERR_BUSY, TS_ERR_IO, TS_ERR_FORMAT,
 *            TS_ERR_MEMORY
 */
TS_API int ts_undo(const char *path, ts_build_result *ret, ts_error *err);

/* Opens one segment of a tensor as a tensor of its own: number 0 is what was built, and UINT32_MAX
 * the last append. Nothing is merged. Sizes and labels of the last one are those of the whole.
 *
 *   returns  the tensor, NULL on failure
 *   owner    the caller, until ts_close
 *   errors   those of ts_open; TS_ERR_ARGUMENT (no such segment)
 */
TS_API ts_tensor *ts_open_segment(const char *path, uint32_t number, ts_error *err);

/* Merges all segments of the tensor conf->out into one, as tshard compact does. Of conf, memory,
 * tmp, threads, shard_bytes (0: those of the tensor), stop, progress and note are used. ret may be
 * NULL, and only its segments are set.
 *
 *   returns  0, also if there is one segment, or the code of a failure; then nothing has changed
 *   errors   those of ts_build_files
 */
TS_API int ts_compact(const ts_build_conf *conf, ts_build_result *ret, ts_error *err);

/* How a tensor was built: the text of an option of its file `options` (docs/format.md), such as
 * "value" or, of a mode, "bin". Others have mode 0. At most 4096 bytes are written.
 *
 *   returns  1 with the text, 0 if the tensor does not say it, or the code of a failure
 *   errors   TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_built_with(const ts_tensor *t, const char *key, uint32_t mode, size_t room, char *ret,
                         ts_error *err);

/* Builds a copy of a tensor with other sizes, shards, names or precision. Fields of conf that are
 * zero have the values of `t`. ret may be NULL. A tensor with weights (tshard build --weights) is
 * refused.
 *
 *   returns  0 once the tensor is in place, or the code of a failure; then no part of it remains
 *   errors   those of ts_build_files
 */
TS_API int ts_build_copy(const ts_build_conf *conf, const ts_tensor *t, ts_build_result *ret,
                         ts_error *err);

/* Selects nonzeros of a tensor: those that meet all of these conditions. Zero is no condition. */
typedef struct {
    size_t size;
    /* share of the nonzeros that is held out, in [0, 1). A hash of the
     * cell and the seed chooses the same cells as hold_out of ts_cp.
     * They are left out; with `held` they alone are taken */
    double hold_out;
    uint64_t seed;
    int held;
    /* for each mode n_keep indices to take, from 0 and in any order;
     * NULL: all */
    const uint64_t *const *keep;
    const uint64_t *n_keep;
    /* for each mode: fewest nonzeros of a slice, in the whole tensor; NULL: all */
    const uint64_t *at_least;
    uint32_t sum_modes; /* bit m: leave mode m out, and add nonzeros that then share a cell */
} ts_select_conf;

/* Builds a tensor from a part of another, as `tshard split` and `tshard select` do, within
 * conf->memory. Sizes, names, labels, the first index, precision, kept zeros and kept duplicates
 * are those of `t`; these fields of conf are ignored. ret may be NULL.
 *
 *   returns  0 once the tensor is in place, or the code of a failure; then no part of it remains
 *   errors   those of ts_build_files; TS_ERR_FORMAT if no nonzero is left
 */
TS_API int ts_build_select(const ts_build_conf *conf, const ts_tensor *t,
                           const ts_select_conf *select, ts_build_result *ret, ts_error *err);

/* Bins of the times of one mode, as in `tshard build --bin`, for a caller that turns times into
 * indices. Bins count from the year 1, so the caller subtracts the smallest. */
typedef struct ts_bins ts_bins;

#define TS_BINS_LABEL 32 /* bytes of a label */

/* Makes bins of a width such as "7d", "1h" or "1mo". `unit` is the unit of numbers: "s", "ms", "us"
 * or "ns" since 1970, "date" (20240131), "year", or "iso" (numbers are not times). NULL:
 * ts_bins_look decides. `name` is the name of the mode in errors.
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

/* Looks at n times, written as in a file, before the first ts_bins_of. They decide the unit of
 * numbers.
 *
 *   threads  one at a time
 *   errors   none
 */
TS_API void ts_bins_look(ts_bins *b, uint64_t n, const char *const *time);

/* Gets the bins of n times. An ambiguous time is refused, and the error names both readings.
 * *n_taken is the number of times that were taken: on failure, the position of the refused time
 * from 0.
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

/* Precision of factors. */
enum { TS_REAL_FLOAT32 = 0, TS_REAL_FLOAT64 = 1 };

/* A sum of `rank` rank-one tensors: weights, and for each mode a factor matrix with a row for each
 * index. In modes with empty slices, only rows that can be nonzero are stored. Read-only. */
typedef struct ts_kruskal ts_cpd;

/* Makes a decomposition from arrays, which are copied. factor[m] is dim[m] x rank and is stored in
 * `precision`. Nothing is sorted or normalised.
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free
 *   errors   TS_ERR_ARGUMENT (shapes, numbers that are not finite), TS_ERR_MEMORY
 */
TS_API ts_cpd *ts_cpd_new(uint32_t order, const uint64_t *dim, uint32_t rank, int precision,
                          const double *weight, const double *const *factor, ts_error *err);

/* Makes a decomposition from stored rows, which are copied, as ts_cpd_held, ts_cpd_index and
 * ts_cpd_factor give them. factor[m] is n_rows[m] x rank numbers, float or double by `precision`.
 * index[m] has their indices, ascending; NULL: row i is index i, and n_rows[m] is dim[m].
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free
 *   errors   TS_ERR_ARGUMENT (shapes, indices, numbers that are not finite), TS_ERR_MEMORY
 */
TS_API ts_cpd *ts_cpd_new_rows(uint32_t order, const uint64_t *dim, const uint64_t *n_rows,
                               const uint64_t *const *index, uint32_t rank, int precision,
                               const double *weight, const void *const *factor, ts_error *err);

/* Reads a decomposition of `tstream cp`, Tensor Toolbox, pyttb or SPLATT: a ktensor file or a
 * directory. In a directory .npy files come first. Factors of 1 MiB or more in .npy files are
 * checked and then mapped. Such a file may be removed or replaced, but not written to, while the
 * decomposition exists.
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free
 *   errors   TS_ERR_IO, TS_ERR_FORMAT (file and line or byte are named), TS_ERR_MEMORY,
 *            TS_ERR_STOPPED
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
    /* write stored rows only, with a file of their indices; 0: a row for each index */
    int held_rows;
    int replace;      /* replace a decomposition of this library; other files are never touched */
    uint32_t threads; /* 0: all CPUs */
    const volatile int *stop;
    ts_note_fn *note;
    void *ctx;
    int no_labels; /* write no labels of rows; names of modes and the tensor are written anyway */
    /* NULL, or a JSON object that begins with {"program":"tstream": the file history.json */
    const char *history;
} ts_save_conf;

/* Writes a decomposition as files in `dir`, which appears when it is complete and on disk. conf may
 * be NULL.
 *
 *   returns  0, or the code of a failure; then `dir` is unchanged
 *   errors   TS_ERR_ARGUMENT, TS_ERR_BUSY (`dir` exists), TS_ERR_IO, TS_ERR_LIMIT (not enough disk
 *            space), TS_ERR_MEMORY, TS_ERR_STOPPED
 */
TS_API int ts_cpd_save(const ts_cpd *c, const char *dir, const ts_save_conf *conf, ts_error *err);

/* Properties of a decomposition: the number of modes, the number of components, the precision
 * (TS_REAL_...), the number of indices of a mode (0 if the mode does not exist), and the weights of
 * the components.
 *
 *   owner    the decomposition owns the weights
 *   errors   none
 */
TS_API uint32_t ts_cpd_order(const ts_cpd *c);
TS_API uint32_t ts_cpd_rank(const ts_cpd *c);
TS_API int ts_cpd_precision(const ts_cpd *c);
TS_API uint64_t ts_cpd_dim(const ts_cpd *c, uint32_t mode);
TS_API const double *ts_cpd_weights(const ts_cpd *c);

/* The stored rows of a mode: their number, their entries (rows x rank, float or double by
 * precision), and their indices, ascending. The indices are NULL if row i is index i.
 *
 *   returns  0 or NULL if the mode does not exist
 *   owner    the decomposition, until ts_cpd_free
 *   errors   none
 */
TS_API uint64_t ts_cpd_held(const ts_cpd *c, uint32_t mode);
TS_API const void *ts_cpd_factor(const ts_cpd *c, uint32_t mode);
TS_API const uint64_t *ts_cpd_index(const ts_cpd *c, uint32_t mode);

/* Copies the rows of n indices from `first` on, including rows of zeros. ret has room for n x rank
 * numbers.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (no such mode, no such rows)
 */
TS_API int ts_cpd_rows(const ts_cpd *c, uint32_t mode, uint64_t first, uint64_t n, double *ret,
                       ts_error *err);

/* Finds the indices and values of the n entries of largest magnitude in a column, the largest
 * first. Of equal entries, the lower index comes first. *found is their number, which is smaller if
 * the mode has fewer rows.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (no such mode or component), TS_ERR_MEMORY
 */
TS_API int ts_cpd_top(const ts_cpd *c, uint32_t mode, uint32_t component, uint32_t n,
                      uint64_t *index, double *value, uint32_t *found, ts_error *err);

/* Computes the values of n cells in float64. index is n x order, ret has room for n numbers.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (an index beyond its mode)
 */
TS_API int ts_cpd_predict(const ts_cpd *c, uint64_t n, const uint64_t *index, double *ret,
                          ts_error *err);

/* Counts the cells, of n cells with values of ts_cpd_predict, that have an index with a row of
 * zeros in the model, such as an index without nonzeros. There the value 0 is not a prediction. (As
 * log odds it is a probability of 1/2, as a logarithm it is a mean of 1.)
 *
 *   returns  their number
 *   errors   none
 */
TS_API uint64_t ts_cpd_unseen(const ts_cpd *c, uint64_t n, const uint64_t *index,
                              const double *value);

/* Names that a decomposition carries: the name of a mode, or of the values for mode = order (NULL
 * if there is none), the first index of the input (0 or 1), and how many indices of a mode have a
 * label. A decomposition of ts_cp has those of its tensor, one of ts_cpd_load those of the file
 * `labels` beside its factors, and one of ts_cpd_new none.
 *
 *   owner    the decomposition owns a name; it has at most 255 bytes, of any kind except newline
 *   errors   none
 */
TS_API const char *ts_cpd_name(const ts_cpd *c, uint32_t mode);
TS_API uint32_t ts_cpd_first_index(const ts_cpd *c);
TS_API uint64_t ts_cpd_labelled(const ts_cpd *c, uint32_t mode);

/* Gets the labels of n indices of a mode, as ts_labels does for a tensor. The tensor is not needed:
 * it may be closed and removed. A decomposition of ts_cp keeps the tensor's files of labels open,
 * and all decompositions of one tensor share them. One of ts_cpd_load holds a file `labels` of up
 * to 1 MiB in memory, and keeps a larger one open. So memory does not grow with the labels.
 *
 *   returns  0, or the code of a failure; then no label is held
 *   owner    the caller, until ts_labels_free
 *   errors   TS_ERR_ARGUMENT (no such mode), TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_MEMORY
 */
TS_API int ts_cpd_labels(const ts_cpd *c, uint32_t mode, uint64_t n, const uint64_t *index,
                         char **ret, ts_error *err);

/* Which tensor a decomposition is of. ts_cpd_dim gives its shape. */
typedef struct {
    size_t size;
    int known;         /* 0: no tensor is named, and other fields but float32 are 0 */
    uint32_t segments; /* directories that the tensor is in: 1 */
    uint64_t nnz;      /* its nonzeros, or its cells if it is dense */
    uint64_t checksum; /* of its index, as in run.json; of a dense tensor 0 or that of its cells */
    int has_sum;       /* the sum is known: not for dense tensors and for old ones */
    uint64_t sum[2];   /* of its cells, which does not depend on their order: see docs/format.md */
    int float32;       /* of ts_cpd_load: factors were saved as float32, also if text has them */
} ts_cpd_origin;

/* Tells which tensor it is. The caller sets the size of *ret.
 *
 *   errors   none
 */
TS_API void ts_cpd_tensor(const ts_cpd *c, ts_cpd_origin *ret);

/* Names for a decomposition. Zero means that there are none. */
typedef struct {
    size_t size;
    const ts_cpd *from;      /* NULL, or whose names are taken: then the other fields are ignored */
    const char *const *name; /* order + 1 names, the values last; NULL, as each may be, is none */
    /* for each mode its labels: n_labels[m] strings without newlines. NULL, as label[m] and each
     * string may be, is none. */
    const char *const *const *label;
    const uint64_t *n_labels;
    /* for each mode the indices of its labels, ascending; NULL, as each may be: from 0 on */
    const uint64_t *const *index;
    uint32_t first_index;        /* of the input: 0 or 1 */
    const ts_cpd_origin *tensor; /* NULL: no tensor is named */
} ts_cpd_names;

/* Gives a decomposition these names in place of those that it has. Everything is copied, and labels
 * are packed. No other thread may use the decomposition meanwhile.
 *
 *   returns  0, or the code of a failure; then the names are those before
 *   errors   TS_ERR_ARGUMENT (sizes, a label of two lines), TS_ERR_MEMORY
 */
TS_API int ts_cpd_set_names(ts_cpd *c, const ts_cpd_names *names, ts_error *err);

/* ---- sessions ---- */

/* Loss functions. TS_LOSS_LEAST_SQUARES: squared distance to the tensor. TS_LOSS_POISSON: counts,
 * the model gives Poisson means (CP-APR), and its factors are nonnegative. The others are
 * generalized CP. A sweep takes a gradient step of each mode, so give a few hundred sweeps. Their
 * fit is the explained share of the deviance. TS_LOSS_BERNOULLI: zeros and ones, the model gives
 * odds. TS_LOSS_BERNOULLI_LOGIT: zeros and ones, the model gives log odds. TS_LOSS_GAMMA: positive
 * numbers, with observed; the model gives means of gamma distributions. TS_LOSS_POISSON_LOG:
 * counts, the model gives logarithms of means. TS_LOSS_HUBER: squares of small errors, and a
 * multiple of the magnitude of larger errors. */
enum {
    TS_LOSS_LEAST_SQUARES = 0,
    TS_LOSS_POISSON = 1,
    TS_LOSS_BERNOULLI = 2,
    TS_LOSS_BERNOULLI_LOGIT = 3,
    TS_LOSS_GAMMA = 4,
    TS_LOSS_POISSON_LOG = 5,
    TS_LOSS_HUBER = 6
};

/* Looks up a loss by its name in --loss of the programs. A number follows after a colon if the loss
 * takes one: "gamma", "huber:0.5". *loss and *loss_at are values for `loss` and `loss_at` of the
 * confs below.
 *
 *   returns  0, or the code of a failure; then *loss and *loss_at do not change
 *   errors   TS_ERR_ARGUMENT, with the names of all losses
 */
TS_API int ts_loss_named(const char *text, int *loss, double *loss_at, ts_error *err);

/* The name of a loss, and the letter of its number in help, such as "D". Losses count from 0.
 *
 *   owner    the library
 *   errors   none: both are NULL beyond the last loss. ts_loss_number is NULL for a loss without a
 *            number
 */
TS_API const char *ts_loss_name(int loss);
TS_API const char *ts_loss_number(int loss);

/* Optimizers of losses after TS_LOSS_POISSON. ADAM takes a step of each mode in a sweep, with a new
 * sample of the unlisted cells. LBFGSB takes one L-BFGS-B step of all modes in a sweep, with the
 * same sample throughout. */
enum { TS_OPTIMIZER_ADAM = 0, TS_OPTIMIZER_LBFGSB = 1 };

typedef struct {
    size_t size;
    uint32_t rank;    /* 1 to 2048 */
    int precision;    /* precision of factors and products: TS_REAL_FLOAT32 and so on */
    uint32_t threads; /* number of threads; 0: all CPUs. The result does not depend on it */
    /* memory for shards, without factors; 0: the free memory, less a reserve */
    uint64_t host_memory;
    int cpu;             /* compute on CPU cores, even if there is a GPU */
    const char *gpus;    /* as --gpus of the programs: "2", "0,2"; NULL: one if there is one */
    uint64_t gpu_memory; /* memory of each GPU; 0: the free memory */
    volatile int *stop;  /* may be NULL; a callback whose result is not 0 sets it */
    ts_note_fn *note;    /* called from the calling thread; may be NULL */
    /* Called with a number of nonzeros that were processed, from any
     * thread, even from several at once; may be NULL. */
    void (*work)(void *ctx, uint64_t nnz);
    void *ctx;
    /* runs write checkpoints; a copy of one takes at most an eighth of host_memory */
    int checkpoints;
    const char *trace; /* file for a timeline, JSON for ui.perfetto.dev; NULL: none */
    int replace;       /* replace a trace of the library; other files are never touched */
    /* From here on: settings that runs of the session may use, because
     * they need memory. Bit m: nonneg, l1, simplex or bounds of mode
     * m, or fix of mode m if it is the last. It needs memory for a
     * second factor of this size, on GPUs if they compute. */
    uint32_t own_rows;
    int accelerate; /* accelerate, which needs host memory for second factors */
    /* Bit m: smooth of mode m. It needs memory for the factor in
     * float64 and a little more, and twice as much if own_rows has the
     * bit. */
    uint32_t smooth;
    /* observed. It needs memory for Gram matrices of rows that parts of
     * the tensor share. On GPUs the rank for a dense array is at most
     * 128 (in float64: 64). */
    int observed;
    /* loss, TS_LOSS_... TS_LOSS_POISSON needs memory for a second
     * factor of the largest size, and a little more for each thread.
     * The losses after it also need host memory for two more models. */
    int loss;
    /* TS_OPTIMIZER_... of such a loss. LBFGSB needs memory for twelve
     * more models instead of two. */
    int optimizer;
    int patience; /* patience, with memory for the best factors */
    /* hold_out. Without observed and with least squares it needs a
     * little memory on GPUs, and the rank there is at most 128 (in
     * float64: 64). */
    int hold_out;
} ts_session_conf;

/* Processors and memory for a tensor, and the shards that stay in memory. */
typedef struct ts_session ts_session;

/* Opens a session: reserves processors and memory for a tensor, which must stay open.
 *
 *   returns  the session, NULL on failure
 *   owner    the caller, until ts_session_close
 *   errors   TS_ERR_ARGUMENT, TS_ERR_LIMIT (factors or budgets exceed the memory), TS_ERR_DEVICE,
 *            TS_ERR_MEMORY, TS_ERR_IO, TS_ERR_FORMAT, TS_ERR_STOPPED
 */
TS_API ts_session *ts_session_open(const ts_tensor *t, const ts_session_conf *conf, ts_error *err);

/* Releases a session; NULL is fine. Its decompositions stay valid. A trace gets its name now,
 * unless a run has failed or was stopped. An error of the trace is a note.
 *
 *   errors   none
 */
TS_API void ts_session_close(ts_session *s);

typedef struct {
    size_t size;
    uint32_t threads, n_gpus;
    uint64_t host_bytes;   /* memory for shards */
    uint64_t factor_bytes; /* memory of factor matrices on the host */
} ts_session_info;

/* Gets the resources of a session.
 *
 *   errors   none
 */
TS_API void ts_session_describe(const ts_session *s, ts_session_info *ret);

/* Progress of a run. */
typedef struct {
    size_t size;
    uint32_t sweep, mode; /* current sweep (from 1; 0 before the first run) and mode */
    uint64_t done, total; /* processed nonzeros of the mode, and all of them: an estimate */
} ts_progress;

/* Gets the progress of the run of a session, without slowing it down.
 *
 *   threads  any, also while ts_cp runs, until ts_session_close
 *   errors   none
 */
TS_API void ts_session_progress(const ts_session *s, ts_progress *ret);

/* One sweep over all modes; valid during the call. */
typedef struct {
    size_t size;
    uint32_t sweep;     /* from 1 */
    double fit, change; /* 1 - |X - model| / |X|, and its change */
    double seconds;     /* time of the sweep */
    /* its parts, as means over devices */
    double wait_seconds, copy_seconds, product_seconds, solve_seconds;
    uint64_t bytes_read;
    uint32_t n_singular;  /* modes that needed the pseudo-inverse */
    uint32_t n_dead;      /* components that are zero in some mode */
    double objective;     /* 1/2 |X - model|^2 with penalties; NaN without penalties */
    double rmse;          /* with observed: root mean square error at listed cells; else NaN */
    double held_out_rmse; /* root mean square error at held-out cells; NaN without them */
    /* With TS_LOSS_POISSON: the sum of x log m over the nonzeros, less
     * the sum of m over all cells; the objective is its negative. Else
     * NaN. */
    double log_likelihood;
    /* With TS_LOSS_POISSON: the largest violation of the optimality
     * conditions in the sweep, 0 at an optimum. Else NaN. */
    double violation;
    /* with losses other than least squares: mean loss at held-out cells; else NaN */
    double held_out_loss;
} ts_sweep;

/* What a function that is called after a sweep returns, if that was the last one: the run ends as
 * if it had made all its sweeps, and its result is that of this sweep. */
enum { TS_SWEEP_LAST = 1 << 20 };

/* Called after a sweep. A result other than 0 and TS_SWEEP_LAST ends the run with
 * TS_ERR_STOPPED. */
typedef int ts_sweep_fn(void *ctx, const ts_sweep *s);

/* Whether to continue from the last checkpoint of an earlier run with the same directory. TS_RESUME
 * requires a checkpoint; with TS_RESUME_IF_ANY a run without one starts from the beginning. Rank,
 * precision, tensor, seed, constraints and accelerate must be those of the checkpoint. sweeps and
 * tol may differ. */
enum { TS_RESUME_NEVER = 0, TS_RESUME = 1, TS_RESUME_IF_ANY = 2 };

/* Called after a mode of a sweep. A result other than 0 ends the run with TS_ERR_STOPPED. */
typedef int ts_mode_fn(void *ctx, uint32_t sweep, uint32_t mode, double seconds);

typedef struct {
    size_t size;
    uint32_t sweeps; /* maximum number of sweeps; 0: 50 */
    double tol;      /* stop when the fit changes by less; 0: run all sweeps. See loss */
    uint64_t seed;   /* seed of random initial factors */
    /* initial factors; NULL: random. Their weights count only with constraints */
    const ts_cpd *start;
    ts_sweep_fn *sweep; /* called from the calling thread; may be NULL */
    ts_mode_fn *mode;   /* called from the calling thread; may be NULL */
    void *ctx;
    double max_seconds; /* stop after this time; 0: no limit */

    /* The result on disk, as `tstream cp --out` writes it. */
    const char *out;  /* directory for the result; NULL: none */
    unsigned formats; /* file formats: sum of TS_FILE_...; 0: TS_FILE_KTENSOR */
    int held_rows;    /* as in ts_save_conf */
    int replace;      /* replace an existing result, or the checkpoint of an unfinished run */
    int resume;       /* TS_RESUME_...: whether to continue an earlier run to `out` */
    /* between checkpoints; 0: 300; negative: one if the run ends early */
    double checkpoint_seconds;
    /* Constraints. The objective is 1/2 |X - model|^2 plus, for each
     * mode, l1 times the sum of magnitudes and l2 / 2 times the sum of
     * squares of its factor. A session must be opened for them
     * (own_rows), except for l2 and for fix of other modes than the
     * last. */
    uint32_t nonneg;  /* bit m: the factor of mode m is nonnegative */
    const double *l1; /* a penalty for each mode; NULL: none */
    const double *l2; /* a penalty for each mode; NULL: none */
    /* Bit m: the factor of mode m stays as in start. Its rows of empty
     * slices are 0. The mode can have no other constraint, and at least
     * one mode must not be fixed. */
    uint32_t fix;
    /* Extrapolate between sweeps, so that fewer are needed. A sweep
     * that lowers the fit or raises the objective is discarded, so
     * fits may fall for one sweep. It needs a session that was opened
     * for it and least squares of all cells, and excludes orthogonal. */
    int accelerate;
    /* Bit m: rows of the factor of mode m are nonnegative and sum to 1.
     * Columns of such modes, and of modes with bounds, are not
     * normalised, so the weights are those of the other modes. */
    uint32_t simplex;
    /* Bounds of entries for each mode; -INFINITY and INFINITY are no
     * bounds. Both are given, or both are NULL. */
    const double *lower;
    const double *upper;
    /* Not 0, with start NULL: initial factors are the leading left
     * singular vectors of the unfoldings (in nonnegative modes their
     * positive part). They depend on seed and take about the time of
     * two sweeps. */
    int nvecs;
    /* Bit m: columns of the factor of mode m are orthonormal. The mode
     * can have no other constraint and needs at least as many used
     * indices as the rank. At least one mode must be free of fix,
     * simplex, bounds and orthogonal. */
    uint32_t orthogonal;
    /* A penalty for each mode; NULL: none. smooth / 2 times the sum of
     * squared second differences of neighbouring rows is added to the
     * objective. Empty slices count as points on the curve between
     * their neighbours. The mode has at most 2^22 indices, and no
     * simplex, fix or orthogonal. A session must be opened for it;
     * own_rows must have the mode as well if it has nonneg, l1 or
     * bounds. */
    const double *smooth;
    /* Not 0: unlisted cells are unknown, not zeros, and fits are those
     * at the listed cells. It can be combined with l2 (which all modes
     * should have), nonneg, bounds and fix. A session must be opened
     * for it. If l2 is NULL there is no penalty, even if weights or
     * NaN imply observed; tstream cp uses 0.1 in both cases. */
    int observed;
    int l2_by_count; /* count l2 once for each nonzero of a row, not once for the row */
    /* Share of the listed cells that is excluded from fitting, less
     * than 1. A hash of the cell and seed chooses them, and sweeps
     * report the error there. Without observed the model treats them
     * as zeros, like unlisted cells. In a dense tensor they are
     * unknown, and observed is implied. On GPUs with least squares and
     * without observed, a session must be opened for it. At least one
     * cell must be held out, and at least one not; else the call fails
     * with TS_ERR_ARGUMENT. */
    double hold_out;
    /* Stop when that error has not fallen for this number of sweeps;
     * 0: never stop for this reason. The result is the model with the
     * lowest error. It is kept in host memory, so a session must be
     * opened for it. */
    uint32_t patience;
    /* TS_LOSS_..., of a session that was opened for it. With
     * TS_LOSS_POISSON the run stops when the violation is less than
     * tol, and factors can only have nonneg. With losses after it,
     * factors can have l2, nonneg and bounds, and observed is
     * possible. Such a run stops when none of ten sweeps lowered the
     * loss by tol times its total decrease since the first sweep (tol
     * of the programs: 1e-4). */
    int loss;
    uint32_t inner; /* with TS_LOSS_POISSON: updates of each row in a sweep; 0: 10 */
    /* number of a loss that takes one. TS_LOSS_HUBER: errors up to it count by their squares */
    double loss_at;
    int optimizer; /* TS_OPTIMIZER_..., of a session that was opened for it */
    /* Not 0, with observed and least squares: subtract the mean of the
     * listed cells that are not held out. The result has one component
     * more than its rank, whose values are the mean. */
    int mean;
    /* Where the share of hold_out begins, from 0 to less than 1. In
     * cross-validation with K folds it is k / K, with a hold_out of
     * 1 / K. If it is not 0, `out` must be NULL. */
    double hold_out_from;
    /* Not 0, with out: also write the initial factors to init.ktensor,
     * in float64. Another run computes the same bits with this start
     * and the same seed (a loss, hold_out and orthogonal also use the
     * seed). A resumed run writes the start that it saved. It can also
     * write random or given factors, but not computed ones (nvecs, or
     * the start of a loss): that is an error. Several models that
     * began with 1 can continue with 0; those that began with 0 cannot
     * continue with 1. */
    int save_init;
    int no_labels; /* as in ts_save_conf */
} ts_cp_conf;

typedef struct {
    size_t size;
    double fit;
    uint32_t sweeps;
    int converged;              /* the run stopped because of tol */
    int exact;                  /* |X - model| is rounding only */
    uint32_t sweeps_before;     /* of the sweeps, those of the earlier run that was resumed */
    uint32_t n_dead;            /* components that are zero in some mode */
    double objective;           /* as in ts_sweep */
    double rmse, held_out_rmse; /* as in ts_sweep */
    int overfits;               /* the run stopped because of patience */
    double log_likelihood, violation, held_out_loss; /* as in ts_sweep */
    double mean;                                     /* the subtracted mean; NaN: none */
    uint32_t best_sweep; /* with patience: the sweep of the model; else 0 */
} ts_cp_result;

/* Computes a CP decomposition. Its columns have norm 1, are sorted by weight, and have fixed signs.
 * conf and ret may be NULL. A session serves any number of runs, until one fails or is stopped.
 *
 * With conf->out the result is also written to this directory. Until it is complete, checkpoints
 * lie beside it, in OUT.partial. After a failure, a stop or a crash the run can continue from them,
 * with conf->resume or with `tstream cp --resume OUT`. The library can also continue runs of
 * `tstream cp`. The bits are those of an uninterrupted run. The result has the record of the run,
 * run.json, which `tstream info` shows. A thread of the run writes OUT.partial/status.json once a
 * second, which `tstream status` shows.
 *
 *   returns  the decomposition, NULL on failure
 *   owner    the caller, until ts_cpd_free; it does not need the session
 *   errors   TS_ERR_ARGUMENT, TS_ERR_LIMIT (numbers beyond the range of the precision), TS_ERR_IO,
 *            TS_ERR_FORMAT (a damaged shard or checkpoint), TS_ERR_DEVICE, TS_ERR_MEMORY,
 *            TS_ERR_BUSY (conf->out exists), TS_ERR_STOPPED. The sentence names the checkpoint that
 *            is kept
 */
TS_API ts_cpd *ts_cp(ts_session *s, const ts_cp_conf *conf, ts_cp_result *ret, ts_error *err);

/* Several models of a tensor, of several ranks and starts. */

/* Called after a sweep of a model, which counts from 0. TS_SWEEP_LAST ends the run of this model
 * alone. Another result than 0 ends all runs with TS_ERR_STOPPED. */
typedef int ts_several_sweep_fn(void *ctx, uint32_t model, const ts_sweep *s);

typedef struct {
    size_t size;
    uint32_t n_ranks;     /* at least 1 */
    const uint32_t *rank; /* n_ranks different ranks; that of the session's conf is ignored */
    uint32_t restarts;    /* models of each rank, with seeds seed, seed + 1 and so on; 0: 1 */
    /* Settings of all models, without sweep, mode and start; NULL:
     * defaults. max_seconds is the time of all models together, and out
     * is the directory of all models. */
    const ts_cp_conf *run;
    /* Initial factors of each model, NULL for random ones. NULL: all
     * random. */
    const ts_cpd *const *start;
    ts_several_sweep_fn *sweep; /* called from the calling thread; may be NULL */
    void *ctx;
} ts_several_conf;

/* A row of the table of models. */
typedef struct {
    size_t size;
    uint32_t rank;
    uint32_t sweeps;
    uint64_t seed;
    double fit, objective; /* as in ts_cp_result */
    int converged, exact;  /* as in ts_cp_result */
    uint32_t n_dead;       /* as in ts_cp_result */
    /* the best of its rank: highest fit; with penalties lowest objective; with hold_out lowest
     * error at held-out cells. Of equal models, the first */
    int best;
    double seconds;       /* time of its sweeps, including models that ran beside it */
    double score;         /* factor match score with the best of its rank; 1: the same components */
    double held_out_rmse; /* as in ts_cp_result */
    double held_out_loss; /* as in ts_cp_result */
    /* as in ts_cp_result; of a model that an earlier run finished, mean is NaN and best_sweep 0 */
    double mean;
    uint32_t best_sweep, sweeps_before;
} ts_several_result;

/* Computes n_ranks x restarts models, those of rank[0] first. As many as fit in memory are computed
 * side by side, on CPU cores or GPUs: each pass over the tensor serves all of them (see `tstream cp
 * --restarts`). Each model has the same bits as a run of ts_cp with its rank and seed. The trace of
 * `session` must be NULL. ret has room for all decompositions. result may be NULL; else it has a
 * row for each model, and the size of the first row is that of all. On failure there is no
 * decomposition.
 *
 * With run->out the models are also written, as by `tstream cp --rank 8,16 --restarts 5`: r8.s1 and
 * so on, links to the best of each rank, models.json and models.tsv. The directory appears when all
 * models are done. Until then OUT.partial has finished models and checkpoints of the others.
 * run->resume reads the finished models and continues the others. The library can continue a run of
 * the command, and `tstream cp --resume OUT` a run of the library. A run whose models are all done
 * cannot be resumed.
 *
 *   returns  0, or the code of a failure
 *   owner    the caller owns the decompositions, until ts_cpd_free
 *   errors   TS_ERR_ARGUMENT, and those of ts_session_open and ts_cp
 */
TS_API int ts_cp_several(const ts_tensor *t, const ts_session_conf *session,
                         const ts_several_conf *conf, ts_cpd **ret, ts_several_result *result,
                         ts_error *err);

typedef struct {
    size_t size;
    double fit;
    double error;    /* estimated effect of rounding on fit */
    double residual; /* |X - model| */
    double norm, model_norm;
} ts_fit_result;

/* Computes the exact fit of any decomposition, in float64, with its own session. conf may be NULL;
 * its rank and precision are ignored. ret may be NULL.
 *
 * If cells have weights or are unknown (NaN), fit, residual and norm are those of the known cells,
 * each with its weight, as in observed runs.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (shapes differ), and those of ts_session_open
 */
TS_API int ts_fit(const ts_tensor *t, const ts_cpd *c, const ts_session_conf *conf,
                  ts_fit_result *ret, ts_error *err);

/* Results of a score beside the sums over all nonzeros. */
typedef struct {
    size_t size;
    uint32_t mode; /* mode of slices; the copy that is sorted by it is read */
    /* factors and products in float32, with half the memory and time; sums are float64 */
    int float32;
    /* Room for the n_top nonzeros of largest residual: indices (n_top x
     * order), values, and values of the model. NULL: not needed. */
    uint32_t n_top;
    uint64_t *top_index;
    double *top_value, *top_model;
    /* Room for a number for each slice of mode that has a nonzero, in
     * the order of ts_used_indices: number of nonzeros, sums of
     * weights, of values and of values of the model, root mean square
     * and mean magnitude of residuals. Both are NaN where the sum of
     * weights is 0. NULL: not needed. */
    uint64_t *slice_nnz;
    double *slice_weight, *slice_value, *slice_model;
    double *slice_rmse, *slice_mae;
} ts_cpd_score_conf;

typedef struct {
    size_t size;
    uint64_t nnz;     /* nonzeros, or known cells of a dense tensor */
    double weight;    /* sum of weights, or nnz without weights. The figures below are weighted */
    double rmse, mae; /* root mean square and mean magnitude of value - model */
    double mean_value, mean_model; /* means at these cells. All four are NaN if weight is 0 */
    /* Log-likelihoods, NaN if there is none. gaussian: residuals with
     * their own variance. poisson: counts where the model is positive,
     * with the model as means; all cells count, and terms that do not
     * depend on the model are left out. */
    double gaussian, poisson;
    uint32_t n_top; /* number of top nonzeros that were found */
    /* Nonzeros with an index whose row in the model is all zeros, such
     * as an index that was never seen. There the 0 is not a
     * prediction. */
    uint64_t unseen;
} ts_cpd_score_result;

/* Compares a decomposition with the nonzeros of a tensor of the same shape, as `tstream score`
 * does, with its own session on CPU cores. Other cells count only in the Poisson likelihood. conf
 * and session may be NULL. Rank, precision and GPU settings of the session are ignored. The bits do
 * not depend on threads or memory.
 *
 *   returns  0, or the code of a failure
 *   owner    the caller owns the arrays of conf, which the function fills
 *   errors   TS_ERR_ARGUMENT (shapes differ, no such mode), TS_ERR_LIMIT (numbers beyond the range
 *            of the precision), and those of ts_session_open
 */
TS_API int ts_cpd_score(const ts_cpd *c, const ts_tensor *t, const ts_cpd_score_conf *conf,
                        const ts_session_conf *session, ts_cpd_score_result *ret, ts_error *err);

typedef struct {
    size_t size;
    double consistency; /* in per cent, 100 at most */
    double normalised;  /* the same relative to the size of the core; 0 for a core of zeros */
    /* modes with linearly dependent columns, to rounding; they make the result unreliable */
    uint32_t n_singular;
    /* The figures above divide the size of a component equally among
     * the modes, as corcond of the N-way toolbox does. These use the
     * factors as they are, with the weights in the first mode, as
     * TLViz does. */
    double given, given_normalised;
} ts_core_result;

/* Computes the core consistency of a decomposition (Bro and Kiers, 2003), as `tstream fit
 * --diagnose` does. It is near 100 if the nonzeros support all components. Unlisted cells are
 * zeros. conf may be NULL; only its threads and stop count. It needs memory for a second set of
 * factors and two cores of rank^order numbers.
 *
 *   returns  0, or the code of a failure
 *   errors   TS_ERR_ARGUMENT (shapes differ, a weighted tensor, a NaN cell), TS_ERR_LIMIT (the core
 *            is too large), TS_ERR_STOPPED, and errors of reading the tensor
 */
TS_API int ts_cpd_core(const ts_cpd *c, const ts_tensor *t, const ts_session_conf *conf,
                       ts_core_result *ret, ts_error *err);

#ifdef __cplusplus
}
#endif

#endif
