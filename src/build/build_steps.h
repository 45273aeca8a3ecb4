/* SPDX-License-Identifier: BSD-3-Clause */
/* build_steps.h - what the steps of a build share: gathering the nonzeros of a source
 * (build_gather.c), numbering the slices (build_number.c), sorting all nonzeros in another order
 * (build_spool.c), and the sequence of all steps with the files they write (build.c).
 *
 *   owner    the build: build.c makes and frees all parts of it, except the runs of a sort, which
 *            the sorting step frees
 *   units    words of 8 bytes, nonzeros
 *   threads  called from the building thread; work that is divided uses memory.threads
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_STEPS_H
#define TS_BUILD_BUILD_STEPS_H

#include <stdatomic.h>
#include <stdint.h>

#include "build/build.h"
#include "build/ranks/build_comm.h"
#include "build/build_dir.h"
#include "build/room/build_memory.h"
#include "build/room/build_space.h"
#include "build/collect.h"
#include "build/sort/extsort.h"
#include "build/merge.h"
#include "build/sort/record.h"
#include "build/room/room.h"
#include "build/write/label_write.h"
#include "build/write/mode_writer.h"
#include "source/names/names.h"
#include "build/sort/spool.h"
#include "source/text/table_text.h"
#include "source/text/tns_text.h"
#include "build/value_table.h"

#define TS_CONVERT_PIECE UINT64_C(32768)  /* records that a thread converts at a time */
#define TS_READ_PIECE    UINT64_C(262144) /* most records read from a spool at a time */

/* The phase numbers of ts_build_step. Mode m has TS_BUILD_PACKING + m; writing follows the last
 * mode. */
enum ts_build_phase {
    TS_BUILD_READING = 1,
    TS_BUILD_MERGING,
    TS_BUILD_NUMBERING,
    TS_BUILD_PACKING,
};

struct ts_build {
    const struct ts_build_options *o;
    struct ts_build_report *report;
    uint32_t base;          /* first index of the input */
    const char *source;     /* kind of the input (format/kept.def) */
    char *tmp;              /* directory for temporary files */
    uint32_t order, phase;  /* phase: enum ts_build_phase */
    _Atomic uint64_t *work; /* points to o->work, or to own_work */
    _Atomic uint64_t own_work;
    uint64_t phase_work;      /* value of *work at the end of the phase; 0: unknown */
    uint32_t n_files;         /* number of text files; 0: the nonzeros do not come from files */
    const char *const *paths; /* paths of the n_files files */
    struct ts_build_memory memory;  /* how the memory is divided */
    uint64_t beside_bytes;          /* part of the memory that reading needs besides the text */
    struct ts_build_space_in space; /* what is known before reading */
    struct ts_build_options real;   /* in a trial: the options of the real build */
    struct ts_room room;
    uint64_t room_watched_ns;
    int room_warned;
    uint64_t unpack_bytes; /* part of beside_bytes for decompression */
    struct ts_build_dir *dir;

    /* Two areas as large as possible, to sort in and to read into, and a smaller one for pieces. */
    void *area_mem;
    size_t area_bytes;
    uint64_t *area[2], area_words;
    uint64_t *scratch, scratch_words;
    struct ts_spool_rooms rooms; /* with several ranks: memory for spools that are sorted */
    /* with several ranks: free memory while sorted records are given to the next step */
    struct ts_spare spare;
    /* With several ranks: the writer of the previous mode, whose shards may not be on disk yet; or
     * NULL. */
    struct ts_mode_writer *writing;
    uint32_t writing_mode;
    char *writing_path;

    struct ts_build_comm ranks;
    /* with several ranks: the records that this rank has read, a file for each layout */
    struct ts_spool *kept;
    uint32_t n_kept;
    /* With several ranks of one machine: memory through which they hand each other records; or
     * NULL. */
    void *shared;
    uint64_t shared_bytes;
    struct ts_collect collect;
    struct ts_extsort *runs; /* sorted runs of the input, when it does not fit in memory */
    struct ts_merge merge;
    struct ts_spool spool; /* all nonzeros, merged: in one of the areas or in a file */
    /* fields of the spool: of each mode's rows, and of the values */
    uint8_t field[TS_MAX_ORDER + 1];
    int gaps;                 /* 1: the records lie in memory, in the pieces of merge.piece */
    int mapped[TS_MAX_ORDER]; /* 1: the field holds compact rows already */
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    /* Subtracted from the index of a record to give that of the tensor. It is also subtracted from
     * the size, once the modes are numbered. */
    uint64_t shift[TS_MAX_ORDER];

    /* for tables */
    struct ts_table *table; /* NULL: the input is not a table */
    struct ts_names *names; /* NULL: no mode has names */
    struct ts_label_writer *label[TS_MAX_ORDER];
    const struct ts_build_carried *carried; /* NULL: nothing is taken over */
    const struct ts_tensor *from;           /* NULL: the input is not a tensor */
    const struct ts_tensor *kept_from;      /* has the options of the build; NULL: `from` has */
    uint32_t from_mode[TS_MAX_ORDER];       /* mode of `from` that each mode was */
    struct ts_value_code *code;
    double sum_of_squares;

    /* sums of what goes through the build, which must agree (build_sums.c) */
    struct ts_cell_sum records; /* sum over the records of the source, for all ranks */
    /* sum over the cells after the merge, for all ranks, with the tensor's indices */
    struct ts_cell_sum cells;
    /* for this rank: the sum that the next step must find in the spool */
    struct ts_cell_sum passing;
    /* for this rank: the sum over the records that it has written of each copy */
    struct ts_cell_sum copy[TS_MAX_ORDER];
    struct ts_disk_mode mode[TS_MAX_ORDER];
    struct ts_disk_shard *shard[TS_MAX_ORDER];
    uint32_t max_raw_bytes;
};

/* Bits of the field of a record for its value, as read, with its weight if it has one. */
static inline uint32_t ts_build_value_bits(const struct ts_build *b)
{
    return 8 * ts_batch_value_bytes(b->o->value_bytes, b->o->weights);
}

/* Bits of the fields that give the place of a nonzero: all but the last field, its value. */
static inline uint32_t ts_build_key_bits(const struct ts_record_layout *l)
{
    return l->bits - l->width[l->n_fields - 1];
}

/* build.c. The steps that all ways into a build (build_door.c) share: begin it, with files `path`
 * or none; take the nonzeros of a source; do the rest once the source has ended; and end it, also
 * after a failure with code rc. */
struct ts_source;
int ts_build_init(struct ts_build *b, const struct ts_build_options *o, const char *const path[],
                  uint32_t n_paths, struct ts_build_report *report, struct ts_err *err);
int ts_build_read(struct ts_build *b, const struct ts_source *s, struct ts_err *err);
int ts_build_finish(struct ts_build *b, uint64_t start_ns, struct ts_err *err);
int ts_build_fini(struct ts_build *b, int rc, struct ts_err *err);

/* build_write.c. The files of the result: the copies of all modes; the labels, whose files are
 * checked when the sizes of the modes are known; and the index. */
int ts_build_write_modes(struct ts_build *b, struct ts_err *err);
int ts_build_check_labels(const struct ts_build *b, struct ts_err *err);
int ts_build_write_labels(struct ts_build *b, struct ts_err *err);
int ts_build_write_index(struct ts_build *b, struct ts_err *err);

/* build_progress.c. Reports the progress of a step, and checks whether the user wants to stop. */
int ts_build_tell(const struct ts_build *b, const char *step_name, const char *unit, uint64_t done,
                  uint64_t total, struct ts_err *err);

/* A phase begins, in which *b->work will grow to about `work`: a unit for each record and each time
 * that it is moved. ts_build_work_add counts n more. */
void ts_build_phase_begin(struct ts_build *b, uint32_t phase, uint64_t work);
static inline void ts_build_work_add(const struct ts_build *b, uint64_t n)
{
    atomic_fetch_add_explicit(b->work, n, memory_order_relaxed);
}

/* build_room.c. Before reading: refuses a build if the disk is too small, and warns if it may be. A
 * trial reports both instead. While reading: makes the same checks with the nonzeros so far, `done`
 * of `total`. After reading, and before packing, where ranks agree: makes them with what is known
 * then. If the disk is full all the same: writes the message with the space that was needed. */
int ts_build_room_begin(struct ts_build *b, struct ts_err *err);
int ts_build_room_watch(struct ts_build *b, int full, uint64_t done, uint64_t total,
                        struct ts_err *err);
int ts_build_room_known(struct ts_build *b, struct ts_err *err);
void ts_build_room_explain(const struct ts_build *b, struct ts_err *err);

/* Checks for a wish to stop only. After such a wish the results of sorts and merges must not be
 * used. */
int ts_build_check_stop(const struct ts_build *b, struct ts_err *err);
/* writes the message of a stop */
int ts_build_fail_stopped(const struct ts_build *b, struct ts_err *err);

/* The area other than `used`. */
static inline uint64_t *ts_build_other_area(const struct ts_build *b, const uint64_t *used)
{
    return b->area[used == b->area[0]];
}

/* build_gather.c. Runs the source, which fills b->collect, until it ends. Full areas go to
 * b->runs. */
int ts_build_gather(struct ts_build *b, const struct ts_source *source, struct ts_err *err);

/* Sorts and merges the gathered records. Afterwards b->spool has every nonzero once, in the order
 * of the modes. The sizes of the modes must be known. */
int ts_build_gather_merge(struct ts_build *b, struct ts_err *err);

/* build_table.c. For a table whose columns are known: makes the dictionaries that names need and
 * gives them to the source. */
struct ts_text_source;
int ts_build_table_begin(struct ts_build *b, struct ts_text_source *s, struct ts_err *err);

/* After reading: sets the sizes of modes of names and times, which do not follow from the largest
 * indices. Ranks agree here. */
int ts_build_table_sizes(struct ts_build *b, int rc, struct ts_err *err);

/* For names (names.h): memory, and a label, where arg is the build. */
uint64_t ts_build_table_names_bytes(const struct ts_build_options *o);
/* Bytes of the labels of a mode of times, at most: of all bins from the year 1 to 9999. */
uint64_t ts_build_table_times_bytes(const struct ts_time_bin *bin);
int ts_build_table_add_label(void *arg, uint32_t mode, const char *name, uint32_t n,
                             struct ts_err *err);

/* With several ranks, on the rank that has numbered the mode: writes the labels after its last
 * name. */
int ts_build_table_end_names(struct ts_build *b, uint32_t mode, struct ts_err *err);

/* build_after.c. For o->after: gives its names to b->names before reading; the first bin of its
 * times, in a mode of times; sizes that are at least its own. */
int ts_build_after_names(struct ts_build *b, struct ts_err *err);
int ts_build_after_times(const struct ts_build *b, uint32_t mode, uint64_t *first,
                         struct ts_err *err);
int ts_build_after_sizes(struct ts_build *b, struct ts_err *err);

/* build_names.c. Of several ranks, which all have read their parts: tells b->names the indices of
 * all names, and writes these. Ranks agree here. */
int ts_build_names(struct ts_build *b, int rc, struct ts_err *err);

/* Writes the labels of a mode of names or times, where they are not written yet. */
int ts_build_table_labels(struct ts_build *b, uint32_t mode, struct ts_err *err);

/* The names of the columns; name[order] is that of the values. */
void ts_build_table_mode_names(const struct ts_build *b, const char *name[]);
void ts_build_table_free(struct ts_build *b);

/* build_duplicate.c. After a merge that refused b->merge.refused_index: writes the sentence again,
 * with the places of two of its nonzeros, if the files (text, or binary ones) can be read again.
 * Returns TS_EFORMAT, or TS_ESTOP. */
struct ts_text_kind;
struct ts_files_plan;
int ts_build_name_duplicate(const struct ts_build *b, const struct ts_text_kind *kind,
                            const struct ts_tns_rules *rules, const char *const paths[],
                            uint32_t n_paths, struct ts_err *err);
int ts_build_name_duplicate_binary(const struct ts_build *b, const struct ts_files_plan *plan,
                                   struct ts_err *err);

/* build_sums.c. Checks that sums agree: after the merge, after each step that numbers, and after
 * the copies. All ranks call the first and the last function. A failure is a bug, and the message
 * says so. */
int ts_build_sums_merged(struct ts_build *b, int rc, struct ts_err *err);
int ts_build_sums_passed(struct ts_build *b, const struct ts_cell_sum *in,
                         const struct ts_cell_sum *out, struct ts_err *err);
int ts_build_sums_written(struct ts_build *b, int rc, struct ts_err *err);
int ts_build_sums_file(const struct ts_build *b, uint64_t index_hash, struct ts_err *err);

/* build_kept.c. What the build did, as the tensor keeps it: as far as it is known after the start
 * of the input, or, if `done`, all of it. Returns 1, or 0 if the tensor keeps nothing. Then the
 * check of both against o->like, and the file. */
struct ts_kept;
int ts_build_kept(const struct ts_build *b, int done, struct ts_kept *ret, struct ts_err *err);
int ts_build_kept_check(const struct ts_build *b, struct ts_err *err);
int ts_build_kept_file(const struct ts_build *b, uint64_t index_hash, struct ts_err *err);

/* The names of the modes, and of the values as name[order]. */
void ts_build_mode_names(const struct ts_build *b, const char *name[TS_MAX_ORDER + 1]);

/* build_number.c. Turns the indices and values of b->spool into compact rows and codes. Writes
 * modeK.rows of the modes with empty slices, and chooses the code of the values. */
int ts_build_number(struct ts_build *b, struct ts_err *err);

/* build_spool.c. Called with the next n records, which it may overwrite if the sort allows that. */
typedef int ts_build_spool_fn(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err);

struct ts_build_spool_sort {
    const struct ts_record_layout *to; /* field f of `to` is the spool's field source[f] */
    const uint8_t *source;
    uint32_t direct_bits; /* the first bits, which decide most comparisons */
    int overwrites;       /* 1: `consume` overwrites the records */
    ts_build_spool_fn *consume;
    void *arg;
    const char *what; /* name of the step, for the user */
};

/* Gives all nonzeros to `consume`, converted and sorted. */
int ts_build_spool_sort(struct ts_build *b, const struct ts_build_spool_sort *s,
                        struct ts_err *err);

/* Moves the pieces of a spool together, which closes the gaps. */
void ts_build_spool_close_gaps(struct ts_build *b);

/* Calls ts_record_convert with all threads. */
void ts_build_spool_convert(const struct ts_build *b, const struct ts_record_layout *from,
                            const uint64_t *in, const struct ts_record_layout *to,
                            const uint8_t source[], uint64_t *out, uint64_t n);

#endif
