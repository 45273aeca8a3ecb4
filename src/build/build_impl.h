/* SPDX-License-Identifier: BSD-3-Clause */
/* build_impl.h - the inside of a build: gathering what a source gives (build_gather.c), numbering
 * the slices (build_number.c), sorting all nonzeros another way (build_spool.c), and the steps from
 * first to last with the files they leave (build.c).
 *
 *   owner    the build: build.c makes and frees all that hangs on it, but for the runs of a sort,
 *            which whoever sorts frees
 *   units    words of 8 bytes, nonzeros
 *   threads  called from the one that builds; work that is split uses memory.threads
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_IMPL_H
#define TS_BUILD_BUILD_IMPL_H

#include <stdint.h>

#include "build/build.h"
#include "build/build_dir.h"
#include "build/build_memory.h"
#include "build/collect.h"
#include "build/extsort.h"
#include "build/merge.h"
#include "build/record.h"
#include "build/label_write.h"
#include "source/names.h"
#include "build/spool.h"
#include "source/table_text.h"
#include "source/tns_text.h"
#include "build/value_table.h"

#define TS_CONVERT_PIECE UINT64_C(32768)  /* records that a thread converts at a time */
#define TS_READ_PIECE    UINT64_C(262144) /* records read from a spool at a time, at most */

/* Of ts_build_step; the one of mode m is TS_BUILD_PACKING + m, and writing follows the last. */
enum ts_build_phase {
    TS_BUILD_READING = 1,
    TS_BUILD_MERGING,
    TS_BUILD_NUMBERING,
    TS_BUILD_PACKING,
};

struct ts_build {
    const struct ts_build_options *o;
    struct ts_build_report *report;
    uint32_t base;                 /* first index of the input */
    char *tmp;                     /* directory for temporary files */
    uint32_t order, phase;         /* phase: enum ts_build_phase */
    struct ts_build_memory memory; /* how it is divided */
    uint64_t beside_bytes;         /* of it: for what reading needs beside the text */
    struct ts_build_dir *dir;

    /* two areas as large as can be, and one for pieces of them: to sort in, and to read into */
    void *area_mem;
    size_t area_bytes;
    uint64_t *area[2], area_words;
    uint64_t *scratch, scratch_words;

    struct ts_collect collect;
    struct ts_extsort *runs; /* of the input, when it does not fit */
    struct ts_merge merge;
    struct ts_spool spool;    /* all nonzeros, merged; in one of the areas or in a file */
    int gaps;                 /* in memory it is merge.piece, not all of one piece */
    int mapped[TS_MAX_ORDER]; /* the field holds compact rows already */
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    uint64_t shift
        [TS_MAX_ORDER]; /* an index in the tensor is that of the records less this, and so is the
                                   * size once the modes are numbered */

    /* of tables */
    struct ts_table *table; /* NULL: the input is none */
    struct ts_names *names; /* NULL: no mode's fields are names */
    struct ts_label_writer *label[TS_MAX_ORDER];
    struct ts_value_code *code;
    double sum_of_squares;
    struct ts_disk_mode mode[TS_MAX_ORDER];
    struct ts_disk_shard *shard[TS_MAX_ORDER];
    uint32_t max_raw_bytes;
};

/* Bits of the fields that say where a nonzero is: all but the last, its value. */
static inline uint32_t ts_build_key_bits(const struct ts_record_layout *l)
{
    return l->bits - l->width[l->n_fields - 1];
}

/* build.c. Shows how far a step is, and finds out whether the user wants to stop. */
int ts_build_tell(const struct ts_build *b, const char *what, const char *unit, uint64_t done,
                  uint64_t total, struct ts_err *err);

/* The second alone: what sorts and merges leave after a wish to stop must not be used. */
int ts_build_check_stop(const struct ts_build *b, struct ts_err *err);

/* The area that `used` is not. */
static inline uint64_t *ts_build_other_area(const struct ts_build *b, const uint64_t *used)
{
    return b->area[used == b->area[0]];
}

/* build_gather.c. Serves the source that fills b->collect until it ends; what does not fit goes to
 * b->runs. */
int ts_build_gather(struct ts_build *b, const struct ts_source *source, struct ts_err *err);

/* From what was gathered to all nonzeros, each once, in the order of the modes, in b->spool. The
 * sizes of the modes are known by now. */
int ts_build_gather_merge(struct ts_build *b, struct ts_err *err);

/* build_table.c. Of a table whose columns are known: makes what names need, and gives it to the source. */
struct ts_text_source;
int ts_build_table_begin(struct ts_build *b, struct ts_text_source *s, struct ts_err *err);

/* After reading: sizes of modes of names and times, which are not those of the largest indices. */
void ts_build_table_sizes(struct ts_build *b);

/* Writes the labels of a mode of names or times. */
int ts_build_table_labels(struct ts_build *b, uint32_t mode, struct ts_err *err);

/* What columns are called; name[order] is that of the values. */
void ts_build_table_mode_names(const struct ts_build *b, const char *name[]);
void ts_build_table_free(struct ts_build *b);

/* build_duplicate.c. After a merge that was refused for b->merge.refused_index: writes the sentence anew, with
 * the places of two of its nonzeros, if the files can be read again. Returns TS_EFORMAT, or TS_ESTOP. */
int ts_build_name_duplicate(const struct ts_build *b, const struct ts_tns_rules *rules,
                            const char *const paths[], uint32_t n_paths, struct ts_err *err);

/* build_number.c. From indices and values in b->spool to compact rows and codes; writes modeK.rows
 * of the modes with empty slices, and chooses the code of the values. */
int ts_build_number(struct ts_build *b, struct ts_err *err);

/* build_spool.c. Takes the next n records, which it may overwrite where the sort says so. */
typedef int ts_build_spool_fn(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err);

struct ts_build_spool_sort {
    const struct ts_record_layout *to; /* its field f is the spool's field source[f] */
    const uint8_t *source;
    uint32_t direct_bits; /* the first ones: they mostly decide */
    int overwrites;       /* `consume` does */
    ts_build_spool_fn *consume;
    void *arg;
    const char *what; /* the step, for the user */
};

/* Gives all nonzeros, converted and sorted, to `consume`. */
int ts_build_spool_sort(struct ts_build *b, const struct ts_build_spool_sort *s,
                        struct ts_err *err);

/* Makes one piece of a spool that has gaps. */
void ts_build_spool_close_gaps(struct ts_build *b);

/* ts_record_convert() by all threads. */
void ts_build_spool_convert(const struct ts_build *b, const struct ts_record_layout *from,
                            const uint64_t *in, const struct ts_record_layout *to,
                            const uint8_t source[], uint64_t *out, uint64_t n);

#endif
