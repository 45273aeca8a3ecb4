/* SPDX-License-Identifier: BSD-3-Clause */
/* build.h - builds a .tsh directory from nonzeros in any order.
 *
 * The nonzeros of a source (files, the generator, a program) become records. The records are
 * sorted, and those of one cell are merged. Then they are sorted again for each mode copy. If they
 * need more than options.memory, they go through sorted runs in a temporary file. The bytes of the
 * tensor depend only on the set of nonzeros and on some options, which struct ts_build_options
 * marks. They do not depend on memory, threads, tmp or the order of the input.
 *
 *   owner    strings and arrays of the options are the caller's and must stay
 *   units    bytes, nonzeros
 *   threads  called from one, uses `threads`
 *   errors   0 or a negative ts_code; on failure nothing is left behind. TS_ESTOP when *stop is set
 */
#ifndef TS_BUILD_BUILD_H
#define TS_BUILD_BUILD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "build/merge.h"
#include "build/room/room.h"
#include "source/synth/synth.h"
#include "source/text/table_text.h"

enum ts_duplicates { TS_DUPLICATES_SUM = 0, TS_DUPLICATES_KEEP = 1, TS_DUPLICATES_ERROR = 2 };

/* Progress of a build. Its phases: reading nonzeros, merging those of one cell, numbering the used
 * slices, packing the copy of each mode, writing files. */
struct ts_build_step {
    const char *what, *unit;  /* name of the phase, unit of `done`: valid during the call */
    uint32_t phase, n_phases; /* from 1 */
    uint32_t alike;           /* number of later phases that take about as long as this one */
    uint64_t done, total;     /* total is 0 while unknown */
    /* value that ts_build_options.work will have at the end of the phase; 0: unknown */
    uint64_t work;
};

struct ts_comm;
struct ts_kept;
struct ts_tensor;

/* Counts and checksum of the builds that made the segments of a tensor. A build that merges these
 * segments keeps the sums over them. */
struct ts_build_carried {
    /* nonzeros read; of these, merged into others of their cell; zeros that were dropped */
    uint64_t input_nnz, n_duplicates, n_zeros;
    struct ts_cell_sum records; /* checksum over the nonzeros that were read */
};

struct ts_build_options {
    const char *out; /* path of the tensor's directory, which the build makes */
    int force;       /* 1: replaces a tensor that exists at `out` */
    uint64_t memory; /* limit for the memory of the whole build */
    const char *tmp; /* directory for temporary files; NULL: the parent directory of out */
    uint32_t threads;

    /* options that decide the bytes of the tensor */
    uint64_t shard_bytes;
    int duplicates;       /* what happens to several nonzeros of a cell: enum ts_duplicates */
    int skip_missing;     /* 1: leaves out lines of text with a missing field; 0: fails */
    int zeros;            /* 1: keeps zeros, as cells whose value is known; 0: drops them */
    int weights;          /* the source gives weights with the values (batch.h); value_bytes is 4 */
    uint32_t value_bytes; /* bytes of a stored value: 4 or 8 */
    /* function of a cell's value, after the values of its nonzeros are added up */
    struct ts_transform transform;
    const char *map[TS_MAX_ORDER]; /* labels of a mode, text or gzip; NULL: none */
    int partial_map;               /* the number of labels may differ from the number of indices */
    /* texts with fewer modes are refused, because --map gives labels for a mode of this number */
    uint32_t min_order;

    /* options for input files */
    uint32_t base;   /* the first index of texts that do not state it */
    int base_said;   /* 1: `base` also holds for binary files, whose indices start at 0 otherwise */
    uint32_t n_dims; /* number of sizes in dim[]; 0: the largest indices are the sizes */
    uint64_t dim[TS_MAX_ORDER];
    uint32_t n_names; /* number of entries of mode_name: 0, or the order */
    const char *mode_name[TS_MAX_ORDER];

    /* A tensor that the nonzeros of files are appended to; NULL: none. New names and times get
     * indices after those of its labels. The sizes are at least its sizes. */
    const struct ts_tensor *after;

    /* how input files are read as tables; NULL: the first bytes of a file tell its kind */
    const struct ts_table_plan *table;
    /* 1: `table` was set because of the file name alone, so a binary file is read as binary */
    int table_by_name;
    /* 1: names get indices in their sorted order; 0: in the order in which they are first seen */
    int sorted_names;

    /* The options of an earlier build (format/kept.h), which this build must have as well; NULL:
     * none. `like_path` is the tensor of that build, which begins the message about a
     * difference. */
    const struct ts_kept *like;
    const char *like_path;
    int keeps_nothing; /* 1: the tensor gets no file `options` */
    /* For ts_build_source: options of a table from which a program made its arrays, as "key=text",
     * or "key.K=text" for mode K from 1. They are stored in the file `options`. */
    const char *const *told;
    uint32_t n_told;

    /* reports progress: called by the thread that called the build, a few times per second; may be
     * NULL */
    void (*progress)(void *arg, const struct ts_build_step *step);
    void *progress_arg;
    /* The work done in the current phase, which grows from 0 to ts_build_step.work. Threads add to
     * it during the phase. May be NULL. */
    _Atomic uint64_t *work;
    /* the build ends with TS_ESTOP when *stop is set; may be NULL */
    const volatile sig_atomic_t *stop;

    /* for messages, the setting that names the result; NULL: TS_SET_OUTPUT; "": no setting does */
    const char *place;
    int no_space_check; /* 1: the build starts however little space is free */
    uint64_t expect;    /* number of nonzeros of ts_build_source, without zeros; 0: not known */
    /* called with a warning during the build; may be NULL */
    void (*note)(void *arg, const struct ts_err *warn);
    void *note_arg;

    /* Ranks that build the tensor together (build_ranks.h); NULL: this process builds alone. All
     * ranks have the same options, except for memory, tmp and threads. All can open the input files
     * and `out`. */
    struct ts_comm *comm;

    /* The fraction of the text that a trial build reads (text_input.h). A trial does all steps with
     * that part of the nonzeros, and removes its files at the end instead of putting them in place.
     * 0: a real build. */
    double trial;

    /* words of an area of memory in which records are sorted, for tests and trials; 0: from
     * `memory` */
    uint64_t area_words;
};

#define TS_BUILD_NOTES 8u

enum ts_need_when { TS_NEED_BEFORE, TS_NEED_READ, TS_NEED_MERGED };

/* Counts, times and messages of a build, for its user. */
struct ts_build_report {
    uint64_t nnz, input_nnz, n_duplicates, n_zeros;
    uint64_t n_rounded;    /* number of values rounded to 0, when they were read or added up */
    struct ts_err rounded; /* message about the values rounded to 0; code 0: there are none */
    uint64_t n_missing;    /* lines left out because a field of them is missing */
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    uint64_t n_runs; /* number of sorted runs in the temporary file */
    uint64_t read_ns, merge_ns, pack_ns, sync_ns;
    /* Time in which this rank exchanged data with other ranks or waited for them. The times of the
     * steps include it. */
    uint64_t exchange_ns;
    uint64_t text_bytes; /* bytes on disk of the files that were read */
    uint32_t base;       /* first index of a mode in the input: 0 or 1 */
    int binary;          /* 1: the input is binary files */
    /* words of a record (a nonzero as bits) when it is read, and when it is sorted for a mode */
    uint32_t read_words, packed_words;
    uint64_t n_names[TS_MAX_ORDER]; /* number of names of each mode of names */
    /* how many times dictionaries of names were begun, because their memory was full; 0: no
     * names */
    uint64_t name_generations;
    /* number of modes whose used slices were numbered by a sort, not by a bitmap */
    uint32_t n_numbered;
    uint64_t shards_bytes[TS_MAX_ORDER], rows_bytes[TS_MAX_ORDER], labels_bytes[TS_MAX_ORDER];
    uint64_t index_bytes, options_bytes;
    /* disk space and memory that the build needs, as known at each enum ts_need_when */
    struct ts_need need[3];
    /* messages of ts_room_check and ts_room_may_lack before reading; code 0: no message */
    struct ts_err refused, may_lack;
    uint32_t n_notes; /* number of notes about probable mistakes of the user */
    char note[TS_BUILD_NOTES][320];
    struct ts_err warn; /* code 0, or a failure after the tensor had its final name */
};

#define TS_BUILD_MIN_MEMORY (UINT64_C(32) << 20)
#define TS_BUILD_MIN_SHARD  (UINT64_C(64) << 10)
#define TS_BUILD_MAX_SHARD  (UINT64_C(256) << 20)
#define TS_BUILD_SHARD      (UINT64_C(4) << 20) /* default of shard_bytes */

/* Builds a tensor from files: text, tables or binary files. The first bytes of the first file
 * decide which. A path "-" is standard input. */
int ts_build_paths(const struct ts_build_options *o, const char *const paths[], uint32_t n_paths,
                   struct ts_build_report *ret, struct ts_err *err);

/* Builds a tensor from random nonzeros, which the generator makes. */
int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err);

/* Builds a tensor of `order` modes from the nonzeros of any source. dim[] is as for text. Indices
 * count from 0, and o->base is stored as the base of the input. On failure the source is stopped,
 * even if it was not started. */
struct ts_source;
int ts_build_source(const struct ts_build_options *o, uint32_t order,
                    const struct ts_source *source, struct ts_build_report *ret,
                    struct ts_err *err);

/* Builds a tensor of the nonzeros of t that `pick` selects (source/tensor_source.h). It gets the
 * sizes, names, labels and first index of t, and the options for files are ignored. o->value_bytes
 * should be that of t. o->weights must say whether t has weights. If t keeps several nonzeros of a
 * cell, o->duplicates must be TS_DUPLICATES_KEEP. */
struct ts_pick;
int ts_build_tensor(const struct ts_build_options *o, const struct ts_tensor *t,
                    const struct ts_pick *pick, struct ts_build_report *ret, struct ts_err *err);

/* Builds one tensor of all segments of a tensor. Values of one cell are added. o->value_bytes,
 * zeros and weights should be those of the segments. The new tensor gets the sizes, names, labels
 * and first index of the last segment. */
struct ts_segments;
int ts_build_segments(const struct ts_build_options *o, const struct ts_segments *list,
                      struct ts_build_report *ret, struct ts_err *err);

#endif
