/* build.c - the steps of a build, from its memory to the directory put in place: gather, merge,
 * number, then a sorted copy per mode, the labels and the index. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/stop.h"
#include "format/build_impl.h"
#include "format/build_index.h"
#include "format/label_write.h"
#include "format/level_order.h"
#include "format/mode_writer.h"
#include "format/synth_source.h"
#include "format/tempfile.h"
#include "format/text_source.h"

int ts_build_tell(const struct ts_build *b, const char *what, const char *unit, uint64_t done,
                  uint64_t total, struct ts_err *err)
{
    if (b->o->progress != NULL)
        b->o->progress(b->o->progress_arg, what, unit, done, total);
    return ts_build_check_stop(b, err);
}

static int fail_stopped(const struct ts_build *b, struct ts_err *err)
{
    return ts_fail(err, TS_ESTOP, "%s: stopped; nothing was written", b->o->out);
}

int ts_build_check_stop(const struct ts_build *b, struct ts_err *err)
{
    return ts_stop_asked(b->o->stop) ? fail_stopped(b, err) : 0;
}

/* ------------------------------------------------------------------ memory */

#define SCRATCH_SHARE 8u                     /* of an area */
#define SCRATCH_WORDS (UINT64_C(1) << 20)    /* at least, or the area if that is less */
#define OTHER_BYTES (UINT64_C(64) << 20)     /* tables and code, */
#define THREAD_BYTES (UINT64_C(16) << 20)    /* and what each thread has: at most a quarter in all */
#define OTHER_SHARDS 3u                      /* on their way to the disk: at most an eighth */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Memory is two equal areas, and a smaller one, but for what else a build needs. */
static void choose_area_words(struct ts_build *b)
{
    const struct ts_build_options *o = b->o;
    const uint64_t other = least(OTHER_BYTES + o->threads * THREAD_BYTES, o->memory / 4) +
                           least(OTHER_SHARDS * o->shard_bytes, o->memory / 8);
    const uint64_t words = (o->memory - other) / 8;
    uint64_t area = words / (2 * SCRATCH_SHARE + 1) * SCRATCH_SHARE;
    if (area / SCRATCH_SHARE < SCRATCH_WORDS)
        area = words / 3 > SCRATCH_WORDS ? (words - SCRATCH_WORDS) / 2 : words / 3;
    area = o->area_words > 0 ? o->area_words : area;
    b->area_words = area / 512 * 512;
    b->scratch_words = b->area_words / SCRATCH_SHARE;
    if (b->scratch_words < SCRATCH_WORDS)
        b->scratch_words = least(b->area_words, SCRATCH_WORDS);
}

static int new_areas(struct ts_build *b, struct ts_err *err)
{
    int rc;
    b->area_bytes = (2 * b->area_words + b->scratch_words) * 8;
    rc = ts_bigmem_new(b->area_bytes, "sorting, most of --memory", &b->area_mem, err);
    if (rc < 0)
        return rc;
    b->area[0] = b->area_mem;
    b->area[1] = b->area[0] + b->area_words;
    b->scratch = b->area[1] + b->area_words;
    return 0;
}

/* Threads need some memory each. */
static uint32_t threads_for(const struct ts_build *b, uint64_t bytes_each)
{
    const uint64_t n = b->o->memory / 4 / bytes_each;
    return n < 1 ? 1 : n < b->o->threads ? (uint32_t)n : b->o->threads;
}

/* ------------------------------------------------------------------ the copies */

static int give_to_writer(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    return ts_mode_writer_add(arg, rec, n, err);
}

static int write_mode(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_record_layout *l = &b->spool.layout;
    struct ts_mode_writer_plan plan = {
        .order = b->order,
        .threads = threads_for(b, UINT64_C(2) << 20),
        .shard_bytes = b->o->shard_bytes,
        .memory = b->o->memory / 16,
        .code = b->code,
        .want_norm = m == 0,
    };
    uint32_t width[TS_RECORD_FIELDS];
    uint8_t source[TS_RECORD_FIELDS] = { 0 };
    struct ts_build_spool_sort sort = { .to = &plan.layout, .source = source,
                                        .consume = give_to_writer };
    struct ts_disk_mode *disk = &b->mode[m];
    struct ts_mode_writer *w = NULL;
    struct ts_mode_written written;
    char what[32], *path = ts_build_dir_file(b->dir, "mode%u.shards", m + 1);
    int rc;
    if (path == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out);
    snprintf(what, sizeof what, "packing mode %u", m + 1);
    memcpy(source, disk->level, b->order);
    source[b->order] = (uint8_t)b->order;
    for (uint32_t f = 0; f <= b->order; f++)
        width[f] = l->width[source[f]];
    ts_record_layout_set(&plan.layout, b->order + 1, width);
    plan.path = path;
    rc = ts_mode_writer_new(&plan, &w, err);
    sort.direct_bits = ts_build_key_bits(&plan.layout);
    sort.arg = w;
    sort.what = what;
    if (rc == 0)
        rc = ts_build_spool_sort(b, &sort, err);
    if (rc == 0)
        rc = ts_mode_writer_finish(w, &written, err);
    if (rc == 0) {
        disk->n_shards = written.n_shards;
        disk->shards_bytes = written.file_bytes;
        disk->largest_slice = written.largest_slice;
        b->shard[m] = written.shard;
        b->sum_of_squares += written.sum_of_squares;
        if (written.max_raw_bytes > b->max_raw_bytes)
            b->max_raw_bytes = written.max_raw_bytes;
    }
    ts_mode_writer_free(w);
    free(path);
    return rc;
}

/* The index holds the norm as float64: one beyond that is no tensor that could be opened again, and
 * with one of 0, or of few bits, no fit could be told. */
static int check_norm(const struct ts_build *b, struct ts_err *err)
{
    if (b->merge.nnz > 0 && b->sum_of_squares < DBL_MIN)
        return ts_fail(err, TS_EFORMAT, "%s: nothing was written: the squares of the values (%g to "
                       "%g) add up to less than float64 can hold; scale the values up", b->o->out,
                       b->code->min, b->code->max);
    if (isfinite(b->sum_of_squares))
        return 0;
    return ts_fail(err, TS_EFORMAT, "%s: nothing was written: the squares of the values (%g to %g) add "
                   "up beyond the range of float64; scale the values down", b->o->out, b->code->min,
                   b->code->max);
}

static int write_modes(struct ts_build *b, struct ts_err *err)
{
    double fibres[TS_MAX_ORDER];
    int rc = 0;
    for (uint32_t m = 0; m < b->order; m++)
        fibres[m] = ts_fibres_estimate(&b->merge.fibres[0], m);
    for (uint32_t m = 0; m < b->order; m++)
        ts_level_order(b->order, m, b->merge.nnz, b->n_rows, fibres, b->mode[m].level);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        rc = write_mode(b, m, err);
        if (rc == 0 && m == 0)
            rc = check_norm(b, err);
    }
    return rc;
}

static int write_labels(struct ts_build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        struct ts_disk_mode *disk = &b->mode[m];
        char *path;
        if (b->o->map[m] == NULL)
            continue;
        path = ts_build_dir_file(b->dir, "mode%u.labels", m + 1);
        rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out)
                          : ts_label_write(b->o->map[m], path, m, &disk->n_labels,
                                           &disk->labels_bytes, &disk->labels_hash, err);
        free(path);
    }
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
    if (b->o->duplicates == TS_DUPLICATES_KEEP) { /* kept, not merged */
        h.flags |= h.n_duplicates > 0 ? TS_TENSOR_DUPLICATES : 0;
        h.n_duplicates = 0;
    }
    h.flags |= c->estimated ? TS_TENSOR_VALUE_BITS_ESTIMATED : 0;
    for (uint32_t m = 0; m < b->order; m++) {
        b->mode[m].dim = b->dim[m];
        b->mode[m].n_rows = b->n_rows[m];
    }
    return ts_build_index_write(b->dir, &h, b->mode, c->dict, b->shard, err);
}

/* ------------------------------------------------------------------ the whole */

/* All that was read is in the tensor, or known to be merged or dropped. Anything else is a mistake of
 * ours, but one that no checksum would show to whoever uses the tensor. */
static int check_nothing_lost(const struct ts_build *b, struct ts_err *err)
{
    const uint64_t merged = b->o->duplicates == TS_DUPLICATES_KEEP ? 0 : b->merge.n_duplicates;
    const uint64_t dropped = b->collect.n_zeros + b->merge.n_zeros;
    const uint64_t left = b->merge.nnz;
    int rc = 0;
    if (left + merged + dropped != b->collect.n_read)
        return ts_fail(err, TS_EIO, "%s: internal error, nothing was written: of %" PRIu64
                       " nonzeros read, %" PRIu64 " were merged, %" PRIu64 " were zero and %" PRIu64
                       " are left; please report it", b->o->out, b->collect.n_read, merged, dropped,
                       left);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        uint64_t nnz = 0;
        for (uint64_t s = 0; s < b->mode[m].n_shards; s++)
            nnz += b->shard[m][s].nnz;
        if (nnz != left)
            rc = ts_fail(err, TS_EIO, "%s: internal error, nothing was written: the copy for mode "
                         "%u has %" PRIu64 " nonzeros of %" PRIu64 "; please report it", b->o->out,
                         m + 1, nnz, left);
    }
    return rc;
}

/* Everything after the source ended. */
static int finish(struct ts_build *b, uint64_t start_ns, struct ts_err *err)
{
    struct ts_build_report *r = b->report;
    uint64_t t0 = ts_clock_ns(), t1;
    int rc;
    r->read_ns = t0 - start_ns;
    rc = ts_build_gather_merge(b, err);
    if (rc == 0)
        rc = ts_build_number(b, err);
    t1 = ts_clock_ns();
    r->merge_ns = t1 - t0;
    if (rc == 0)
        rc = write_modes(b, err);
    if (rc == 0)
        rc = check_nothing_lost(b, err);
    if (rc == 0)
        rc = write_labels(b, err);
    if (rc == 0)
        rc = write_index(b, err);
    t0 = ts_clock_ns();
    r->pack_ns = t0 - t1;
    if (rc == 0)
        rc = ts_build_tell(b, "writing", "", 0, 0, err);
    if (rc == 0)
        rc = ts_build_dir_commit(b->dir, err);
    r->sync_ns = ts_clock_ns() - t0;
    r->order = b->order;
    r->nnz = b->merge.nnz;
    r->input_nnz = b->collect.n_read;
    r->n_duplicates = b->merge.n_duplicates;
    r->n_zeros = b->collect.n_zeros + b->merge.n_zeros;
    memcpy(r->dim, b->dim, sizeof r->dim);
    memcpy(r->n_rows, b->n_rows, sizeof r->n_rows);
    return rc;
}

/* A build reads for long before it needs a temporary file: that there can be none is said at once. */
static int check_tmp(const char *dir, struct ts_err *err)
{
    int fd;
    const int rc = ts_tempfile_new(dir, &fd, err);
    if (rc == 0)
        close(fd);
    return rc;
}

static int init(struct ts_build *b, const struct ts_build_options *o,
                struct ts_build_report *report, struct ts_err *err)
{
    const char *slash = strrchr(o->out, '/');
    int rc;
    memset(b, 0, sizeof *b);
    memset(report, 0, sizeof *report);
    b->o = o;
    b->report = report;
    b->spool.fd = -1;
    b->tmp = o->tmp != NULL  ? strdup(o->tmp)
             : slash == NULL ? strdup(".")
                             : strndup(o->out, (size_t)(slash - o->out) + 1);
    choose_area_words(b);
    b->merge_threads = threads_for(b, UINT64_C(8) << 20);
    if (b->tmp == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", o->out);
    rc = o->tmp == NULL ? 0 : check_tmp(b->tmp, err);
    if (rc < 0)
        return rc;
    return ts_build_dir_open(o->out, o->force, &b->dir, err);
}

/* Ends a build that came to rc; a wish to stop gets its sentence here, whoever saw it first. */
static int fini(struct ts_build *b, int rc, struct ts_err *err)
{
    if (rc == TS_ESTOP)
        rc = fail_stopped(b, err);
    ts_collect_fini(&b->collect);
    ts_extsort_free(b->runs);
    ts_merge_fini(&b->merge);
    ts_spool_close(&b->spool);
    for (uint32_t m = 0; m < b->order; m++)
        free(b->shard[m]);
    free(b->code);
    free(b->tmp);
    ts_bigmem_free(b->area_mem, b->area_bytes);
    ts_build_dir_close(b->dir);
    return rc;
}

static void text_position(const void *source, uint64_t *done, uint64_t *total)
{
    ts_text_source_progress(source, done, total);
}

static int read_text(struct ts_build *b, struct ts_text_source *s, uint32_t threads,
                     struct ts_err *err)
{
    int rc = new_areas(b, err);
    if (rc == 0)
        rc = ts_collect_init(&b->collect, b->order, 8 * b->o->value_bytes, b->area[0],
                             b->area_words, threads, err);
    if (rc == 0)
        rc = ts_text_source_start(s, &b->collect, err);
    if (rc == 0)
        rc = ts_build_gather(b, text_position, s, "bytes", err);
    ts_text_source_stop(s);
    if (rc == 0)
        rc = ts_text_source_check(s, b->collect.n_read, err);
    return rc;
}

int ts_build_text(const struct ts_build_options *o, const char *const paths[], uint32_t n_paths,
                  struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_text_source *s = NULL;
    struct ts_text_plan plan = { .paths = paths, .n_paths = n_paths, .base = o->base,
                                 .value_bytes = o->value_bytes, .n_dims = o->n_dims };
    struct ts_build b;
    int rc = init(&b, o, ret, err);
    memcpy(plan.dim, o->dim, sizeof plan.dim);
    plan.threads = threads_for(&b, UINT64_C(1) << 20);
    plan.piece_bytes = (size_t)512 << 10;
    /* what a piece holds must fit an area, and all threads' pieces a share of the memory */
    while ((plan.piece_bytes > 64 << 10 && plan.piece_bytes * 16 * plan.threads > o->memory) ||
           plan.piece_bytes / 2 > b.area_words)
        plan.piece_bytes /= 2;
    if (rc == 0)
        rc = ts_text_source_open(&plan, &s, err);
    if (rc == 0) {
        b.order = ts_text_source_rules(s)->order;
        if (b.order < o->min_order)
            rc = ts_fail(err, TS_EARG, "--map names mode %u, but %s has %u modes", o->min_order,
                         paths[0], b.order);
    }
    if (rc == 0)
        rc = read_text(&b, s, plan.threads, err);
    for (uint32_t m = 0; m < b.order && rc == 0; m++) {
        const struct ts_tns_rules *r = ts_text_source_rules(s);
        b.dim[m] = r->fixed ? r->dim[m] : b.collect.max[m] + 1;
    }
    ts_text_source_close(s);
    if (rc == 0)
        rc = finish(&b, start, err);
    return fini(&b, rc, err);
}

static void synth_position(const void *source, uint64_t *done, uint64_t *total)
{
    ts_synth_source_progress(source, done, total);
}

int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_synth_source *s = NULL;
    struct ts_build b;
    uint32_t threads;
    int rc = init(&b, o, ret, err);
    b.order = synth->order;
    threads = threads_for(&b, UINT64_C(1) << 20);
    if (rc == 0)
        rc = new_areas(&b, err);
    if (rc == 0)
        rc = ts_collect_init(&b.collect, b.order, 8 * o->value_bytes, b.area[0], b.area_words,
                             threads, err);
    if (rc == 0)
        rc = ts_synth_source_new(synth, threads, o->memory / 16, &s, err);
    if (rc == 0)
        rc = ts_synth_source_start(s, &b.collect, err);
    if (rc == 0)
        rc = ts_build_gather(&b, synth_position, s, "nonzeros", err);
    ts_synth_source_free(s);
    if (rc == 0 && b.collect.n_read != synth->nnz)
        rc = ts_fail(err, TS_EIO, "%s: internal error, nothing was written: %" PRIu64 " nonzeros of "
                     "%" PRIu64 " were drawn; please report it", o->out, b.collect.n_read,
                     synth->nnz);
    memcpy(b.dim, synth->dim, sizeof b.dim);
    if (rc == 0)
        rc = finish(&b, start, err);
    return fini(&b, rc, err);
}
