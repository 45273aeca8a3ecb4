/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the files of the tensor: a copy of the nonzeros sorted for each mode, then the labels, and
 * last the index. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/setting.h"
#include "build/build_steps.h"
#include "build/build_index.h"
#include "build/ranks/build_ranks.h"
#include "build/write/label_write.h"
#include "build/write/level_order.h"
#include "build/write/mode_names_write.h"
#include "build/write/mode_writer.h"
#include "source/text/text_source.h"

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

/* With several ranks, a thread writes the shards of a mode while the ranks exchange and sort
 * records of the next mode. Packing starts after that thread has ended, because the new partitions
 * are stored in the memory of the old ones. */
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

/* Waits until the shards of the previous mode are written. All ranks call it, whatever rc is. */
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

/* With several ranks: exchanges and sorts the records of mode m, and packs them with w. On success
 * b owns w and path until end_writing. */
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
        return ts_no_memory(err, b->o->out);
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

/* Checks the norm of the tensor, which the index holds as float64. A tensor whose norm is beyond
 * the range of float64 could not be opened again. With a norm of 0, or one so small that it has few
 * bits, a fit means nothing. */
static int check_norm(const struct ts_build *b, struct ts_err *err)
{
    if (b->code->min == 0 && b->code->max == 0 && b->o->zeros)
        /* all values are zeros, which --zeros keep asks to keep, so they are no mistake */
        return 0;
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

int ts_build_write_modes(struct ts_build *b, struct ts_err *err)
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
    return end_writing(b, rc, err);
}

int ts_build_write_labels(struct ts_build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        const struct ts_tensor *from = b->from != NULL        ? b->from
                                       : b->o->map[m] == NULL ? b->o->after
                                                              : NULL;
        const uint32_t from_mode = b->from != NULL ? b->from_mode[m] : m;
        struct ts_disk_mode *disk = &b->mode[m];
        char *path;
        if (b->table != NULL && ts_table_mode_field(b->table, m) != TS_TABLE_NUMBER) {
            rc = ts_build_table_labels(b, m, err);
            continue;
        }
        if (from != NULL ? from->mode[from_mode].disk.labels_bytes == 0 : b->o->map[m] == NULL)
            continue;
        path = ts_build_dir_file(b->dir, "mode%u.labels", m + 1);
        if (path != NULL && from != NULL) {
            rc = ts_label_copy(from, from_mode, path, m, b->o->stop, &disk->n_labels,
                               &disk->labels_bytes, &disk->labels_hash, err);
            free(path);
            continue;
        }
        rc = path == NULL ? ts_no_memory(err, b->o->out)
                          : ts_label_write(b->o->map[m], path, m, b->o->stop, &disk->n_labels,
                                           &disk->labels_bytes, &disk->labels_hash, err);
        free(path);
        if (rc == 0 && !b->o->partial_map && b->o->trial == 0)
            rc = ts_label_check_count(b->o->map[m], m, b->dim[m], disk->n_labels, err);
    }
    return rc;
}

/* Fails if a file of labels does not fit its mode. Called before the long work of the build. */
int ts_build_check_labels(const struct ts_build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0 && b->o->trial == 0; m++)
        if (b->o->map[m] != NULL)
            rc = ts_label_check(b->o->map[m], m, b->dim[m], b->o->partial_map, b->tmp, b->o->stop,
                                err);
    return rc;
}

/* Takes the names of modes and values from the old tensor, if nonzeros are appended to it from
 * files without such names. */
static void copy_names(const struct ts_tensor *t, const char *name[])
{
    for (uint32_t m = 0; m < t->order; m++)
        name[m] = ts_tensor_mode_name(t, m);
    name[t->order] = ts_tensor_value_name(t);
}

void ts_build_mode_names(const struct ts_build *b, const char *name[TS_MAX_ORDER + 1])
{
    memset(name, 0, (TS_MAX_ORDER + 1) * sizeof *name);
    memcpy(name, b->o->mode_name, b->o->n_names * sizeof *name);
    if (b->table != NULL)
        ts_build_table_mode_names(b, name);
    else if (b->o->after != NULL)
        copy_names(b->o->after, name);
    for (uint32_t m = 0; b->from != NULL && m < b->order; m++)
        name[m] = ts_tensor_mode_name(b->from, b->from_mode[m]);
    if (b->from != NULL)
        name[b->order] = ts_tensor_value_name(b->from);
}

int ts_build_write_index(struct ts_build *b, struct ts_err *err)
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
    const char *name[TS_MAX_ORDER + 1];
    uint64_t hash;
    int rc;
    /* several nonzeros of a cell are kept, not merged */
    if (b->o->duplicates == TS_DUPLICATES_KEEP) {
        h.flags |= h.n_duplicates > 0 ? TS_TENSOR_DUPLICATES : 0;
        h.n_duplicates = 0;
    }
    if (b->carried != NULL) {
        h.input_nnz = b->carried->input_nnz;
        h.n_duplicates += b->carried->n_duplicates;
        h.n_zeros += b->carried->n_zeros;
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
    ts_build_mode_names(b, name);
    if (rc == 0)
        rc = ts_mode_names_write(b->dir, b->order, b->base, name, hash, err);
    if (rc == 0)
        rc = ts_build_sums_file(b, hash, err);
    if (rc == 0)
        rc = ts_build_kept_file(b, hash, err);
    return rc;
}
