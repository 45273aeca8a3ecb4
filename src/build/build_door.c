/* SPDX-License-Identifier: BSD-3-Clause */
/* Begins a build for each kind of input: text and binary files, the generator, a program, a tensor.
 * For each it makes the source of the nonzeros, and says what is known of them before reading. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/setting.h"
#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "source/binary/binary_kind.h"
#include "source/binary/binary_source.h"
#include "source/packed/byte_input.h"
#include "source/synth/synth_source.h"
#include "format/segments.h"
#include "format/tensor_sums.h"
#include "source/segments_source.h"
#include "source/tensor_source.h"
#include "source/text/text_input.h"
#include "source/text/text_kind.h"
#include "source/text/text_source.h"

/* Returns the memory to set aside for decompression: what the files may need, at most a quarter of
 * all. */
static uint64_t unpack_bytes(const struct ts_build_options *o, const char *const paths[],
                             uint32_t n_paths)
{
    const uint64_t need = ts_text_input_unpack_need(paths, n_paths);
    return need < o->memory / 4 ? need : o->memory / 4;
}

/* Checks that options which name modes fit the order of the input. */
static int check_order(const struct ts_build *b, const char *name, struct ts_err *err)
{
    const struct ts_build_options *o = b->o;
    if (o->after != NULL && b->order != o->after->order)
        return ts_fail(err, TS_EARG, "%s: has %" PRIu32 " modes, and %s has %" PRIu32,
                       o->after->path, o->after->order, name, b->order);
    if (b->order < o->min_order)
        return ts_fail(err, TS_EARG, TS_SET_LABELS " names " TS_NTH_MODE ", but %s has %u modes",
                       o->min_order, name, b->order);
    if (b->table == NULL && o->n_names > 0 && o->n_names != b->order)
        return ts_fail(err, TS_EARG, TS_SET_NAMES " names %u mode%s, but %s has %u", o->n_names,
                       ts_num_plural(o->n_names), name, b->order);
    return 0;
}

/* Checks that all ranks together have read as many nonzeros of each file as its header says. */
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

static struct ts_files_plan plan_of(const struct ts_build *b, const char *const paths[],
                                    uint32_t n_paths, struct ts_byte_input *first, uint32_t base)
{
    const struct ts_build_options *o = b->o;
    struct ts_files_plan plan = { .paths = paths,
                                  .first = first,
                                  .n_paths = n_paths,
                                  .base = base,
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
    memcpy(plan.dim, o->dim, sizeof plan.dim);
    return plan;
}

static int build_text(struct ts_build *b, const char *const paths[], uint32_t n_paths,
                      struct ts_byte_input *first, uint64_t start, struct ts_err *err)
{
    const struct ts_build_options *o = b->o;
    struct ts_text_source *s = NULL;
    const struct ts_text_kind *kind = NULL;
    struct ts_tns_rules rules = { 0 };
    const struct ts_files_plan plan = plan_of(b, paths, n_paths, first, o->base);
    int rc;
    b->n_files = n_paths;
    b->paths = paths;
    rc = ts_text_source_open(&plan, &s, err);
    if (rc == 0) {
        b->order = ts_text_source_rules(s)->order;
        rc = check_order(b, paths[0], err);
    }
    if (rc == 0) {
        b->source = ts_text_source_kind(s)->name;
        b->base = ts_text_source_rules(s)->base;
        rc = ts_build_kept_check(b, err);
    }
    if (rc == 0 && b->table != NULL)
        rc = ts_build_table_begin(b, s, err);
    if (rc == 0) {
        const struct ts_source source = ts_text_source_as_source(s);
        b->space.separator = b->table == NULL ? ' ' : ts_table_separator(b->table);
        ts_build_space_of_text(paths, n_paths, b->unpack_bytes, &b->space);
        for (uint32_t m = 0; m < o->n_dims; m++)
            b->space.dim[m].high = o->dim[m];
        rc = ts_build_read(b, &source, err);
        rc = check_counts(b, s, rc, n_paths, &source, err);
    }
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        const struct ts_tns_rules *r = ts_text_source_rules(s);
        b->dim[m] = r->fixed ? r->dim[m] : b->collect.max[m] + 1;
    }
    if (rc == 0 && b->table != NULL)
        rc = ts_build_table_sizes(b, rc, err);
    if (rc == 0 && o->after != NULL)
        rc = ts_build_after_sizes(b, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_check_labels(b, err);
    if (s != NULL) {
        uint64_t total;
        ts_text_source_as_source(s).progress(s, &b->report->text_bytes, &total);
        rules = *ts_text_source_rules(s);
        b->base = rules.base;
        kind = ts_text_source_kind(s);
    }
    ts_text_source_close(s);
    if (rc == 0)
        rc = ts_build_finish(b, start, err);
    if (rc < 0 && b->merge.refused && !ts_build_comm_many(&b->ranks))
        rc = ts_build_name_duplicate(b, kind, &rules, paths, n_paths, err);
    return rc;
}

static int build_binary(struct ts_build *b, const char *const paths[], uint32_t n_paths,
                        struct ts_byte_input *first, uint64_t start, struct ts_err *err)
{
    const struct ts_build_options *o = b->o;
    struct ts_binary_source *s = NULL;
    struct ts_files_plan plan = plan_of(b, paths, n_paths, first, o->base_said ? o->base : 0);
    int rc;
    b->base = plan.base;
    b->report->binary = 1;
    rc = ts_binary_source_open(&plan, &s, err);
    if (rc == 0) {
        b->order = ts_binary_source_order(s);
        memcpy(b->dim, ts_binary_source_dims(s), sizeof b->dim);
        rc = check_order(b, paths[0], err);
    }
    if (rc == 0 && o->after != NULL)
        rc = ts_build_after_sizes(b, err);
    if (rc == 0)
        rc = ts_build_kept_check(b, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_check_labels(b, err);
    if (rc == 0) {
        const struct ts_source source = ts_binary_source_as_source(s);
        uint64_t total;
        ts_build_space_of_binary(paths, n_paths, b->unpack_bytes, &b->space);
        for (uint32_t m = 0; m < b->order; m++)
            b->space.dim[m].high = b->dim[m];
        rc = ts_build_read(b, &source, err);
        source.progress(s, &b->report->text_bytes, &total);
    }
    ts_binary_source_close(s);
    if (rc == 0)
        rc = ts_build_finish(b, start, err);
    plan.first = NULL;
    if (rc < 0 && b->merge.refused && !ts_build_comm_many(&b->ranks))
        rc = ts_build_name_duplicate_binary(b, &plan, err);
    return rc;
}

/* Builds from files, whose kind the first bytes of the first file tell. That file stays open for
 * reading, because a pipe cannot be opened twice. */
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
    b->source = kind != NULL ? kind->name : NULL;
    return kind != NULL ? build_binary(b, paths, n_paths, first, start, err)
                        : build_text(b, paths, n_paths, first, start, err);
}

/* Fails if the path is not a regular file, because several processes each read a part of it. */
static int check_regular(const char *path, struct ts_err *err)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && (stat(path, &st) < 0 || S_ISREG(st.st_mode)))
        return 0; /* a file that does not exist is refused when it is opened */
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
    int rc = ts_build_init(&b, o, paths, n_paths, ret, err);
    for (uint32_t i = 0; i < n_paths && rc == 0 && ts_build_comm_many(&b.ranks); i++)
        rc = check_regular(paths[i], err);
    if (rc == 0 && o->table != NULL)
        rc = ts_table_new(o->table, &b.table, err);
    b.unpack_bytes = unpack_bytes(o, paths, n_paths);
    b.beside_bytes = b.unpack_bytes;
    if (rc == 0)
        rc = build_from(&b, paths, n_paths, start, err);
    ret->base = b.base;
    return ts_build_fini(&b, rc, err);
}

int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_synth_source *s = NULL;
    struct ts_build b;
    uint32_t threads;
    int rc = ts_build_init(&b, o, NULL, 0, ret, err);
    b.order = synth->order;
    b.source = "generator";
    threads = ts_synth_source_threads(synth, b.memory.threads, o->memory / 16);
    if (rc == 0)
        rc = ts_synth_source_new(synth, threads, o->memory / 16, &s, err);
    if (rc == 0) {
        const struct ts_source source = ts_synth_source_as_source(s);
        b.space.value_bits = ts_build_value_bits(&b);
        ts_build_space_of_synth(synth, &b.space);
        rc = ts_build_read(&b, &source, err);
    }
    ts_synth_source_free(s);
    if (rc == 0 && b.collect.n_read != synth->nnz)
        rc = ts_fail(err, TS_EIO,
                     "%s: internal error, nothing was written: %" PRIu64 " nonzeros of "
                     "%" PRIu64 " were drawn; please report it",
                     o->out, b.collect.n_read, synth->nnz);
    memcpy(b.dim, synth->dim, sizeof b.dim);
    if (rc == 0)
        rc = ts_build_finish(&b, start, err);
    return ts_build_fini(&b, rc, err);
}

static int check_names(const struct ts_build_options *o, uint32_t order, struct ts_err *err)
{
    if (o->n_names == 0 || o->n_names == order)
        return 0;
    return ts_fail(err, TS_EARG, "%s: %u mode%s named, and there are %u", o->out, o->n_names,
                   o->n_names == 1 ? " is" : "s are", order);
}

int ts_build_source(const struct ts_build_options *o, uint32_t order,
                    const struct ts_source *source, struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_build b;
    int rc = ts_build_init(&b, o, NULL, 0, ret, err);
    b.order = order;
    b.base = o->base;
    b.source = "arrays";
    if (rc == 0)
        rc = check_names(o, b.order, err);
    if (rc == 0 && o->after != NULL)
        rc = check_order(&b, "what is appended", err);
    if (rc == 0)
        rc = ts_build_kept_check(&b, err);
    for (uint32_t m = 0; m < o->n_dims; m++)
        b.space.dim[m].high = o->dim[m];
    if (o->expect > 0)
        b.space.read = (struct ts_space){ o->expect, o->expect };
    if (o->expect > 0)
        b.space.nnz =
            (struct ts_space){ o->duplicates == TS_DUPLICATES_SUM ? 1 : o->expect, o->expect };
    if (rc == 0)
        rc = ts_build_read(&b, source, err);
    if (rc < 0)
        /* stop also ends the wait of a program that gives nonzeros before the start */
        source->stop(source->self);
    for (uint32_t m = 0; m < b.order && rc == 0; m++)
        b.dim[m] = o->n_dims > 0 ? o->dim[m] : b.collect.max[m] + 1;
    if (rc == 0 && o->after != NULL)
        rc = ts_build_after_sizes(&b, err);
    if (rc == 0)
        rc = ts_build_finish(&b, start, err);
    return ts_build_fini(&b, rc, err);
}

/* Sets the modes of the new tensor to those of t that `pick` does not leave out, in their order. */
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

/* Opens the tensor as a source. It gets an eighth of the memory, and fewer threads if their buffers
 * do not fit in that. */
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

/* Adds up the nonzeros and counts of all segments. Checks that an index means the same slice in
 * each. *last: the last segment. *has_sums: whether all have checksums. */
static int look_at_segments(const struct ts_segments *s, struct ts_build_carried *sum,
                            uint64_t *nnz, int *has_sums, struct ts_tensor **last,
                            struct ts_err *err)
{
    int rc = 0;
    *has_sums = 1;
    for (uint32_t i = 0; i < s->n && rc == 0; i++) {
        struct ts_tensor_sums sums = { { 0 }, { 0 } };
        struct ts_tensor *t = NULL;
        int found;
        rc = ts_segments_tensor(s, i, &t, err);
        if (rc == 0 && *last != NULL)
            rc = ts_segments_follows(*last, t, err);
        found = rc < 0 ? rc : ts_tensor_sums_read(t, &sums, err);
        if (rc < 0 || found < 0) {
            ts_tensor_close(t);
            return rc < 0 ? rc : found;
        }
        *has_sums &= found;
        *nnz += t->nnz;
        sum->input_nnz += t->header.input_nnz;
        sum->n_duplicates += t->header.n_duplicates;
        sum->n_zeros += t->header.n_zeros;
        ts_cell_sum_join(&sum->records, &sums.records);
        ts_tensor_close(*last);
        *last = t;
    }
    return rc;
}

/* Reads all segments and builds one tensor of them. */
static int build_listed(struct ts_build *b, const struct ts_segments *list, uint64_t nnz,
                        uint64_t start, struct ts_err *err)
{
    struct ts_segments_source_conf conf = { .segments = list,
                                            .nnz = nnz,
                                            .threads = b->memory.threads,
                                            .bytes = b->o->memory / 8,
                                            .tmp = b->tmp,
                                            .stop = b->o->stop };
    struct ts_segments_source *s = NULL;
    int rc = ts_segments_source_new(&conf, &s, err);
    b->beside_bytes = conf.bytes;
    b->space.read = (struct ts_space){ nnz, nnz };
    b->space.nnz = (struct ts_space){ 1, nnz };
    for (uint32_t m = 0; m < b->order; m++)
        b->space.dim[m].high = b->dim[m];
    if (rc == 0) {
        const struct ts_source source = ts_segments_source_as_source(s);
        rc = ts_build_read(b, &source, err);
    }
    ts_segments_source_free(s);
    return rc == 0 ? ts_build_finish(b, start, err) : rc;
}

int ts_build_segments(const struct ts_build_options *o, const struct ts_segments *list,
                      struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const struct ts_pick all = { .side = TS_PICK_ALL };
    struct ts_build_carried carried = { 0 };
    struct ts_tensor *first = NULL, *last = NULL;
    struct ts_build b;
    uint64_t nnz = 0;
    int has_sums = 0;
    int rc = ts_build_init(&b, o, NULL, 0, ret, err);
    if (rc == 0)
        rc = ts_segments_tensor(list, 0, &first, err);
    b.kept_from = first;
    if (rc == 0)
        rc = look_at_segments(list, &carried, &nnz, &has_sums, &last, err);
    if (rc == 0)
        rc = take_modes(&b, last, &all, err);
    b.carried = has_sums ? &carried : NULL;
    if (rc == 0)
        rc = build_listed(&b, list, nnz, start, err);
    ret->base = b.base;
    rc = ts_build_fini(&b, rc, err);
    ts_tensor_close(first);
    ts_tensor_close(last);
    return rc;
}

int ts_build_tensor(const struct ts_build_options *o, const struct ts_tensor *t,
                    const struct ts_pick *pick, struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_tensor_source *s = NULL;
    struct ts_build b;
    int rc = ts_build_init(&b, o, (const char *const[]){ t->path }, 1, ret, err);
    if (rc == 0)
        rc = take_modes(&b, t, pick, err);
    if (rc == 0)
        rc = open_tensor(&b, pick, &s, err);
    if (rc == 0) {
        const struct ts_source source = ts_tensor_source_as_source(s);
        ts_build_space_of_tensor(t, pick, &b.space);
        for (uint32_t m = 0; m < b.order; m++)
            b.space.dim[m].high = b.dim[m];
        rc = ts_build_read(&b, &source, err);
    }
    ts_tensor_source_free(s);
    if (rc == 0)
        rc = ts_build_finish(&b, start, err);
    ret->base = b.base;
    return ts_build_fini(&b, rc, err);
}
