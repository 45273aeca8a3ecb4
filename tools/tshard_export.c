/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard export: a tensor as text again.
 *
 * A batch of shards, one per thread, is read and checked; then its partitions are made into text by
 * all threads and written in order. Memory: a shard and a partition's text per thread, and the list
 * of used slices of modes that have empty ones.
 */
#include "base/stop.h"
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/threads.h"
#include "format/shard.h"
#include "format/tensor.h"
#include "tools/export_sink.h"
#include "tools/tool.h"
#include "tools/tshard.h"

enum { FORMAT_TNS, FORMAT_SPTENSOR };
enum { BASE_OF_TENSOR, BASE_0, BASE_1 };

struct export_args {
    const char *output;
    uint32_t mode, threads;
    int format, base, force, quiet;
};

#define AT(field) offsetof(struct export_args, field)
static const struct ts_opt export_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(output), NULL, "FILE",
      "write to FILE instead of standard output, compressed when it ends in .gz; it appears when it "
      "is complete and on disk" },
    { "force", 0, TS_OPT_FLAG, AT(force), NULL, NULL, "replace an existing FILE" },
    { "mode", 'm', TS_OPT_U32, AT(mode), "1", "K", "read the copy sorted for mode K" },
    { "format", 'f', TS_OPT_CHOICE, AT(format), "tns", "tns|sptensor",
      "tns has nonzeros only; sptensor (Tensor Toolbox) starts with shape and count" },
    { "base", 0, TS_OPT_CHOICE, AT(base), "input", "input|0|1",
      "the first index: input is that of the text that the tensor was built from" },
    { "threads", 't', TS_OPT_U32, AT(threads), "0", "N", "threads to use, 0 for all" },
    TOOL_QUIET_OPT(AT(quiet)),
    { 0 },
};

/* Text of a value that is one of few. */
struct short_text {
    char text[TS_DECIMAL_CHARS];
    uint32_t n;
};

struct export
{
    const struct ts_cmd *cmd;
    const struct ts_tensor *t;
    uint32_t mode, n_threads, base; /* base: the first index that is written */
    uint64_t *rows[TS_MAX_ORDER];   /* NULL: row i is index i */
    struct short_text *dict;        /* CONST: one, DICT: n_dict */
    struct export_sink sink;
    struct tool_progress progress;
    uint64_t done; /* nonzeros */
    int rc;        /* of the first failure */
    struct ts_err err;
};

/* The buffers of one thread. */
struct scratch {
    void *raw; /* a shard */
    char *text, *packed;
    size_t packed_room;
};

/* A value as text. A float32 tensor's values are float32 numbers, whatever their kind. */
static char *put_number(char *at, const struct ts_tensor *t, double value)
{
    return t->header.value_bytes == 4 ? ts_decimal_f32(at, (float)value)
                                      : ts_decimal_f64(at, value);
}

static char *put_value(char *at, const struct export *e, const struct ts_block *b, uint32_t p)
{
    const uint32_t kind = e->t->header.value_kind;
    if (kind == TS_VALUE_CONST || kind == TS_VALUE_DICT) {
        const struct short_text *s = &e->dict[kind == TS_VALUE_CONST ? 0 : b->code[0][p]];
        memcpy(at, s->text, sizeof s->text); /* the buffer has the room */
        return at + s->n;
    }
    return put_number(
        at, e->t, ts_tensor_value(e->t, b->code[0][p], kind == TS_VALUE_F64 ? b->code[1][p] : 0));
}

static char *put_block(char *at, const struct export *e, const struct ts_block *b)
{
    const uint8_t *level = e->t->mode[e->mode].disk.level;
    const uint32_t *column[TS_MAX_ORDER];
    for (uint32_t l = 0; l < e->t->order; l++)
        column[level[l]] = b->level[l];
    for (uint32_t p = 0; p < b->n; p++) {
        for (uint32_t m = 0; m < e->t->order; m++) {
            const uint32_t row = column[m][p];
            at = ts_decimal_u64(at, (e->rows[m] == NULL ? row : e->rows[m][row]) + e->base);
            *at++ = ' ';
        }
        at = put_value(at, e, b, p);
        *at++ = '\n';
    }
    return at;
}

/* Most bytes of text that a partition makes. */
static size_t text_room(const struct ts_tensor *t)
{
    return TS_PARTITION_NNZ * (size_t)(t->order * 14 + TS_DECIMAL_CHARS + 1) + TS_DECIMAL_CHARS;
}

/* Text of one partition of a checked shard; its end, or NULL with a sentence. */
static char *put_partition(char *at, const struct export *e, const struct ts_disk_shard *entry,
                           const void *raw, uint32_t partition, struct ts_err *err)
{
    const uint32_t n_codes = ts_value_codes(e->t->header.value_kind);
    const uint32_t first = partition * TS_PARTITION_BLOCKS;
    const uint32_t end = entry->n_blocks - first < TS_PARTITION_BLOCKS
                             ? entry->n_blocks
                             : first + TS_PARTITION_BLOCKS;
    struct ts_block_parts parts;
    struct ts_block block;
    for (uint32_t b = first; b < end; b++) {
        const struct ts_block_at where = ts_shard_block(entry, raw, b);
        /* the shard was checked: this cannot fail */
        if (ts_block_parse(where.word, where.n_words, e->t->order, where.nnz, n_codes, &parts,
                           NULL) < 0)
            break;
        ts_block_decode(&parts, where.row, &block);
        if (!ts_block_finite(&block, e->t->header.value_kind)) {
            const struct ts_mode *m = &e->t->mode[e->mode];
            ts_fail(err, TS_EFORMAT, "%s: shard %td, block %" PRIu32 ": a value is not finite",
                    m->shards_path, entry - m->shard, b);
            return NULL;
        }
        at = put_block(at, e, &block);
    }
    return at;
}

static void note_failure(struct export *e, int rc, const struct ts_err *err)
{
#pragma omp critical(export_failure)
    if (e->rc == 0) {
        e->err = *err;
        e->rc = rc;
    }
}

static int failed(const struct export *e)
{
    int rc;
#pragma omp atomic read
    rc = e->rc;
    return rc != 0;
}

/* Writes what one partition became; called in order. */
static void write_piece(struct export *e, const char *bytes, size_t n, uint64_t nnz)
{
    struct ts_err err;
    int rc = 0;
    if (failed(e))
        return;
    if (ts_stop_asked(&tool_stop))
        rc = ts_fail(&err, TS_ESTOP, "stopped by a signal, nothing is left behind");
    else
        rc = export_sink_write(&e->sink, bytes, n, &err);
    if (rc < 0)
        note_failure(e, rc, &err);
    e->done += nnz;
    tool_progress_update(&e->progress, e->done);
}

/* Makes and writes all partitions of `n` shards from `first` on; shard first + i is in s[i].raw. */
static void write_batch(struct export *e, struct scratch *s, uint64_t first, uint32_t n)
{
    const struct ts_disk_shard *entry = e->t->mode[e->mode].shard + first;
    uint32_t n_pieces = 0;
    for (uint32_t i = 0; i < n; i++)
        n_pieces += ts_shard_partitions(&entry[i]);
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(e->n_threads)
    for (uint32_t piece = 0; piece < n_pieces; piece++) {
        struct scratch *mine = &s[omp_get_thread_num()];
        const char *bytes = mine->text;
        uint32_t i = 0, partition = piece;
        size_t n_bytes = 0;
        uint64_t nnz, left;
        struct ts_err err;
        while (partition >= ts_shard_partitions(&entry[i]))
            partition -= ts_shard_partitions(&entry[i++]);
        left = entry[i].nnz - (uint64_t)partition * TS_PARTITION_NNZ;
        nnz = left < TS_PARTITION_NNZ ? left : TS_PARTITION_NNZ;
        if (!failed(e)) {
            const char *end = put_partition(mine->text, e, &entry[i], s[i].raw, partition, &err);
            n_bytes = end == NULL ? 0 : (size_t)(end - bytes);
            if (end == NULL)
                note_failure(e, TS_EFORMAT, &err);
            else if (e->sink.gzip) {
                const int rc = export_sink_pack(mine->text, n_bytes, &mine->packed,
                                                &mine->packed_room, &n_bytes, &err);
                bytes = mine->packed;
                if (rc < 0)
                    note_failure(e, rc, &err);
            }
        }
#pragma omp ordered
        write_piece(e, bytes, n_bytes, nnz);
    }
}

static void read_batch(struct export *e, struct scratch *s, uint64_t first, uint32_t n)
{
#pragma omp parallel for schedule(static, 1) num_threads(e->n_threads)
    for (uint32_t i = 0; i < n; i++) {
        struct ts_err err;
        const int rc = ts_tensor_read_shard(e->t, e->mode, first + i, s[i].raw, &err);
        if (rc < 0)
            note_failure(e, rc, &err);
    }
}

static int write_header(struct export *e, struct ts_err *err)
{
    char text[64 + 24 * (TS_MAX_ORDER + 2)], *at = text, *packed = NULL;
    size_t n, room = 0;
    int rc;
    at += sprintf(at, "sptensor\n%" PRIu32 "\n", e->t->order);
    for (uint32_t m = 0; m < e->t->order; m++)
        at +=
            sprintf(at, "%" PRIu64 "%s", e->t->mode[m].disk.dim, m + 1 < e->t->order ? " " : "\n");
    at += sprintf(at, "%" PRIu64 "\n", e->t->nnz);
    n = (size_t)(at - text);
    if (!e->sink.gzip)
        return export_sink_write(&e->sink, text, n, err);
    rc = export_sink_pack(text, n, &packed, &room, &n, err);
    if (rc == 0)
        rc = export_sink_write(&e->sink, packed, n, err);
    free(packed);
    return rc;
}

static int prepare(struct export *e, struct ts_err *err)
{
    const struct ts_disk_header *h = &e->t->header;
    const uint32_t n_texts = h->value_kind == TS_VALUE_CONST ? 1 : h->n_dict;
    for (uint32_t m = 0; m < e->t->order; m++) {
        const int rc = ts_tensor_rows(e->t, m, &e->rows[m], err);
        if (rc < 0)
            return rc;
    }
    e->dict = calloc(n_texts + 1, sizeof *e->dict);
    if (e->dict == NULL)
        return ts_fail(err, TS_ENOMEM, "no memory for %" PRIu32 " values", n_texts);
    for (uint32_t i = 0; i < n_texts; i++)
        e->dict[i].n = (uint32_t)(put_number(e->dict[i].text, e->t, ts_tensor_value(e->t, i, 0)) -
                                  e->dict[i].text);
    return 0;
}

static struct scratch *scratch_new(const struct export *e)
{
    struct scratch *s = calloc(e->n_threads, sizeof *s);
    for (uint32_t i = 0; s != NULL && i < e->n_threads; i++) {
        s[i].raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(e->t));
        s[i].text = malloc(text_room(e->t));
    }
    return s;
}

static void scratch_free(struct scratch *s, uint32_t n)
{
    for (uint32_t i = 0; s != NULL && i < n; i++) {
        free(s[i].raw);
        free(s[i].text);
        free(s[i].packed);
    }
    free(s);
}

static int export_all(struct export *e, const struct export_args *args, struct ts_err *err)
{
    const uint64_t n_shards = e->t->mode[e->mode].disk.n_shards;
    struct scratch *s = scratch_new(e);
    struct ts_err warn = { 0 };
    int rc = prepare(e, err);
    for (uint32_t i = 0; rc == 0 && i < e->n_threads; i++)
        if (s == NULL || s[i].raw == NULL || s[i].text == NULL)
            rc = ts_fail(err, TS_ENOMEM, "no memory for a shard of %" PRIu32 " bytes and its text",
                         e->t->header.max_shard_bytes);
    if (rc == 0)
        rc = export_sink_open(args->output, args->force, &e->sink, err);
    if (rc == 0 && args->format == FORMAT_SPTENSOR)
        rc = write_header(e, err);
    if (rc == 0) {
        tool_progress_start(&e->progress, "exporting", "nonzeros", e->t->nnz);
        for (uint64_t i = 0; i < n_shards && !failed(e); i += e->n_threads) {
            const uint64_t left = n_shards - i;
            const uint32_t n = left < e->n_threads ? (uint32_t)left : e->n_threads;
            read_batch(e, s, i, n);
            if (!failed(e))
                write_batch(e, s, i, n);
        }
        tool_progress_end(&e->progress);
        rc = e->rc;
        if (rc < 0 && err != NULL)
            *err = e->err;
    }
    if (rc == 0)
        rc = export_sink_commit(&e->sink, &warn, err);
    export_sink_close(&e->sink);
    tool_warn(e->cmd, &warn);
    scratch_free(s, e->n_threads);
    for (uint32_t m = 0; m < e->t->order; m++)
        free(e->rows[m]);
    free(e->dict);
    return rc;
}

static int run(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct export e = { .cmd = cmd, .sink = { .fd = -1 } };
    struct export_args args;
    struct ts_tensor *t;
    struct ts_err err;
    char *operand[argc];
    uint32_t n_operands;
    int rc, status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status >= 0)
        return status;
    if (tool_threads_check(args.threads, &err) < 0)
        return tool_usage(cmd, "%s", err.text);
    if (tshard_open(operand[0], &t, &err) < 0)
        return tool_fail(cmd, &err);
    if (args.mode < 1 || args.mode > t->order) {
        status = tool_usage(cmd, "--mode %" PRIu32 ": %s has modes 1 to %" PRIu32, args.mode,
                            operand[0], t->order);
        ts_tensor_close(t);
        return status;
    }
    if (args.output != NULL && tool_outside(args.output, t->path, &err) < 0) {
        ts_tensor_close(t);
        return tool_fail(cmd, &err);
    }
    e.t = t;
    e.mode = args.mode - 1;
    e.base = args.base == BASE_OF_TENSOR ? ts_tensor_base(t) : (uint32_t)args.base - 1;
    tool_catch_signals();
    rc = ts_threads_get(args.threads, 0, &e.n_threads, &err);
    if (rc == 0)
        rc = export_all(&e, &args, &err);
    ts_tensor_close(t);
    if (rc == TS_EIO && err.sys == EPIPE)
        return 1; /* whoever reads has seen enough: `tshard export x.tsh | head` */
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_export_cmd = {
    .program = "tshard",
    .name = "export",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "print the nonzeros of a tensor as text",
    .text =
        "Writes a nonzero a line: its indices, from 1 (from 0 where the input's did), and its value. A value of a float32 "
        "tensor is the shortest decimal that reads back as the same float32, of a float64 tensor "
        "the same for float64; whole numbers have no point.\n\n"
        "Nonzeros come in the order of the copy that is read: by the index of mode K first.",
    .examples = "tshard export amazon.tsh | head\n  the first nonzeros\n"
                "tshard export amazon.tsh -o amazon.tns.gz\n  a compressed text file\n",
    .opts = export_opts,
    .run = run,
};
