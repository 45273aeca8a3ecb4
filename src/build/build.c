/* SPDX-License-Identifier: BSD-3-Clause */
/* build.c - the sequence of a build: divide the memory, gather, merge, number the slices, write a
 * sorted copy for each mode, the labels and the index, and put the directory in its place. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/place.h"
#include "base/setting.h"
#include "base/stop.h"
#include "build/build_impl.h"
#include "build/build_index.h"
#include "build/build_ranks.h"
#include "build/label_write.h"
#include "build/level_order.h"
#include "build/mode_names_write.h"
#include "build/mode_writer.h"
#include "source/binary_kind.h"
#include "source/binary_source.h"
#include "source/byte_input.h"
#include "source/synth_source.h"
#include "source/tensor_source.h"
#include "base/tempfile.h"
#include "source/text_input.h"
#include "source/text_source.h"

void ts_build_phase_begin(struct ts_build *b, uint32_t phase, uint64_t work)
{
    b->phase = phase;
    b->phase_work = work;
    atomic_store_explicit(b->work, 0, memory_order_relaxed);
}

/* How much of `total` is done: as the caller says, or as its threads have counted. */
static uint64_t done_of(const struct ts_build *b, uint64_t done, uint64_t total)
{
    const uint64_t work = atomic_load_explicit(b->work, memory_order_relaxed);
    const double counted = b->phase_work == 0 ? 0 : (double)work / (double)b->phase_work;
    const uint64_t reached = (uint64_t)(fmin(counted, 1) * (double)total);
    return done > reached ? done : reached;
}

int ts_build_tell(const struct ts_build *b, const char *what, const char *unit, uint64_t done,
                  uint64_t total, struct ts_err *err)
{
    const uint32_t writing = TS_BUILD_PACKING + b->order;
    const struct ts_build_step step = {
        .what = what,
        .unit = unit,
        .phase = b->phase,
        .n_phases = writing,
        .done = done_of(b, done, total),
        .total = total,
        .work = b->phase_work,
        .alike = b->phase >= TS_BUILD_PACKING && b->phase < writing ? writing - 1 - b->phase : 0,
    };
    if (b->o->progress != NULL)
        b->o->progress(b->o->progress_arg, &step);
    return ts_build_check_stop(b, err);
}

static int fail_stopped(const struct ts_build *b, struct ts_err *err)
{
    return ts_fail(err, TS_ESTOP, "%s: stopped; nothing was written", b->o->out);
}

int ts_build_check_stop(const struct ts_build *b, struct ts_err *err)
{
    if (ts_stop_asked(b->o->stop))
        return fail_stopped(b, err);
    if (ts_build_comm_many(&b->ranks) && b->ranks.over.code == 0 &&
        b->ranks.comm->ops->poll(b->ranks.comm))
        return fail_stopped(b, err); /* another rank's sentence will take its place */
    return 0;
}

/* ------------------------------------------------------------------ memory */

static int new_areas(struct ts_build *b, struct ts_err *err)
{
    int rc;
    ts_build_memory_share_beside(b->o, b->order, b->beside_bytes, &b->memory);
    b->area_words = b->memory.area_words;
    b->scratch_words = b->memory.scratch_words;
    b->rooms.words = b->memory.room_words;
    b->area_bytes = (2 * (b->area_words + b->rooms.words) + b->scratch_words) * 8;
    rc = ts_bigmem_new(b->area_bytes, "sorting, most of " TS_SET_MEMORY, &b->area_mem, err);
    if (rc < 0)
        return rc;
    b->area[0] = b->area_mem;
    b->area[1] = b->area[0] + b->area_words;
    b->scratch = b->area[1] + b->area_words;
    b->rooms.mem[0] = b->scratch + b->scratch_words;
    b->rooms.mem[1] = b->rooms.mem[0] + b->rooms.words;
    return 0;
}

static void free_areas(struct ts_build *b)
{
    ts_bigmem_free(b->area_mem, b->area_bytes);
    b->area_mem = NULL;
}

/* ------------------------------------------------------------------ the copies */

static int give_to_writer(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    return ts_mode_writer_add(arg, rec, n, err);
}

static void take_written(struct ts_build *b, uint32_t m, const struct ts_mode_written *w)
{
    b->mode[m].n_shards = w->n_shards;
    b->mode[m].shards_bytes = w->file_bytes;
    b->shard[m] = w->shard;
    b->copy[m] = w->cells;
    if (w->max_raw_bytes > b->max_raw_bytes)
        b->max_raw_bytes = w->max_raw_bytes;
}

/* What several ranks write of a mode is on its way while they deal and sort for the next one, whose packed partitions then go where
 * its own lay. */
struct later {
    struct ts_build *b;
    struct ts_mode_writer *w;
};

static int give_later(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const struct later *l = arg;
    if (l->b->writing != NULL)
        ts_mode_writer_wait(l->b->writing);
    return give_to_writer(l->w, rec, n, err);
}

/* Ends that of the mode before; all ranks do, whatever rc is. */
static int end_writing(struct ts_build *b, int rc, struct ts_err *err)
{
    struct ts_mode_written written;
    if (b->writing == NULL)
        return rc;
    rc = ts_mode_writer_end(b->writing, rc, &written, err);
    if (rc == 0)
        take_written(b, b->writing_mode, &written);
    ts_mode_writer_free(b->writing);
    free(b->writing_path);
    b->writing = NULL;
    b->writing_path = NULL;
    return rc;
}

/* Deals, sorts and packs by several ranks; w and the path, which is its, are kept, to be ended. */
static int write_by_ranks(struct ts_build *b, uint32_t m, const struct ts_build_spool_sort *sort,
                          struct ts_mode_writer *w, char *path, int rc, struct ts_mode_written *ret,
                          struct ts_err *err)
{
    struct later later = { b, w };
    struct ts_build_ranks_sort all = { *sort, &b->spool, 1, 1 };
    all.sort.consume = give_later;
    all.sort.arg = &later;
    rc = ts_build_ranks_sort(b, rc, &all, err);
    rc = end_writing(b, rc, err);
    if (w != NULL)
        rc = ts_mode_writer_begin_end(w, rc, ret, err);
    if (rc < 0) {
        ts_mode_writer_free(w);
        free(path);
        return rc;
    }
    b->writing_path = path;
    b->writing = w;
    b->writing_mode = m;
    return 0;
}

static int write_mode(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_record_layout *l = &b->spool.layout;
    struct ts_mode_writer_plan plan = {
        .order = b->order,
        .threads = b->memory.threads,
        .shard_bytes = b->o->shard_bytes,
        .memory = b->memory.pack_bytes,
        .code = b->code,
        .weights = b->o->weights,
        .want_norm = m == 0,
        .ranks = &b->ranks,
        .tmp = b->tmp,
        .spare = &b->spare,
    };
    uint32_t width[TS_RECORD_FIELDS];
    uint8_t source[TS_RECORD_FIELDS] = { 0 };
    struct ts_build_spool_sort sort = { .to = &plan.layout,
                                        .source = source,
                                        .consume = give_to_writer };
    struct ts_disk_mode *disk = &b->mode[m];
    struct ts_mode_writer *w = NULL;
    struct ts_mode_written written;
    char what[48], *path = ts_build_dir_file(b->dir, "mode%u.shards", m + 1);
    int rc;
    if (path == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out);
    ts_setting_print(what, sizeof what, "packing " TS_NTH_MODE, m + 1);
    for (uint32_t f = 0; f <= b->order; f++) {
        source[f] = b->field[f < b->order ? disk->level[f] : b->order];
        width[f] = l->width[source[f]];
    }
    ts_record_layout_set(&plan.layout, b->order + 1, width);
    memcpy(plan.level, disk->level, sizeof plan.level);
    plan.path = path;
    plan.work = b->work;
    ts_build_phase_begin(b, TS_BUILD_PACKING + m, (b->spool.mem != NULL ? 3 : 5) * b->spool.n);
    rc = ts_mode_writer_new(&plan, &w, err);
    sort.direct_bits = ts_build_key_bits(&plan.layout);
    sort.arg = w;
    sort.what = what;
    if (ts_build_comm_many(&b->ranks)) {
        rc = write_by_ranks(b, m, &sort, w, path, rc, &written, err);
    } else {
        if (rc == 0)
            rc = ts_build_spool_sort(b, &sort, err);
        if (w != NULL)
            rc = ts_mode_writer_finish(w, rc, &written, err);
        if (rc == 0)
            take_written(b, m, &written);
        ts_mode_writer_free(w);
        free(path);
    }
    if (rc == 0) {
        disk->largest_slice = written.largest_slice;
        b->sum_of_squares += written.sum_of_squares;
    }
    return rc;
}

/* Checks the norm, which the index holds as float64. A norm beyond its range could not be opened
 * again. With a norm of 0, or of few bits, there is no meaningful fit. */
static int check_norm(const struct ts_build *b, struct ts_err *err)
{
    if (b->code->min == 0 && b->code->max == 0 && b->o->zeros)
        return 0; /* cells that are known to be 0 */
    if (b->code->min == 0 && b->code->max == 0)
        return ts_fail(err, TS_EFORMAT, "%s: nothing was written: all %" PRIu64 " value%s are zero",
                       b->o->out, b->merge.nnz, ts_num_plural(b->merge.nnz));
    if (b->merge.nnz > 0 && b->sum_of_squares < DBL_MIN)
        return ts_fail(err, TS_EFORMAT,
                       "%s: nothing was written: the squares of the values (%g to "
                       "%g) add up to less than float64 can hold; scale the values up",
                       b->o->out, b->code->min, b->code->max);
    if (isfinite(b->sum_of_squares))
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "%s: nothing was written: the squares of the values (%g to %g) add "
                   "up beyond the range of float64; scale the values down",
                   b->o->out, b->code->min, b->code->max);
}

static int write_modes(struct ts_build *b, struct ts_err *err)
{
    double fibres[TS_MAX_ORDER];
    int rc = 0;
    for (uint32_t m = 0; m < b->order; m++)
        fibres[m] = ts_fibres_estimate(&b->merge.fibres[0], m);
    for (uint32_t m = 0; m < b->order; m++)
        ts_level_order(b->order, m, b->merge.nnz, b->n_rows, fibres, b->mode[m].level);
    ts_merge_release(&b->merge);
    for (uint32_t f = 0; f <= b->order; f++)
        b->field[f] = (uint8_t)f;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        rc = write_mode(b, m, err);
        if (rc == 0 && m == 0)
            rc = check_norm(b, err);
    }
    rc = end_writing(b, rc, err);
    free_areas(b);
    return rc;
}

static int write_labels(struct ts_build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        struct ts_disk_mode *disk = &b->mode[m];
        char *path;
        if (b->table != NULL && ts_table_mode_field(b->table, m) != TS_TABLE_NUMBER) {
            rc = ts_build_table_labels(b, m, err);
            continue;
        }
        if (b->from != NULL ? b->from->mode[b->from_mode[m]].disk.labels_bytes == 0
                            : b->o->map[m] == NULL)
            continue;
        path = ts_build_dir_file(b->dir, "mode%u.labels", m + 1);
        if (path != NULL && b->from != NULL) {
            rc = ts_label_copy(b->from, b->from_mode[m], path, m, b->o->stop, &disk->n_labels,
                               &disk->labels_bytes, &disk->labels_hash, err);
            free(path);
            continue;
        }
        rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out)
                          : ts_label_write(b->o->map[m], path, m, b->o->stop, &disk->n_labels,
                                           &disk->labels_bytes, &disk->labels_hash, err);
        free(path);
        if (rc == 0 && !b->o->partial_map && b->o->trial == 0)
            rc = ts_label_check_count(b->o->map[m], m, b->dim[m], disk->n_labels, err);
    }
    return rc;
}

/* Refuses names that do not fit their mode, before the work. */
static int check_labels(const struct ts_build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0 && b->o->trial == 0; m++)
        if (b->o->map[m] != NULL)
            rc = ts_label_check(b->o->map[m], m, b->dim[m], b->o->partial_map, b->tmp, b->o->stop,
                                err);
    return rc;
}

static int write_index(struct ts_build *b, struct ts_err *err)
{
    const struct ts_value_code *c = b->code;
    struct ts_disk_header h = {
        .order = b->order,
        .nnz = b->merge.nnz,
        .norm = sqrt(b->sum_of_squares),
        .value_base = c->base,
        .value_bits = c->entropy,
        .value_min = c->min,
        .value_max = c->max,
        .value_kind = c->kind,
        .value_bytes = c->value_bytes,
        .n_dict = c->n_dict,
        .max_shard_bytes = b->max_raw_bytes,
        .input_nnz = b->collect.n_read,
        .n_duplicates = b->merge.n_duplicates,
        .n_zeros = b->collect.n_zeros + b->merge.n_zeros,
    };
    const char *name[TS_MAX_ORDER + 1] = { NULL };
    uint64_t hash;
    int rc;
    if (b->o->duplicates == TS_DUPLICATES_KEEP) { /* these duplicates are kept, not merged */
        h.flags |= h.n_duplicates > 0 ? TS_TENSOR_DUPLICATES : 0;
        h.n_duplicates = 0;
    }
    h.flags |= c->estimated ? TS_TENSOR_VALUE_BITS_ESTIMATED : 0;
    h.flags |= b->o->zeros ? TS_TENSOR_ZEROS : 0;
    h.flags |= b->o->weights ? TS_TENSOR_WEIGHTS : 0;
    for (uint32_t m = 0; m < b->order; m++) {
        b->mode[m].dim = b->dim[m];
        b->mode[m].n_rows = b->n_rows[m];
    }
    rc = ts_build_index_write(b->dir, &h, b->mode, c->dict, b->shard, &hash, err);
    b->report->index_bytes = h.index_bytes;
    memcpy(name, b->o->mode_name, b->o->n_names * sizeof *name);
    if (b->table != NULL)
        ts_build_table_mode_names(b, name);
    for (uint32_t m = 0; b->from != NULL && m < b->order; m++)
        name[m] = ts_tensor_mode_name(b->from, b->from_mode[m]);
    if (b->from != NULL)
        name[b->order] = ts_tensor_value_name(b->from);
    if (rc == 0)
        rc = ts_mode_names_write(b->dir, b->order, b->base, name, hash, err);
    if (rc == 0)
        rc = ts_build_sums_file(b, hash, err);
    return rc;
}

/* ------------------------------------------------------------------ the whole */

/* Checks that every nonzero read is in the tensor, or was merged or dropped. Anything else is an
 * error of ours, which no checksum would show to a user of the tensor. */
static int check_nothing_lost(const struct ts_build *b, struct ts_err *err)
{
    const uint64_t merged = b->o->duplicates == TS_DUPLICATES_KEEP ? 0 : b->merge.n_duplicates;
    const uint64_t dropped = b->collect.n_zeros + b->merge.n_zeros;
    const uint64_t left = b->merge.nnz;
    int rc = 0;
    if (left + merged + dropped != b->collect.n_read)
        return ts_fail(err, TS_EIO,
                       "%s: internal error, nothing was written: of %" PRIu64
                       " nonzeros read, %" PRIu64 " were merged, %" PRIu64 " were zero and %" PRIu64
                       " are left; please report it",
                       b->o->out, b->collect.n_read, merged, dropped, left);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        uint64_t nnz = 0;
        for (uint64_t s = 0; s < b->mode[m].n_shards; s++)
            nnz += b->shard[m][s].nnz;
        if (nnz != left)
            rc = ts_fail(err, TS_EIO,
                         "%s: internal error, nothing was written: the copy for " TS_NTH_MODE
                         " has %" PRIu64 " nonzeros of %" PRIu64 "; please report it",
                         b->o->out, m + 1, nnz, left);
    }
    return rc;
}

/* Says how many values were rounded to 0, and where the first of them is. */
static void tell_rounded(const struct ts_build *b)
{
    const struct ts_collect *c = &b->collect;
    const int narrow = b->o->value_bytes == 4;
    struct ts_build_report *r = b->report;
    char place[4200] = "";
    r->n_rounded = c->n_rounded + b->merge.account[0].n_rounded;
    if (r->n_rounded == 0)
        return;
    if (c->rounded_line > 0 && c->rounded_file < b->n_files) {
        const char *path = b->paths[c->rounded_file];
        snprintf(place, sizeof place, ", the first in %s:%" PRIu64,
                 strcmp(path, "-") == 0 ? "standard input" : path, c->rounded_line);
    }
    (void)ts_fail(&r->rounded, TS_EFORMAT,
                  "%" PRIu64 " value%s%s%s nearer to 0 than float%u holds (%.3g) became 0%s; %s",
                  r->n_rounded, ts_num_plural(r->n_rounded), b->o->weights ? " or weight" : "",
                  b->o->weights ? ts_num_plural(r->n_rounded) : "",
                  narrow ? 32 : 64, narrow ? (double)FLT_MIN : DBL_MIN, place,
                  b->o->weights ? "scale them up to keep them"
                  : narrow      ? TS_SET_FLOAT64 " keeps such values"
                                : "scale the values up to keep them");
}

/* Who has weights has observations, and one of 0 that is dropped counts neither in the mean of its
 * cell nor in a fit. */
static void note_weighted_zeros(struct ts_build *b)
{
    struct ts_build_report *r = b->report;
    if (!b->o->weights || b->o->zeros || b->collect.n_zeros == 0 || r->n_notes == TS_BUILD_NOTES)
        return;
    ts_setting_print(r->note[r->n_notes++], sizeof r->note[0],
                     "%" PRIu64 " observation%s of value 0 %s left out, of %" PRIu64
                     ": %s in no mean and no fit unless zeros are kept",
                     b->collect.n_zeros, b->collect.n_zeros == 1 ? "" : "s",
                     b->collect.n_zeros == 1 ? "was" : "were",
                     b->collect.n_read, b->collect.n_zeros == 1 ? "it counts" : "they count");
}

/* All steps after the source has ended. */
static int finish(struct ts_build *b, uint64_t start_ns, struct ts_err *err)
{
    struct ts_build_report *r = b->report;
    uint64_t t0 = ts_clock_ns(), t1;
    int rc;
    r->read_ns = t0 - start_ns;
    rc = ts_build_room_known(b, err);
    if (rc == 0)
        rc = ts_build_gather_merge(b, err);
    if (rc == 0)
        rc = ts_build_number(b, err);
    if (rc == 0)
        rc = ts_build_room_known(b, err);
    t1 = ts_clock_ns();
    r->merge_ns = t1 - t0;
    if (rc == 0)
        rc = write_modes(b, err);
    if (rc == 0)
        rc = check_nothing_lost(b, err);
    rc = ts_build_sums_written(b, rc, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = write_labels(b, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = write_index(b, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    t0 = ts_clock_ns();
    r->pack_ns = t0 - t1;
    ts_build_phase_begin(b, TS_BUILD_PACKING + b->order, 0);
    if (rc == 0 && ts_build_ranks_writes(b)) /* the others do not stop any more */
        rc = ts_build_tell(b, "writing", "", 0, 0, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = b->o->trial > 0 ? ts_build_dir_sync(b->dir, b->order, err)
                             : ts_build_dir_commit(b->dir, &r->warn, err);
    r->sync_ns = ts_clock_ns() - t0;
    r->exchange_ns = b->ranks.exchange_ns;
    r->order = b->order;
    r->nnz = b->merge.nnz;
    r->input_nnz = b->collect.n_read;
    r->n_duplicates = b->merge.n_duplicates;
    r->n_zeros = b->collect.n_zeros + b->merge.n_zeros;
    if (rc == 0)
        tell_rounded(b);
    if (rc == 0)
        note_weighted_zeros(b);
    r->n_missing = b->collect.n_missing;
    memcpy(r->dim, b->dim, sizeof r->dim);
    memcpy(r->n_rows, b->n_rows, sizeof r->n_rows);
    r->read_words = b->collect.layout.words;
    r->packed_words = b->spool.layout.words;
    for (uint32_t m = 0; m < b->order; m++) {
        r->shards_bytes[m] = b->mode[m].shards_bytes;
        r->rows_bytes[m] = b->mode[m].rows_bytes;
        r->labels_bytes[m] = b->mode[m].labels_bytes;
        r->n_numbered += (uint32_t)b->mapped[m];
    }
    return rc;
}

/* Checks the directory for temporary files at once: a build needs it only after long reading. */
static int check_tmp(const char *dir, struct ts_err *err)
{
    int fd;
    const int rc = ts_tempfile_new(dir, &fd, err);
    if (rc == 0)
        close(fd);
    return rc;
}

/* The other ranks write to the directory that rank 0 has made. */
static int join_dir(struct ts_build *b, int rc, struct ts_err *err)
{
    char path[4096] = "";
    const int writes = ts_build_ranks_writes(b);
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    if (rc == 0 && writes && strlen(ts_build_dir_path(b->dir)) >= sizeof path)
        rc = ts_fail(err, TS_EARG, "%s: the name is too long", b->o->out);
    else if (rc == 0 && writes)
        strcpy(path, ts_build_dir_path(b->dir));
    rc = ts_build_comm_tell(&b->ranks, rc, path, sizeof path, err);
    return rc == 0 && !writes ? ts_build_dir_join(path, &b->dir, err) : rc;
}

/* Holds the files that are read against the directory that is made. */
static int check_places(const struct ts_build_options *o, const char *const path[], uint32_t n,
                        struct ts_err *err)
{
    struct ts_place *place = calloc((size_t)n + TS_MAX_ORDER + 1, sizeof *place);
    int rc;
    if (place == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", o->out);
    for (uint32_t i = 0; i < n; i++)
        place[i].path = path[i];
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        place[n + m].path = o->map[m];
    place[n + TS_MAX_ORDER] = (struct ts_place){ .path = o->out,
                                                 .suffix = TS_BUILDING_SUFFIX,
                                                 .option = TS_SET_OUTPUT };
    rc = ts_place_check(place, n + TS_MAX_ORDER + 1, err);
    free(place);
    return rc;
}

static int init(struct ts_build *b, const struct ts_build_options *o, const char *const path[],
                uint32_t n_paths, struct ts_build_report *report, struct ts_err *err)
{
    const char *slash = strrchr(o->out, '/');
    int rc;
    memset(b, 0, sizeof *b);
    memset(report, 0, sizeof *report);
    b->o = o;
    b->report = report;
    b->ranks.comm = o->comm;
    b->work = o->work != NULL ? o->work : &b->own_work;
    b->base = 1;
    b->spool.fd = -1;
    b->tmp = o->tmp != NULL  ? strdup(o->tmp)
             : slash == NULL ? strdup(".")
                             : strndup(o->out, (size_t)(slash - o->out) + 1);
    b->real = *o;
    if (o->trial > 0)
        b->real.trial = 0, b->real.area_words = 0;
    b->space.o = &b->real;
    b->space.read.high = b->space.nnz.high = UINT64_MAX;
    b->space.nnz.low = 1;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        b->space.dim[m] = (struct ts_space){ 1, UINT64_C(1) << 32 };
    ts_build_memory_share(o, TS_MIN_ORDER, &b->memory);
    if (b->tmp == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", o->out);
    rc = o->tmp == NULL ? 0 : check_tmp(b->tmp, err);
    if (rc == 0)
        rc = check_places(o, path, n_paths, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_dir_open(o->out, o->force, &b->dir, err);
    return join_dir(b, rc, err);
}

/* Ends a build with the result rc. A wish to stop gets its sentence here, whichever step saw it
 * first. */
static int fini(struct ts_build *b, int rc, struct ts_err *err)
{
    if (rc == TS_ESTOP)
        rc = fail_stopped(b, err);
    if (rc < 0)
        ts_build_room_explain(b, err);
    ts_room_free(&b->room);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    ts_build_ranks_drop(b);
    ts_build_ranks_unshare(b);
    ts_collect_fini(&b->collect);
    ts_extsort_free(b->runs);
    ts_merge_fini(&b->merge);
    ts_spool_close(&b->spool);
    for (uint32_t m = 0; m < b->order; m++)
        free(b->shard[m]);
    free(b->code);
    free(b->tmp);
    free_areas(b);
    ts_build_table_free(b);
    ts_build_dir_close(b->dir);
    return rc;
}

static int gather(struct ts_build *b, const struct ts_source *s, struct ts_err *err)
{
    const struct ts_sink sink = ts_collect_sink(&b->collect);
    int rc = s->start(s->self, &sink, err);
    if (rc == 0)
        rc = ts_build_gather(b, s, err);
    s->stop(s->self);
    return rc;
}

/* Takes all nonzeros of a source into the areas and sorted runs. */
static int read_source(struct ts_build *b, const struct ts_source *s, struct ts_err *err)
{
    int rc = ts_build_comm_agree(&b->ranks, ts_build_room_begin(b, err), err);
    if (rc == 0)
        rc = new_areas(b, err);
    if (rc == 0)
        rc = ts_collect_init(&b->collect, b->order, ts_build_value_bits(b), b->area[0],
                             b->area_words, s->threads, err);
    b->collect.weights = b->o->weights;
    if (rc == 0)
        rc = gather(b, s, err);
    if (b->names != NULL && ts_build_comm_many(&b->ranks)) {
        rc = ts_build_names(b, rc, err);
        if (rc == 0) {
            ts_collect_again(&b->collect, s->threads);
            rc = gather(b, s, err);
        }
    }
    if (rc == 0 && s->check != NULL && !ts_build_comm_many(&b->ranks))
        rc = s->check(s->self, err);
    return ts_build_ranks_read(b, rc, err);
}

/* Memory set aside for decompression: what the files may need, at most a quarter. */
static uint64_t unpack_bytes(const struct ts_build_options *o, const char *const paths[],
                             uint32_t n_paths)
{
    const uint64_t need = ts_text_input_unpack_need(paths, n_paths);
    return need < o->memory / 4 ? need : o->memory / 4;
}

/* Options that name modes, against the input. */
static int check_order(const struct ts_build *b, const char *name, struct ts_err *err)
{
    const struct ts_build_options *o = b->o;
    if (b->order < o->min_order)
        return ts_fail(err, TS_EARG, TS_SET_LABELS " names " TS_NTH_MODE ", but %s has %u modes",
                       o->min_order, name, b->order);
    if (b->table == NULL && o->n_names > 0 && o->n_names != b->order)
        return ts_fail(err, TS_EARG, TS_SET_NAMES " names %u mode%s, but %s has %u", o->n_names,
                       ts_num_plural(o->n_names), name, b->order);
    return 0;
}

/* Whether the ranks together have read of each file what its header says. */
static int check_counts(struct ts_build *b, struct ts_text_source *s, int rc, uint32_t n_paths,
                        const struct ts_source *source, struct ts_err *err)
{
    uint64_t *count;
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    count = calloc(n_paths, sizeof *count);
    if (rc == 0 && count == NULL)
        rc = ts_build_comm_no_memory(err);
    for (uint32_t f = 0; f < n_paths && rc == 0; f++)
        count[f] = ts_text_source_count(s, f);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, count, n_paths, err);
    for (uint32_t f = 0; f < n_paths && rc == 0; f++)
        ts_text_source_set_count(s, f, count[f]);
    free(count);
    return rc == 0 ? source->check(source->self, err) : rc;
}

static int build_text(struct ts_build *b, const char *const paths[], uint32_t n_paths,
                      struct ts_byte_input *first, uint64_t start, struct ts_err *err)
{
    const struct ts_build_options *o = b->o;
    struct ts_text_source *s = NULL;
    const struct ts_text_kind *kind = NULL;
    struct ts_tns_rules rules = { 0 };
    struct ts_text_plan plan = { .paths = paths,
                                 .first = first,
                                 .n_paths = n_paths,
                                 .base = o->base,
                                 .value_bytes = o->value_bytes,
                                 .n_dims = o->n_dims,
                                 .stop = o->stop,
                                 .share = o->trial,
                                 .zeros = o->zeros,
                                 .skip_missing = o->skip_missing,
                                 .part = o->comm == NULL ? 0 : o->comm->rank,
                                 .n_parts = o->comm == NULL ? 1 : o->comm->n,
                                 .table = b->table,
                                 .unpack_bytes = b->unpack_bytes,
                                 .threads = b->memory.read_threads,
                                 .read_bytes = b->memory.read_bytes,
                                 .piece_bytes = b->memory.piece_bytes };
    int rc;
    b->n_files = n_paths;
    b->paths = paths;
    memcpy(plan.dim, o->dim, sizeof plan.dim);
    rc = ts_text_source_open(&plan, &s, err);
    if (rc == 0) {
        b->order = ts_text_source_rules(s)->order;
        rc = check_order(b, paths[0], err);
    }
    if (rc == 0 && b->table != NULL)
        rc = ts_build_table_begin(b, s, err);
    if (rc == 0) {
        const struct ts_source source = ts_text_source_as_source(s);
        b->space.separator = b->table == NULL ? ' ' : ts_table_separator(b->table);
        ts_build_space_of_text(paths, n_paths, b->unpack_bytes, &b->space);
        for (uint32_t m = 0; m < o->n_dims; m++)
            b->space.dim[m].high = o->dim[m];
        rc = read_source(b, &source, err);
        rc = check_counts(b, s, rc, n_paths, &source, err);
    }
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        const struct ts_tns_rules *r = ts_text_source_rules(s);
        b->dim[m] = r->fixed ? r->dim[m] : b->collect.max[m] + 1;
    }
    if (rc == 0 && b->table != NULL)
        rc = ts_build_table_sizes(b, rc, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = check_labels(b, err);
    if (s != NULL) {
        uint64_t total;
        ts_text_source_progress(s, &b->report->text_bytes, &total);
        rules = *ts_text_source_rules(s);
        b->base = rules.base;
        kind = ts_text_source_kind(s);
    }
    ts_text_source_close(s);
    if (rc == 0)
        rc = finish(b, start, err);
    if (rc < 0 && b->merge.refused && !ts_build_comm_many(&b->ranks))
        rc = ts_build_name_duplicate(b, kind, &rules, paths, n_paths, err);
    return rc;
}

static int build_binary(struct ts_build *b, const char *const paths[], uint32_t n_paths,
                        struct ts_byte_input *first, uint64_t start, struct ts_err *err)
{
    const struct ts_build_options *o = b->o;
    struct ts_binary_source *s = NULL;
    struct ts_binary_plan plan = { .paths = paths,
                                   .n_paths = n_paths,
                                   .first = first,
                                   .base = o->base_said ? o->base : 0,
                                   .value_bytes = o->value_bytes,
                                   .n_dims = o->n_dims,
                                   .stop = o->stop,
                                   .share = o->trial,
                                   .zeros = o->zeros,
                                   .part = o->comm == NULL ? 0 : o->comm->rank,
                                   .n_parts = o->comm == NULL ? 1 : o->comm->n,
                                   .unpack_bytes = b->unpack_bytes,
                                   .threads = b->memory.read_threads,
                                   .read_bytes = b->memory.read_bytes,
                                   .piece_bytes = b->memory.piece_bytes };
    int rc;
    memcpy(plan.dim, o->dim, sizeof plan.dim);
    b->base = plan.base;
    b->report->binary = 1;
    rc = ts_binary_source_open(&plan, &s, err);
    if (rc == 0) {
        b->order = ts_binary_source_order(s);
        memcpy(b->dim, ts_binary_source_dims(s), sizeof b->dim);
        rc = check_order(b, paths[0], err);
    }
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = check_labels(b, err);
    if (rc == 0) {
        const struct ts_source source = ts_binary_source_as_source(s);
        uint64_t total;
        ts_build_space_of_binary(paths, n_paths, b->unpack_bytes, &b->space);
        for (uint32_t m = 0; m < b->order; m++)
            b->space.dim[m].high = b->dim[m];
        rc = read_source(b, &source, err);
        ts_binary_source_progress(s, &b->report->text_bytes, &total);
    }
    ts_binary_source_close(s);
    if (rc == 0)
        rc = finish(b, start, err);
    plan.first = NULL;
    if (rc < 0 && b->merge.refused && !ts_build_comm_many(&b->ranks))
        rc = ts_build_name_duplicate_binary(b, &plan, err);
    return rc;
}

/* The first bytes of the first file tell the kind of all. It stays open, as a pipe cannot be opened
 * twice. */
static int build_from(struct ts_build *b, const char *const paths[], uint32_t n_paths,
                      uint64_t start, struct ts_err *err)
{
    struct ts_byte_input *first = NULL;
    const struct ts_binary_kind *kind = NULL;
    const unsigned char *head;
    size_t n;
    int rc = ts_byte_input_open(paths[0], b->unpack_bytes, b->o->stop, &first, err);
    if (rc == 0)
        rc = ts_byte_input_peek(first, &head, &n, err);
    if (rc == 0)
        kind = ts_binary_kind_find(head, n);
    if (kind != NULL && b->o->table_by_name) {
        ts_table_free(b->table);
        b->table = NULL;
    }
    if (rc == 0 && kind != NULL && b->table != NULL)
        rc = ts_fail(err, TS_EFORMAT,
                     "%s: a %s file, which is not a table, as " TS_SET_FORMAT ", " TS_SET_COLUMNS
                     " and such options, or "
                     "its name, have it",
                     ts_byte_input_name(first), kind->name);
    if (rc < 0) {
        ts_byte_input_close(first);
        return rc;
    }
    return kind != NULL ? build_binary(b, paths, n_paths, first, start, err)
                        : build_text(b, paths, n_paths, first, start, err);
}

/* Several processes each read their part of a file. */
static int check_regular(const char *path, struct ts_err *err)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && (stat(path, &st) < 0 || S_ISREG(st.st_mode)))
        return 0; /* one that is not there is refused when it is opened */
    return ts_fail(
        err, TS_EARG,
        "%s: several processes read parts of files, and this is none: put it into one, or "
        "build with one process",
        strcmp(path, "-") == 0 ? "standard input" : path);
}

int ts_build_paths(const struct ts_build_options *o, const char *const paths[], uint32_t n_paths,
                   struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_build b;
    int rc = init(&b, o, paths, n_paths, ret, err);
    for (uint32_t i = 0; i < n_paths && rc == 0 && ts_build_comm_many(&b.ranks); i++)
        rc = check_regular(paths[i], err);
    if (rc == 0 && o->table != NULL)
        rc = ts_table_new(o->table, &b.table, err);
    b.unpack_bytes = unpack_bytes(o, paths, n_paths);
    b.beside_bytes = b.unpack_bytes;
    if (rc == 0)
        rc = build_from(&b, paths, n_paths, start, err);
    ret->base = b.base;
    return fini(&b, rc, err);
}

int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_synth_source *s = NULL;
    struct ts_build b;
    uint32_t threads;
    int rc = init(&b, o, NULL, 0, ret, err);
    b.order = synth->order;
    threads = ts_synth_source_threads(synth, b.memory.threads, o->memory / 16);
    if (rc == 0)
        rc = ts_synth_source_new(synth, threads, o->memory / 16, &s, err);
    if (rc == 0) {
        const struct ts_source source = ts_synth_source_as_source(s);
        b.space.value_bits = ts_build_value_bits(&b);
        ts_build_space_of_synth(synth, &b.space);
        rc = read_source(&b, &source, err);
    }
    ts_synth_source_free(s);
    if (rc == 0 && b.collect.n_read != synth->nnz)
        rc = ts_fail(err, TS_EIO,
                     "%s: internal error, nothing was written: %" PRIu64 " nonzeros of "
                     "%" PRIu64 " were drawn; please report it",
                     o->out, b.collect.n_read, synth->nnz);
    memcpy(b.dim, synth->dim, sizeof b.dim);
    if (rc == 0)
        rc = finish(&b, start, err);
    return fini(&b, rc, err);
}

static int check_names(const struct ts_build_options *o, uint32_t order, struct ts_err *err)
{
    if (o->n_names == 0 || o->n_names == order)
        return 0;
    return ts_fail(err, TS_EARG, "%s: %u mode%s named, and there are %u", o->out, o->n_names,
                   o->n_names == 1 ? " is" : "s are", order);
}

int ts_build_source(const struct ts_build_options *o, uint32_t order,
                    const struct ts_source *source, struct ts_build_report *ret,
                    struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_build b;
    int rc = init(&b, o, NULL, 0, ret, err);
    b.order = order;
    b.base = o->base;
    if (rc == 0)
        rc = check_names(o, b.order, err);
    for (uint32_t m = 0; m < o->n_dims; m++)
        b.space.dim[m].high = o->dim[m];
    if (o->expect > 0)
        b.space.read = (struct ts_space){ o->expect, o->expect };
    if (o->expect > 0)
        b.space.nnz =
            (struct ts_space){ o->duplicates == TS_DUPLICATES_SUM ? 1 : o->expect, o->expect };
    if (rc == 0)
        rc = read_source(&b, source, err);
    if (rc < 0)
        source->stop(source->self); /* a program that pushes waits for a start */
    for (uint32_t m = 0; m < b.order && rc == 0; m++)
        b.dim[m] = o->n_dims > 0 ? o->dim[m] : b.collect.max[m] + 1;
    if (rc == 0)
        rc = finish(&b, start, err);
    return fini(&b, rc, err);
}

/* Modes that stay, in their order. */
static int take_modes(struct ts_build *b, const struct ts_tensor *t, const struct ts_pick *pick,
                      struct ts_err *err)
{
    if (ts_tensor_weighted(t) && pick->left_out != 0)
        return ts_fail(
            err, TS_EARG,
            "%s: its cells have weights, so those that differ in a mode alone are not added "
            "up",
            t->path);
    b->from = t;
    b->base = ts_tensor_base(t);
    for (uint32_t m = 0; m < t->order; m++) {
        if ((pick->left_out >> m & 1) != 0)
            continue;
        b->from_mode[b->order] = m;
        b->dim[b->order++] = t->mode[m].disk.dim;
    }
    return b->order >= TS_MIN_ORDER
               ? 0
               : ts_fail(err, TS_EARG,
                         "%s: %u mode%s would be left of %u, and a tensor has at least %u",
                         b->o->out, b->order, ts_num_plural(b->order), t->order, TS_MIN_ORDER);
}

/* Reading takes an eighth of the memory besides; with fewer threads where that does not suffice. */
static int open_tensor(struct ts_build *b, const struct ts_pick *pick,
                       struct ts_tensor_source **ret, struct ts_err *err)
{
    struct ts_tensor_source_conf conf = { .tensor = b->from,
                                          .pick = pick,
                                          .threads = b->memory.threads,
                                          .tmp = b->tmp,
                                          .stop = b->o->stop };
    const uint64_t part = b->o->memory / 8;
    while (conf.threads > 1 && ts_tensor_source_least(&conf) > part)
        conf.threads--;
    if (ts_tensor_source_least(&conf) > b->o->memory / 4)
        return ts_fail(err, TS_EARG, TS_SET_MEMORY " must be at least %" PRIu64 "M to read %s",
                       (4 * ts_tensor_source_least(&conf) >> 20) + 1, b->from->path);
    conf.bytes = ts_tensor_source_most(&conf) < part ? ts_tensor_source_most(&conf) : part;
    b->beside_bytes =
        ts_tensor_source_least(&conf) > conf.bytes ? ts_tensor_source_least(&conf) : conf.bytes;
    return ts_tensor_source_new(&conf, ret, err);
}

int ts_build_tensor(const struct ts_build_options *o, const struct ts_tensor *t,
                    const struct ts_pick *pick, struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_tensor_source *s = NULL;
    struct ts_build b;
    int rc = init(&b, o, (const char *const[]){ t->path }, 1, ret, err);
    if (rc == 0)
        rc = take_modes(&b, t, pick, err);
    if (rc == 0)
        rc = open_tensor(&b, pick, &s, err);
    if (rc == 0) {
        const struct ts_source source = ts_tensor_source_as_source(s);
        ts_build_space_of_tensor(t, pick, &b.space);
        for (uint32_t m = 0; m < b.order; m++)
            b.space.dim[m].high = b.dim[m];
        rc = read_source(&b, &source, err);
    }
    ts_tensor_source_free(s);
    if (rc == 0)
        rc = finish(&b, start, err);
    ret->base = b.base;
    return fini(&b, rc, err);
}
