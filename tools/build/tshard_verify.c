/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard verify: reads all files of a tensor directory, and checks each against its checksums and
 * the other files. Memory: a shard for each thread, 256 bytes for each shard, and 8 bytes for each
 * row of modes with empty slices. */
#include "api/tools.h"
#include "config.h"

#include <inttypes.h>
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/common_opts.h"
#include "tools/common/tool.h"
#include "tools/tshard.h"
#include "tools/tstream_operand.h"
#include "tools/build/verify_sum.h"

struct verify_args {
    uint32_t threads;
    int json, quiet;
};

#define AT(field) offsetof(struct verify_args, field)
static const struct ts_opt verify_opts[] = {
    TOOL_THREADS_OPT(AT(threads)),
    { "quiet", 'q', TS_OPT_FLAG, AT(quiet), NULL, NULL, "print nothing if the tensor is intact" },
    TOOL_JSON_OPT(AT(json)),
    { 0 },
};

struct verify {
    const struct ts_tensor *t;
    uint32_t n_threads;
    /* number of shards of all modes; n_here: number of those in this directory, which may be a
     * part */
    uint64_t n_shards, n_here;
    uint64_t first_shard[TS_MAX_ORDER + 1]; /* first shard of each mode, counted over all modes */
    struct verify_sum *sum;                 /* sums of the nonzeros of each shard */
    uint64_t *rows[TS_MAX_ORDER]; /* index of each row of each mode; NULL: row i is index i */
    struct ts_tensor_sums told;   /* contents of the file `sums`, if has_sums */
    int has_sums, has_options;
    /* sum of the cells of each mode's copy; in a part (tshard part), of the shards that it has */
    struct ts_cell_sum cells[TS_MAX_ORDER];
    struct tool_progress progress;
    uint64_t done, total;      /* bytes of shards that are checked, and of all */
    uint64_t n_bad, bad_shard; /* number of failed shards, and the first of them */
    struct ts_err err;         /* failure of shard bad_shard */
};

/* Keeps the failure of the first bad shard in the order of the tensor, whichever thread found one
 * first. */
static void note_failure(struct verify *v, uint64_t shard, const struct ts_err *err)
{
#pragma omp critical(verify_failure)
    {
        if (v->n_bad == 0 || shard < v->bad_shard) {
            v->err = *err;
            v->bad_shard = shard;
        }
        v->n_bad++;
    }
}

static uint32_t mode_of(const struct verify *v, uint64_t shard)
{
    uint32_t mode = 0;
    while (shard >= v->first_shard[mode + 1])
        mode++;
    return mode;
}

/* Whether the directory has the shard: one that tshard part made lacks some shards. */
static int is_here(const struct verify *v, uint64_t shard)
{
    const uint32_t mode = mode_of(v, shard);
    return ts_part_has(v->t, mode, shard - v->first_shard[mode]);
}

static void verify_shard(struct verify *v, uint64_t shard, void *raw)
{
    struct ts_err err;
    const struct ts_disk_shard *entry;
    const uint32_t mode = mode_of(v, shard);
    int rc;
    entry = &v->t->mode[mode].shard[shard - v->first_shard[mode]];
    rc = ts_tensor_read_shard(v->t, mode, shard - v->first_shard[mode], raw, &err);
    if (rc == 0)
        rc = verify_sum_shard(v->t, mode, shard - v->first_shard[mode], raw, v->rows,
                              &v->sum[shard], &err);
    if (rc < 0)
        note_failure(v, shard, &err);
#pragma omp critical(verify_progress)
    {
        v->done += entry->stored_bytes;
        tool_progress_update(&v->progress, v->done);
    }
}

static int verify_shards(struct verify *v, struct ts_err *err)
{
    const size_t bytes = ts_tensor_raw_bytes(v->t);
    int out_of_memory = 0;
    tool_progress_start(&v->progress, "verifying", "bytes", v->total);
#pragma omp parallel num_threads(v->n_threads) reduction(| : out_of_memory)
    {
        void *raw = aligned_alloc(TS_PAGE, bytes);
        out_of_memory = raw == NULL;
#pragma omp for schedule(dynamic, 1)
        for (uint64_t shard = 0; shard < v->n_shards; shard++)
            if (raw != NULL && !ts_stop_asked(&tool_stop) && is_here(v, shard))
                verify_shard(v, shard, raw);
        free(raw);
    }
    tool_progress_end(&v->progress);
    if (out_of_memory)
        return ts_fail(err, TS_ENOMEM, "%s: no memory for a shard of %zu bytes", v->t->path, bytes);
    if (ts_stop_asked(&tool_stop))
        return ts_fail(err, TS_ESTOP, "stopped by a signal");
    if (v->n_bad > 1)
        return ts_fail(err, v->err.code, "%s (the first of %" PRIu64 " bad shards, of %" PRIu64 ")",
                       v->err.text, v->n_bad, v->n_shards);
    if (v->n_bad > 0) {
        *err = v->err;
        return err->code;
    }
    return 0;
}

/* Checks that the copies of all modes have the same sum of cells, and that it is the one in the
 * file `sums`. */
static int compare_sums(const struct verify *v, struct ts_err *err)
{
    char is[TS_CELL_SUM_CHARS], want[TS_CELL_SUM_CHARS];
    for (uint32_t m = 1; m < v->t->order; m++)
        if (!ts_cell_sum_same(&v->cells[m], &v->cells[0]))
            return ts_fail(err, TS_EFORMAT, "%s: its nonzeros are not those of mode 1",
                           v->t->mode[m].shards_path);
    if (v->has_sums && !ts_cell_sum_same(&v->cells[0], &v->told.cells))
        return ts_fail(err, TS_EFORMAT,
                       "%s/" TS_SUMS_NAME ": the sum of the cells is %s, and that of the copies %s",
                       v->t->path, ts_cell_sum_text(&v->told.cells, want),
                       ts_cell_sum_text(&v->cells[0], is));
    return 0;
}

/* Adds up the sums of the shards of each mode's copy, checks them, and compares the copies. */
static int compare_copies(struct verify *v, struct ts_err *err)
{
    for (uint32_t m = 0; m < v->t->order; m++) {
        const uint64_t from = v->first_shard[m], end = v->first_shard[m + 1];
        struct verify_sum sum = v->sum[from];
        int rc = 0;
        for (uint64_t s = from + 1; rc == 0 && s < end; s++)
            rc = verify_sum_append(v->t, m, s - from, &sum, &v->sum[s], err);
        if (rc == 0)
            rc = verify_sum_check(v->t, m, &sum, err);
        if (rc < 0)
            return rc;
    }
    return compare_sums(v, err);
}

/* Reads and checks the files `sums` and `options`, and the row and label files of each mode. */
static int verify_side_files(struct verify *v, struct ts_err *err)
{
    const struct ts_tensor *t = v->t;
    const int found = ts_tensor_sums_read(t, &v->told, err);
    struct ts_kept kept;
    v->has_sums = found > 0;
    if (found < 0)
        return found;
    v->has_options = ts_kept_read(t, &kept, err);
    if (v->has_options < 0)
        return v->has_options;
    ts_kept_free(&kept);
    for (uint32_t m = 0; m < t->order; m++) {
        int rc = ts_tensor_rows(t, m, &v->rows[m], err);
        if (rc == 0 && t->mode[m].disk.labels_bytes > 0)
            rc = ts_tensor_labels_lines(t, m, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int verify_all(struct verify *v, struct ts_err *err)
{
    int rc = verify_sum_header(v->t, err);
    if (rc == 0)
        rc = verify_side_files(v, err);
    for (uint32_t m = 0; m < v->t->order; m++) {
        v->first_shard[m + 1] = v->first_shard[m] + v->t->mode[m].disk.n_shards;
        for (uint64_t s = 0; s < v->t->mode[m].disk.n_shards; s++)
            if (ts_part_has(v->t, m, s)) {
                v->total += v->t->mode[m].shard[s].stored_bytes;
                v->n_here++;
            }
    }
    v->n_shards = v->first_shard[v->t->order];
    v->sum = calloc(v->n_shards, sizeof *v->sum);
    if (rc == 0 && v->sum == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: no memory for %" PRIu64 " shards", v->t->path,
                     v->n_shards);
    if (rc == 0)
        rc = verify_shards(v, err);
    for (uint32_t m = 0; m < v->t->order && rc == 0; m++)
        for (uint64_t s = v->first_shard[m]; s < v->first_shard[m + 1]; s++)
            ts_cell_sum_join(&v->cells[m], &v->sum[s].cells);
    if (rc == 0 && v->t->part.n == 0)
        rc = compare_copies(v, err);
    free(v->sum);
    for (uint32_t m = 0; m < v->t->order; m++)
        free(v->rows[m]);
    return rc;
}

static void put_json(struct tool_json *j, const struct verify *v, uint64_t ns)
{
    char text[TS_CELL_SUM_CHARS];
    tool_json_str(j, "tensor", v->t->path);
    tool_json_bool(j, "sound", 1);
    tool_json_u64(j, "nnz", v->t->nnz);
    tool_json_u64(j, "shards", v->n_here);
    tool_json_u64(j, "part", v->t->part.n > 0 ? v->t->part.part : 1);
    tool_json_u64(j, "parts", v->t->part.n > 0 ? v->t->part.n : 1);
    tool_json_u64(j, "bytes", v->total);
    tool_json_f64(j, "seconds", (double)ns * 1e-9);
    tool_json_bool(j, "has_sums", v->has_sums);
    tool_json_array(j, "cell_sums");
    for (uint32_t m = 0; m < v->t->order; m++)
        tool_json_str(j, NULL, ts_cell_sum_text(&v->cells[m], text));
    tool_json_close(j);
    tool_json_bool(j, "has_options", v->has_options);
}

static void report(const struct verify *v, const struct verify_args *args, uint64_t ns)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS], d[TS_NUM_CHARS], path[4096];
    if (args->json) {
        struct tool_json j;
        tool_json_open(&j, stdout);
        put_json(&j, v, ns);
        tool_json_close(&j);
    } else if (!args->quiet && v->t->part.n > 0) {
        printf("%s: sound: part %u of %u, %s of %s shard%s, %s in %s\n",
               tool_plain(v->t->path, path, sizeof path), v->t->part.part, v->t->part.n,
               ts_num_count(a, v->n_here), ts_num_count(b, v->n_shards), tool_plural(v->n_shards),
               ts_num_bytes(c, v->total), ts_num_duration(d, ns));
    } else if (!args->quiet) {
        printf("%s: sound: %" PRIu32 " copies of %s nonzero%s in %s shards, %s in %s\n",
               tool_plain(v->t->path, path, sizeof path), v->t->order, ts_num_count(a, v->t->nnz),
               tool_plural(v->t->nnz), ts_num_count(b, v->n_shards), ts_num_bytes(c, v->total),
               ts_num_duration(d, ns));
    }
    if (!args->json && !args->quiet && !v->has_sums)
        printf("  the file sums is missing: tensors that version 0.2.0 or older built have none\n");
    if (!args->json && !args->quiet && !v->has_options)
        printf("  the file options is missing: the tensor does not say how it was built\n");
}

/* Checks a tensor of one segment. shown: 1 if the report is to be printed. */
static int verify_tensor(const struct ts_tensor *t, const struct verify_args *args, int shown,
                         struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct verify v = { .t = t };
    int rc = ts_threads_get(args->threads, 0, &v.n_threads, err);
    if (rc == 0)
        rc = verify_all(&v, err);
    if (rc == 0 && shown)
        report(&v, args, ts_clock_ns() - start);
    return rc;
}

/* Checks that the sums of nonzeros which the list of segments has for segment i are those in the
 * segment's own file `sums`. */
static int check_entry(const struct ts_segments *s, uint32_t i, const struct ts_tensor *t,
                       struct ts_err *err)
{
    const struct ts_disk_segment *e = &s->entry[i];
    struct ts_tensor_sums sums;
    const int rc = ts_tensor_sums_read(t, &sums, err);
    if (rc < 0)
        return rc;
    if (e->n_records == sums.records.n && e->record[0] == sums.records.word[0] &&
        e->record[1] == sums.records.word[1] && e->cell[0] == sums.cells.word[0] &&
        e->cell[1] == sums.cells.word[1])
        return 0;
    return ts_fail(err, TS_EFORMAT, "%s/index: the sums of segment %" PRIu32 " are not those of %s",
                   s->path, i + 1, t->path);
}

/* Checks the tensor merged from all segments. If told is 1, each segment has a sum of its input
 * records, and `records` is their total: the merged tensor must have the same sum. */
static int verify_merged(const struct ts_segments *s, const struct ts_cell_sum *records, int told,
                         const struct verify_args *args, struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    struct ts_tensor_sums sums;
    struct ts_err why;
    int rc = ts_segments_merged(s, &t, &why);
    if (rc == 0)
        rc = verify_tensor(t, args, !args->json, &why);
    if (rc == 0 && told && ts_tensor_sums_read(t, &sums, NULL) == 1 &&
        !ts_cell_sum_same(&sums.records, records))
        rc = ts_fail(&why, TS_EFORMAT,
                     "%s/" TS_MERGED_NAME ": was not made of the segments beside it", s->path);
    if (rc == TS_EFORMAT || rc == TS_EIO)
        ts_fail(err, rc, "%s (the segments are sound: tshard compact %s merges them again)",
                why.text, s->path);
    else if (rc < 0)
        *err = why;
    ts_tensor_close(t);
    return rc;
}

/* Checks each segment of a tensor, that it can follow the segment before it, and that it agrees
 * with its entry in the list of segments. */
static int verify_segments(const char *path, const struct verify_args *args, struct ts_err *err)
{
    struct ts_segments *s = NULL;
    struct ts_tensor *before = NULL, *t = NULL;
    struct ts_cell_sum records = { 0 };
    uint64_t nnz = 0;
    int told = 1, rc = ts_segments_open(path, &s, err);
    for (uint32_t i = 0; rc == 0 && i < s->n; i++) {
        rc = ts_segments_tensor(s, i, &t, err);
        if (rc == 0 && before != NULL)
            rc = ts_segments_follows(before, t, err);
        if (rc == 0 && s->listed)
            rc = check_entry(s, i, t, err);
        if (rc == 0)
            rc = verify_tensor(t, args, !args->json, err);
        if (rc == 0 && s->listed) {
            const struct ts_disk_segment *e = &s->entry[i];
            const struct ts_cell_sum sum = { e->n_records, { e->record[0], e->record[1] } };
            ts_cell_sum_join(&records, &sum);
            told &= e->n_records > 0;
        }
        nnz += rc == 0 ? t->nnz : 0;
        ts_tensor_close(before);
        before = t;
        t = NULL;
    }
    if (rc == 0 && s->listed && s->merged)
        rc = verify_merged(s, &records, told, args, err);
    if (rc == 0 && args->json) {
        struct tool_json j;
        tool_json_open(&j, stdout);
        tool_json_str(&j, "tensor", path);
        tool_json_bool(&j, "sound", 1);
        tool_json_u64(&j, "segments", s->n);
        tool_json_u64(&j, "stored_nnz", nnz);
        tool_json_bool(&j, "merged", s->merged);
        tool_json_close(&j);
    }
    ts_tensor_close(before);
    ts_segments_close(s);
    return rc;
}

static int run_verify(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct verify_args args;
    struct ts_tensor *t = NULL;
    struct ts_err err;
    char *operand[argc + 1], *path, *segmented = NULL;
    uint32_t n_operands;
    int rc;
    const int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status >= 0)
        return status;
    if (tool_threads_check(args.threads, &err) < 0)
        return tool_usage(cmd, "%s", err.text);
    tool_catch_signals();
    if (tstream_operand(n_operands > 0 ? operand[0] : NULL, ".tsh", "tensor", &path, &err) < 0)
        return tool_fail(cmd, &err);
    if (ts_tensor_is_array(path))
        rc = ts_fail(&err, TS_EARG,
                     "%s: a dense array has checksums where tshard index has made them, and tshard "
                     "index --check compares these",
                     path);
    else if ((segmented = tshard_segmented(path)) != NULL)
        rc = verify_segments(segmented, &args, &err);
    else
        rc = tshard_open(path, &t, &err);
    free(segmented);
    free(path);
    if (rc == 0 && t == NULL)
        return 0;
    if (rc < 0)
        return tool_fail(cmd, &err);
    rc = verify_tensor(t, &args, 1, &err);
    ts_tensor_close(t);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_verify_cmd = {
    .program = "tshard",
    .name = "verify",
    .operands = "[TENSOR.tsh]",
    .max_operands = 1,
    .summary = "check every byte of a tensor",
    .text =
        "Reads every file of a tensor directory. It compares checksums, decodes all blocks, and "
        "checks that nonzeros are sorted and indices are in range. It counts the nonzeros and "
        "the largest slices, and computes the norm (to a relative 1e-10). It checks that the "
        "copies of all modes hold the same nonzeros, and compares them with the sum that the "
        "build wrote. A note says if the tensor is older and has no such sum, or does not say how it "
        "was built. The first error "
        "ends the check with a message and exit status 1. In a part (tshard part) it checks the "
        "shards of the part and does not compare copies. Without TENSOR.tsh it checks the only "
        ".tsh in the current directory.",
    .examples =
        "tshard verify amazon.tsh\n  report that the tensor is intact, or what is damaged\n",
    .opts = verify_opts,
    .run = run_verify,
};
