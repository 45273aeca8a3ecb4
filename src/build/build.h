/* SPDX-License-Identifier: BSD-3-Clause */
/* build.h - from nonzeros in any order to a .tsh directory.
 *
 * The nonzeros of a source (files, the generator, a program) become records. They are sorted,
 * merged where several have the same cell, and sorted again for each mode copy. What does not fit
 * the memory allowed goes through sorted runs in a temporary file. The bytes written depend only on
 * the set of nonzeros and on the options named "format": not on memory, threads, order of the input
 * or tmp.
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

/* Progress of a build: reading, merging, numbering, packing each mode, writing. */
struct ts_build_step {
    const char *what, *unit;  /* texts are lent for the call */
    uint32_t phase, n_phases; /* from 1 */
    uint32_t alike;           /* phases still to come that take about as long as this one */
    uint64_t done, total;     /* total is 0 while unknown */
    uint64_t work; /* value of ts_build_options.work at the end of the phase; 0: unknown */
};

struct ts_comm;
struct ts_kept;
struct ts_tensor;

/* What a build takes over from the builds that made its input. */
struct ts_build_carried {
    uint64_t input_nnz, n_duplicates, n_zeros; /* as in the header of the index */
    struct ts_cell_sum records;                /* as in the file of sums */
};

struct ts_build_options {
    const char *out; /* the directory to make */
    int force;       /* replace it when it exists */
    uint64_t memory; /* for everything together */
    const char *tmp; /* directory for temporary files; NULL: that of out */
    uint32_t threads;

    /* format */
    uint64_t shard_bytes;
    int duplicates;       /* enum ts_duplicates */
    int skip_missing;     /* lines of text with a missing field are left out, not refused */
    int zeros;            /* zeros are kept, as cells whose value is known, not dropped */
    int weights;          /* the source gives weights with the values (batch.h); value_bytes is 4 */
    uint32_t value_bytes; /* 4 or 8 */
    struct ts_transform transform; /* of values, after they are added up */
    const char *map[TS_MAX_ORDER]; /* labels of a mode, text or gzip; NULL: none */
    int partial_map;               /* the number of labels may differ from the number of indices */
    uint32_t min_order; /* texts with fewer modes are refused, because --map names this mode */

    /* files */
    uint32_t base;   /* the first index of texts that do not state it */
    int base_said;   /* 1: `base` also holds for binary files, whose indices start at 0 otherwise */
    uint32_t n_dims; /* 0: the sizes are the largest indices */
    uint64_t dim[TS_MAX_ORDER];
    uint32_t n_names; /* number of entries of mode_name: 0, or the order */
    const char *mode_name[TS_MAX_ORDER];

    /* A tensor that the nonzeros of files are appended to; NULL: none. Names and times go on from
     * its labels, and sizes are at least its own. */
    const struct ts_tensor *after;

    /* how tables are read; NULL: the first bytes of a file tell its kind */
    const struct ts_table_plan *table;
    /* 1: only the file name says that it is a table, so binary files are no tables */
    int table_by_name;
    int sorted_names; /* 1: indices in the order of the names; 0: as first seen */

    /* What the tensor must have in common with an earlier build (format/kept.h), whose path begins
     * the sentence of a difference; NULL: nothing */
    const struct ts_kept *like;
    const char *like_path;
    int keeps_nothing; /* 1: the tensor gets no file `options` */
    /* Of ts_build_source: "key=text", or "key.K=text" of mode K from 1, are rows of that file, for
     * arrays that a program made of a table. */
    const char *const *told;
    uint32_t n_told;

    /* called from the calling thread a few times per second; may be NULL */
    void (*progress)(void *arg, const struct ts_build_step *step);
    void *progress_arg;
    /* Grows from 0 in each phase to ts_build_step.work: the part of the work that is done. Threads
     * add to it piece by piece. May be NULL. */
    _Atomic uint64_t *work;
    const volatile sig_atomic_t *stop; /* may be NULL */

    const char *place;  /* as `place` of struct ts_room */
    int no_space_check; /* 1: the build starts however little space is free */
    uint64_t expect;    /* number of nonzeros of ts_build_source, without zeros; 0: not known */
    /* called with a warning during the build; may be NULL */
    void (*note)(void *arg, const struct ts_err *warn);
    void *note_arg;

    /* Ranks that build the tensor together (build_ranks.h); NULL: this process alone. All have the
     * same options, except for memory, tmp and threads. All see the same files and `out`. */
    struct ts_comm *comm;

    /* A trial: all steps are done with this share of the text (text_input.h). The files on disk are
     * removed at the end instead of put in place. 0: a real build. */
    double trial;

    uint64_t area_words; /* tests, trials: words of a sort area, 0: from `memory` */
};

#define TS_BUILD_NOTES 8u

enum ts_need_when { TS_NEED_BEFORE, TS_NEED_READ, TS_NEED_MERGED };

struct ts_build_report {
    uint64_t nnz, input_nnz, n_duplicates, n_zeros;
    uint64_t n_rounded;    /* values that were rounded to 0, read or added up */
    struct ts_err rounded; /* code 0, or a sentence about them */
    uint64_t n_missing;    /* lines left out because a field of them is missing */
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    uint64_t n_runs; /* sorted runs that went through the temporary file */
    uint64_t read_ns, merge_ns, pack_ns, sync_ns;
    /* Time in which this rank exchanged data with others or waited for them, as part of the times
     * above. */
    uint64_t exchange_ns;
    uint64_t text_bytes;               /* bytes of the files read, as stored on disk */
    uint32_t base;                     /* first index of the input */
    int binary;                        /* 1: the input is binary files */
    uint32_t read_words, packed_words; /* of a record, as read and as sorted for each mode */
    uint64_t n_names[TS_MAX_ORDER];    /* of modes whose fields were names */
    uint64_t name_generations;         /* how often dictionaries were started; 0 without names */
    uint32_t n_numbered;               /* modes too large for a bitmap, numbered by a sort */
    uint64_t shards_bytes[TS_MAX_ORDER], rows_bytes[TS_MAX_ORDER], labels_bytes[TS_MAX_ORDER];
    uint64_t index_bytes, options_bytes;
    /* disk and memory that the build needs, as known at each enum ts_need_when */
    struct ts_need need[3];
    /* code 0, or messages of ts_room_check and ts_room_may_lack before reading */
    struct ts_err refused, may_lack;
    uint32_t n_notes; /* number of notes about probable mistakes: all times fell into one bin */
    char note[TS_BUILD_NOTES][320];
    struct ts_err warn; /* code 0, or a failure after the tensor was in place */
};

#define TS_BUILD_MIN_MEMORY (UINT64_C(32) << 20)
#define TS_BUILD_MIN_SHARD  (UINT64_C(64) << 10)
#define TS_BUILD_MAX_SHARD  (UINT64_C(256) << 20)
#define TS_BUILD_SHARD      (UINT64_C(4) << 20) /* the default */

/* Builds from files: text, tables or binary files. The beginning of the first file tells which. A
 * path "-" is standard input. */
int ts_build_paths(const struct ts_build_options *o, const char *const paths[], uint32_t n_paths,
                   struct ts_build_report *ret, struct ts_err *err);

/* Builds from the generator. */
int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err);

/* Builds a tensor of `order` modes from the nonzeros of any source. dim[] is as for text. Indices
 * count from 0, and o->base is stored as the base of the input. On failure the source is stopped,
 * even if it was not started. */
struct ts_source;
int ts_build_source(const struct ts_build_options *o, uint32_t order,
                    const struct ts_source *source, struct ts_build_report *ret,
                    struct ts_err *err);

/* Builds from a tensor, with those of its nonzeros that are picked (source/tensor_source.h). Sizes,
 * names, labels and the first index are those of the tensor, and the options for files are ignored.
 * value_bytes should be those of its values. `weights` must tell whether it has weights. If it
 * keeps several nonzeros of a cell, o must do so, too. */
struct ts_pick;
int ts_build_tensor(const struct ts_build_options *o, const struct ts_tensor *t,
                    const struct ts_pick *pick, struct ts_build_report *ret, struct ts_err *err);

/* Builds one tensor of all segments. Values of a cell are added. o->value_bytes, zeros and weights
 * should be those of the segments. Sizes, names, labels and the first index are those of the last
 * one. */
struct ts_segments;
int ts_build_segments(const struct ts_build_options *o, const struct ts_segments *list,
                      struct ts_build_report *ret, struct ts_err *err);

#endif
