/* SPDX-License-Identifier: BSD-3-Clause */
/* build_steps.h - the state of a build, struct ts_build, and the functions of its steps.
 * build_gather.c gathers the nonzeros of a source, build_number.c numbers the slices, build_spool.c
 * sorts all nonzeros in another order, and build.c calls all steps.
 *
 *   owner    build.c makes and frees all members of the build, except `runs`, which the sort of the
 *            input frees
 *   units    words of 8 bytes, nonzeros
 *   threads  called from the thread that builds; each step uses memory.threads threads
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
#define TS_READ_PIECE    UINT64_C(262144) /* most stored records that are read at a time */

/* Values of ts_build_step.phase. Packing mode m is phase TS_BUILD_PACKING + m. The next phase after
 * the last mode is writing. */
enum ts_build_phase {
    TS_BUILD_READING = 1,
    TS_BUILD_MERGING,
    TS_BUILD_NUMBERING,
    TS_BUILD_PACKING,
};

struct ts_build {
    const struct ts_build_options *o;
    struct ts_build_report *report;
    uint32_t base;         /* first index of a mode in the input: 0 or 1 */
    const char *source;    /* kind of the input (format/kept.def) */
    char *tmp;             /* directory for temporary files */
    uint32_t order, phase; /* phase: enum ts_build_phase */
    /* counts the work done in the phase; points to o->work, or to own_work */
    _Atomic uint64_t *work;
    _Atomic uint64_t own_work;
    uint64_t phase_work; /* value of *work at the end of the phase; 0: unknown */
    /* number of text files; 0: the nonzeros do not come from text files */
    uint32_t n_files;
    const char *const *paths;       /* paths of the n_files files */
    struct ts_build_memory memory;  /* how options.memory is divided */
    uint64_t beside_bytes;          /* memory that the source needs besides the text it reads */
    struct ts_build_space_in space; /* what is known about the tensor's sizes before reading */
    struct ts_build_options real;   /* in a trial: the options of the real build */
    struct ts_room room;
    uint64_t room_watched_ns;
    int room_warned;
    uint64_t unpack_bytes; /* the part of beside_bytes that decompression may use */
    struct ts_build_dir *dir;

    /* Two areas as large as the memory allows, in which records are read and sorted, and the
     * smaller `scratch`, for a few records at a time. */
    void *area_mem;
    size_t area_bytes;
    uint64_t *area[2], area_words;
    uint64_t *scratch, scratch_words;
    /* with several ranks: two more blocks of memory, for stored records */
    struct ts_spool_rooms rooms;
    /* with several ranks: free memory while sorted records are given to the next step */
    struct ts_spare spare;
    /* With several ranks: the writer of the previous mode's shards, whose thread may still be
     * writing them; or NULL. */
    struct ts_mode_writer *writing;
    uint32_t writing_mode;
    char *writing_path;

    struct ts_build_comm ranks;
    /* with several ranks: the records that this rank has read, as a list for each layout that they
     * had */
    struct ts_spool *kept;
    uint32_t n_kept;
    /* With several ranks on one machine: shared memory in which they pass records to each other; or
     * NULL. */
    void *shared;
    uint64_t shared_bytes;
    struct ts_collect collect;
    struct ts_extsort *runs; /* sorted runs of the input in a file, if it does not fit in memory */
    struct ts_merge merge;
    /* all nonzeros, after those of each cell were merged: in one of the areas or in a file */
    struct ts_spool spool;
    /* for each mode, the field of a record in `spool` that holds its row; [order]: the field of the
     * value */
    uint8_t field[TS_MAX_ORDER + 1];
    int gaps;                 /* 1: b->spool.mem has unused space between ranges of records */
    int mapped[TS_MAX_ORDER]; /* 1: the records hold compact rows of the mode, not indices */
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    /* The index of a record minus shift[m] is the index in the tensor. shift[m] is 0 unless mode m
     * has times. dim[m] is the size before this subtraction, until the slices are numbered. */
    uint64_t shift[TS_MAX_ORDER];

    /* members for tables */
    struct ts_table *table; /* NULL: the input is not a table */
    struct ts_names *names; /* NULL: no mode has names */
    struct ts_label_writer *label[TS_MAX_ORDER];
    /* sums of the counts of the builds of the segments that are merged; or NULL */
    const struct ts_build_carried *carried;
    /* the tensor that is the input; NULL: the input is not a tensor */
    const struct ts_tensor *from;
    const struct ts_tensor *kept_from; /* the tensor whose options are kept; NULL: `from` */
    /* for each mode of the new tensor, its number in `from` */
    uint32_t from_mode[TS_MAX_ORDER];
    struct ts_value_code *code;
    double sum_of_squares;

    /* checksums of the records after each step, which must agree (build_sums.c) */
    struct ts_cell_sum records; /* checksum over the source's records, for all ranks */
    /* checksum over the cells after merging, for all ranks, with the tensor's indices */
    struct ts_cell_sum cells;
    /* for this rank: the checksum over the records in `spool` */
    struct ts_cell_sum passing;
    /* for this rank: the checksum over the records that it has written to each mode copy */
    struct ts_cell_sum copy[TS_MAX_ORDER];
    struct ts_disk_mode mode[TS_MAX_ORDER];
    struct ts_disk_shard *shard[TS_MAX_ORDER];
    uint32_t max_raw_bytes;
};

/* Width in bits of the last field of a record as read: the value, and the weight if it has one. */
static inline uint32_t ts_build_value_bits(const struct ts_build *b)
{
    return 8 * ts_batch_value_bytes(b->o->value_bytes, b->o->weights);
}

/* Width in bits of all fields of a record but the last: of the indices or rows, without the
 * value. */
static inline uint32_t ts_build_key_bits(const struct ts_record_layout *l)
{
    return l->bits - l->width[l->n_fields - 1];
}

/* build.c. Functions that every kind of build in build_door.c calls. init begins a build; path: its
 * input files, if any. read takes the nonzeros of a source. finish does all later steps. fini frees
 * the build, also after a failure with code rc. */
struct ts_source;
int ts_build_init(struct ts_build *b, const struct ts_build_options *o, const char *const path[],
                  uint32_t n_paths, struct ts_build_report *report, struct ts_err *err);
int ts_build_read(struct ts_build *b, const struct ts_source *s, struct ts_err *err);
int ts_build_finish(struct ts_build *b, uint64_t start_ns, struct ts_err *err);
int ts_build_fini(struct ts_build *b, int rc, struct ts_err *err);

/* build_write.c. Writes the copies of the nonzeros (one sorted for each mode), the labels and the
 * index of the tensor. check_labels checks the files of labels as soon as the sizes of the modes
 * are known. */
int ts_build_write_modes(struct ts_build *b, struct ts_err *err);
int ts_build_check_labels(const struct ts_build *b, struct ts_err *err);
int ts_build_write_labels(struct ts_build *b, struct ts_err *err);
int ts_build_write_index(struct ts_build *b, struct ts_err *err);

/* build_progress.c. Reports the progress of a step, and checks whether the user wants to stop. */
int ts_build_tell(const struct ts_build *b, const char *step_name, const char *unit, uint64_t done,
                  uint64_t total, struct ts_err *err);

/* Begins a phase. *b->work starts at 0 and grows to about `work` in it: by 1 each time that a
 * record is moved. ts_build_work_add adds n. */
void ts_build_phase_begin(struct ts_build *b, uint32_t phase, uint64_t work);
static inline void ts_build_work_add(const struct ts_build *b, uint64_t n)
{
    atomic_fetch_add_explicit(b->work, n, memory_order_relaxed);
}

/* build_room.c. Compares the disk space that the build needs with the free space. begin, before
 * reading: fails if the space is too small, and warns if it may be; a trial only reports both.
 * watch, while reading: checks again, with the nonzeros read so far, `done` of `total`. known,
 * after reading and before packing: checks again with the counts known then. If one rank fails,
 * all fail. explain, after a failure because the disk is full: adds to the message how much space
 * was needed. */
int ts_build_room_begin(struct ts_build *b, struct ts_err *err);
int ts_build_room_watch(struct ts_build *b, int full, uint64_t done, uint64_t total,
                        struct ts_err *err);
int ts_build_room_known(struct ts_build *b, struct ts_err *err);
void ts_build_room_explain(const struct ts_build *b, struct ts_err *err);

/* Checks only whether the user wants to stop. If so, sorts and merges may have ended early, so
 * their results must not be used. */
int ts_build_check_stop(const struct ts_build *b, struct ts_err *err);
/* Writes the message of TS_ESTOP. */
int ts_build_fail_stopped(const struct ts_build *b, struct ts_err *err);

/* Returns the one of the two areas that is not `used`. */
static inline uint64_t *ts_build_other_area(const struct ts_build *b, const uint64_t *used)
{
    return b->area[used == b->area[0]];
}

/* build_gather.c. Runs the source, which fills b->collect, until it ends. Sorts each full area into
 * b->runs. */
int ts_build_gather(struct ts_build *b, const struct ts_source *source, struct ts_err *err);

/* Sorts and merges the gathered records. Afterwards b->spool has each nonzero once, sorted by the
 * indices of mode 1, then 2, and so on. The sizes of the modes must be known. */
int ts_build_gather_merge(struct ts_build *b, struct ts_err *err);

/* build_table.c. For a table whose columns are known: makes the dictionaries of modes of names, and
 * gives them to the source. */
struct ts_text_source;
int ts_build_table_begin(struct ts_build *b, struct ts_text_source *s, struct ts_err *err);

/* After reading: sets the sizes of modes of names and of times, which are not the largest index +
 * 1. rc: the result of reading. If it is a failure on one rank, all ranks fail. */
int ts_build_table_sizes(struct ts_build *b, int rc, struct ts_err *err);

/* For struct ts_names_conf (names.h): returns the memory of the dictionaries.
 * ts_build_table_add_label below writes a label; its arg is the build. */
uint64_t ts_build_table_names_bytes(const struct ts_build_options *o);
/* Returns the most bytes that the labels of a mode of times can have: those of all bins from year 1
 * to 9999. */
uint64_t ts_build_table_times_bytes(const struct ts_time_bin *bin);
int ts_build_table_add_label(void *arg, uint32_t mode, const char *name, uint32_t n,
                             struct ts_err *err);

/* Completes the file of labels of a mode of names, after its last name has its label. With several
 * ranks, only the rank that writes these labels does something. */
int ts_build_table_end_names(struct ts_build *b, uint32_t mode, struct ts_err *err);

/* build_after.c. For a build whose nonzeros are appended to the tensor o->after. names, before
 * reading: puts the names of that tensor into b->names. times: sets *first to its first time bin.
 * sizes: makes each size of the build at least that of the tensor. */
int ts_build_after_names(struct ts_build *b, struct ts_err *err);
int ts_build_after_times(const struct ts_build *b, uint32_t mode, uint64_t *first,
                         struct ts_err *err);
int ts_build_after_sizes(struct ts_build *b, struct ts_err *err);

/* build_names.c. With several ranks, after each has read its part of the files: numbers the names
 * of all ranks, gives b->names their indices, and writes the names as labels. rc: the result of
 * reading. If it is a failure on one rank, all ranks fail. */
int ts_build_names(struct ts_build *b, int rc, struct ts_err *err);

/* Writes the labels of a mode of names or times, where they are not written yet. */
int ts_build_table_labels(struct ts_build *b, uint32_t mode, struct ts_err *err);

/* Sets name[m] to the name of the column of mode m, and name[order] to that of the values. */
void ts_build_table_mode_names(const struct ts_build *b, const char *name[]);
void ts_build_table_free(struct ts_build *b);

/* build_duplicate.c. After a merge that failed because the cell b->merge.refused_index has several
 * nonzeros: if the input files can be read again, replaces the message by one that says where two
 * of these nonzeros are. Returns TS_EFORMAT, or TS_ESTOP. */
struct ts_text_kind;
struct ts_files_plan;
int ts_build_name_duplicate(const struct ts_build *b, const struct ts_text_kind *kind,
                            const struct ts_tns_rules *rules, const char *const paths[],
                            uint32_t n_paths, struct ts_err *err);
int ts_build_name_duplicate_binary(const struct ts_build *b, const struct ts_files_plan *plan,
                                   struct ts_err *err);

/* build_sums.c. Checks that no record was lost or changed, by checksums over all records: after
 * merging, after each step that replaces indices by rows, and after the mode copies are written.
 * All ranks call `merged` and `written`. A failure is a bug of this program, and the message says
 * so. `file` writes the sums to NAME.tsh/sums. */
int ts_build_sums_merged(struct ts_build *b, int rc, struct ts_err *err);
int ts_build_sums_passed(struct ts_build *b, const struct ts_cell_sum *in,
                         const struct ts_cell_sum *out, struct ts_err *err);
int ts_build_sums_written(struct ts_build *b, int rc, struct ts_err *err);
int ts_build_sums_file(const struct ts_build *b, uint64_t index_hash, struct ts_err *err);

/* build_kept.c. ts_build_kept returns the options of the build that the tensor keeps. With done 0,
 * it is called after the first bytes of the input, and returns the options that are known then. It
 * returns 1, or 0 if the tensor keeps none. ts_build_kept_check compares these early options with
 * o->like. ts_build_kept_file compares all options, and writes NAME.tsh/options. */
struct ts_kept;
int ts_build_kept(const struct ts_build *b, int done, struct ts_kept *ret, struct ts_err *err);
int ts_build_kept_check(const struct ts_build *b, struct ts_err *err);
int ts_build_kept_file(const struct ts_build *b, uint64_t index_hash, struct ts_err *err);

/* Sets name[m] to the name of mode m, and name[order] to that of the values. NULL: no name. */
void ts_build_mode_names(const struct ts_build *b, const char *name[TS_MAX_ORDER + 1]);

/* build_number.c. Turns the indices and values of b->spool into compact rows and codes. Writes
 * modeK.rows of each mode K with empty slices, and chooses the code of the values. */
int ts_build_number(struct ts_build *b, struct ts_err *err);

/* build_spool.c. Receives the next n sorted records, which it may overwrite if struct
 * ts_build_spool_sort says `overwrites`. */
typedef int ts_build_spool_fn(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err);

/* How the nonzeros of a build are sorted, and which function receives them. */
struct ts_build_spool_sort {
    /* layout to sort in: its field f is field source[f] of the records in b->spool */
    const struct ts_record_layout *to;
    const uint8_t *source;
    /* number of first bits of a record that decide most comparisons of the sort */
    uint32_t direct_bits;
    int overwrites; /* 1: `consume` overwrites the records */
    ts_build_spool_fn *consume;
    void *arg;
    const char *what; /* name of the step, for progress that the user sees */
};

/* Converts all nonzeros to the layout `to`, sorts them, and passes them to `consume`. */
int ts_build_spool_sort(struct ts_build *b, const struct ts_build_spool_sort *s,
                        struct ts_err *err);

/* Moves the records of b->spool together, if there are gaps between them (b->gaps is 1). */
void ts_build_spool_close_gaps(struct ts_build *b);

/* Calls ts_record_convert with all threads. */
void ts_build_spool_convert(const struct ts_build *b, const struct ts_record_layout *from,
                            const uint64_t *in, const struct ts_record_layout *to,
                            const uint8_t source[], uint64_t *out, uint64_t n);

#endif
