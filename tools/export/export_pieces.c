/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports nonzeros in pieces: all threads make text of them, which is written in order. */
#include "tools/export/export_pieces.h"

#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/tool.h"

#define LINE_GUESS 64u /* assumed bytes of a line: a piece has as many lines as fill a buffer */
#define PACK_BYTES (UINT64_C(300) << 10) /* memory that zlib takes for each thread */

/* The buffers of one thread. */
struct scratch {
    void *raw; /* memory for a shard; NULL for sorted nonzeros */
    char *text, *packed;
    size_t packed_room;
    struct ts_block block;
    const char *bytes; /* bytes to be written: text, or packed */
    size_t n_bytes;
};

/* A piece (some of the nonzeros), and the position up to which it was converted to text. */
struct piece {
    /* The nonzeros are blocks of a shard (these members), or sorted records (those below). */
    uint64_t shard;
    const void *raw;
    uint32_t b, end_b; /* the blocks b .. end_b - 1 are not converted yet */

    const struct ts_record_layout *layout;
    const uint64_t *rec;
    uint64_t n_rec;

    uint64_t nnz;
    /* p: position in the block that the thread converts; p_end: the end of that block */
    uint32_t p;
    uint32_t p_end;
};

struct job {
    const struct export_pieces *conf;
    const struct ts_tensor *t;
    /* the mode of each level of the blocks (the order in which a copy sorts modes) */
    const uint8_t *level;
    size_t text_bytes;
    uint32_t piece_nnz; /* nonzeros of a piece, a whole number of blocks */
    struct scratch *scratch;
    struct tool_progress progress;
    int giving; /* 1: lines of nonzeros are being written; 0: only the header was written so far */
    uint64_t done; /* nonzeros written */
    int rc;        /* code of the first failure */
    struct ts_err err;
};

static void note_failure(struct job *e, int rc, const struct ts_err *err)
{
#pragma omp critical(export_failure)
    if (e->rc == 0) {
        e->err = *err;
        e->rc = rc;
    }
}

static int failed(const struct job *e)
{
    int rc;
#pragma omp atomic read
    rc = e->rc;
    return rc != 0;
}

/* ------------------------------------------------------------------ text of a piece of nonzeros */

/* Puts the next block of a piece into s->block and sets p_end; p_end is 0 if no block is left. */
static int next_block(const struct job *e, struct scratch *s, struct piece *p, struct ts_err *err)
{
    int rc = 0;
    p->p = p->p_end = 0;
    if (p->rec == NULL && p->b < p->end_b) {
        rc = ts_tensor_block(e->t, e->conf->mode, p->shard, p->raw, p->b++, &s->block, err);
        p->p_end = rc == 0 ? s->block.n : 0;
    } else if (p->n_rec > 0) {
        const uint32_t n = p->n_rec < TS_BLOCK_NNZ ? (uint32_t)p->n_rec : TS_BLOCK_NNZ;
        ts_reorder_block(p->layout, p->rec, n, &s->block);
        p->rec += (uint64_t)n * p->layout->words;
        p->n_rec -= n;
        p->p_end = n;
    }
    return rc;
}

/* Fills the thread's buffer with text of the piece. Returns 1 if the piece is finished, 0 if more
 * text follows, or a negative code. */
static int fill(const struct job *e, struct scratch *s, struct piece *p, struct ts_err *err)
{
    const uint32_t thread = (uint32_t)omp_get_thread_num();
    const char *end = s->text + e->text_bytes;
    char *at = s->text;
    int rc = 0, all = 0;
    for (;;) {
        if (p->p == p->p_end)
            rc = next_block(e, s, p, err);
        all = p->p_end == 0;
        if (rc < 0 || all)
            break;
        rc = export_rows_put(&e->conf->rows, thread, &s->block, e->level, &p->p, &at, end, err);
        if (rc < 0 || p->p < p->p_end)
            break;
    }
    s->bytes = s->text;
    s->n_bytes = (size_t)(at - s->text);
    if (rc == 0 && e->conf->sink->gzip && s->n_bytes > 0) {
        rc = export_sink_pack(s->text, s->n_bytes, &s->packed, &s->packed_room, &s->n_bytes, err);
        s->bytes = s->packed;
    }
    return rc < 0 ? rc : all;
}

static int write_bytes(struct job *e, const struct scratch *s, struct ts_err *err)
{
    if (ts_stop_asked(&tool_stop))
        return ts_fail(err, TS_ESTOP, "stopped by a signal, nothing is left behind");
    return export_sink_write(e->conf->sink, s->bytes, s->n_bytes, err);
}

/* Writes the text that fill() made of a piece, and then the piece's remaining text. Called in the
 * order of the pieces. rc: the result of fill(). */
static void write_piece(struct job *e, struct scratch *s, struct piece *p, int rc,
                        struct ts_err *err)
{
    for (int all = rc; rc >= 0; rc = all) {
        const int wrote = failed(e) ? TS_ESTOP : write_bytes(e, s, err);
        if (wrote < 0) {
            rc = wrote;
            break;
        }
        if (all)
            break;
        all = fill(e, s, p, err);
    }
    if (rc < 0)
        note_failure(e, rc, err);
    e->done += p->nnz;
    tool_progress_update(&e->progress, e->done);
}

/* Type of a function that sets *ret to piece i of the nonzeros that `what` describes. */
typedef void piece_fn(const struct job *e, const void *what, uint64_t i, struct piece *ret);

static void write_pieces(struct job *e, uint64_t n, piece_fn *piece_at, const void *what)
{
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(e->conf->threads)
    for (uint64_t i = 0; i < n; i++) {
        struct scratch *mine = &e->scratch[omp_get_thread_num()];
        struct piece p = { 0 };
        struct ts_err err;
        int rc = 0;
        piece_at(e, what, i, &p);
        if (!failed(e))
            rc = fill(e, mine, &p, &err);
#pragma omp ordered
        if (!failed(e))
            write_piece(e, mine, &p, rc, &err);
    }
}

/* ------------------------------------------------------------------ nonzeros in stored order */

/* Consecutive shards, which the buffers e->scratch[0..n) hold. */
struct batch {
    uint64_t first;
    uint32_t n;
};

static uint32_t pieces_of(const struct job *e, const struct ts_disk_shard *s)
{
    const uint32_t blocks = e->piece_nnz / TS_BLOCK_NNZ;
    return (s->n_blocks + blocks - 1) / blocks;
}

static void piece_of_shards(const struct job *e, const void *what, uint64_t i, struct piece *ret)
{
    const uint32_t blocks = e->piece_nnz / TS_BLOCK_NNZ;
    const struct batch *batch = what;
    const struct ts_disk_shard *s = e->t->mode[e->conf->mode].shard + batch->first;
    uint32_t k = 0, left;
    while (i >= pieces_of(e, &s[k]))
        i -= pieces_of(e, &s[k++]);
    ret->shard = batch->first + k;
    ret->raw = e->scratch[k].raw;
    ret->b = (uint32_t)i * blocks;
    left = s[k].n_blocks - ret->b;
    ret->end_b = ret->b + (left < blocks ? left : blocks);
    ret->nnz = ret->end_b == s[k].n_blocks ? s[k].nnz - (uint64_t)ret->b * TS_BLOCK_NNZ
                                           : (uint64_t)blocks * TS_BLOCK_NNZ;
}

static void read_batch(struct job *e, const struct batch *batch)
{
#pragma omp parallel for schedule(static, 1) num_threads(e->conf->threads)
    for (uint32_t i = 0; i < batch->n; i++) {
        struct ts_err err;
        const int rc =
            ts_tensor_read_shard(e->t, e->conf->mode, batch->first + i, e->scratch[i].raw, &err);
        if (rc < 0)
            note_failure(e, rc, &err);
    }
}

static void export_stored(struct job *e)
{
    const struct ts_mode *m = &e->t->mode[e->conf->mode];
    struct batch batch = { 0 };
    tool_progress_start(&e->progress, "exporting", "nonzeros", e->t->nnz);
    for (; batch.first < m->disk.n_shards && !failed(e); batch.first += batch.n) {
        const uint64_t left = m->disk.n_shards - batch.first;
        uint64_t n = 0;
        batch.n = left < e->conf->threads ? (uint32_t)left : e->conf->threads;
        for (uint32_t i = 0; i < batch.n; i++)
            n += pieces_of(e, &m->shard[batch.first + i]);
        read_batch(e, &batch);
        if (!failed(e))
            write_pieces(e, n, piece_of_shards, &batch);
    }
}

/* ------------------------------------------------------------------ nonzeros in sorted order */

struct records {
    const struct ts_record_layout *layout;
    const uint64_t *rec;
    uint64_t n;
};

static void piece_of_records(const struct job *e, const void *what, uint64_t i, struct piece *ret)
{
    const struct records *r = what;
    const uint64_t first = i * e->piece_nnz, left = r->n - first;
    ret->layout = r->layout;
    ret->rec = r->rec + first * r->layout->words;
    ret->n_rec = ret->nnz = left < e->piece_nnz ? left : e->piece_nnz;
}

static void show_sorting(void *arg, uint64_t done)
{
    struct job *e = arg;
    if (!e->progress.on)
        tool_progress_start(&e->progress, "sorting", "nonzeros", e->t->nnz);
    tool_progress_update(&e->progress, done);
}

static int take_records(void *arg, const struct ts_record_layout *layout, const uint64_t *rec,
                        uint64_t n, struct ts_err *err)
{
    const struct records r = { layout, rec, n };
    struct job *e = arg;
    if (!e->giving) {
        tool_progress_end(&e->progress);
        tool_progress_start(&e->progress, "exporting", "nonzeros", e->t->nnz);
        e->giving = 1;
    }
    write_pieces(e, (n + e->piece_nnz - 1) / e->piece_nnz, piece_of_records, &r);
    if (e->rc < 0)
        *err = e->err;
    return e->rc;
}

static void export_sorted(struct job *e)
{
    struct ts_reorder_conf conf = { .tensor = e->t,
                                    .memory = e->conf->sort_bytes,
                                    .threads = e->conf->threads,
                                    .tmp = e->conf->tmp,
                                    .stop = &tool_stop,
                                    .fn = take_records,
                                    .arg = e,
                                    .progress = show_sorting };
    struct ts_err err;
    int rc;
    memcpy(conf.by, e->conf->by, sizeof conf.by);
    rc = ts_reorder(&conf, &err);
    if (rc < 0)
        note_failure(e, rc, &err);
}

/* ------------------------------------------------------------------ public functions */

uint64_t export_pieces_bytes(const struct ts_tensor *t, int sorted, int gzip, uint32_t threads,
                             uint64_t text_bytes)
{
    const uint64_t raw = sorted ? 0 : 2 * (uint64_t)ts_tensor_raw_bytes(t);
    const uint64_t packed = gzip ? text_bytes + text_bytes / 1000 + PACK_BYTES : 0;
    return threads * (raw + text_bytes + packed + sizeof(struct scratch));
}

static int scratch_new(struct job *e, struct ts_err *err)
{
    const size_t line = export_rows_line(&e->conf->rows);
    struct scratch *s = calloc(e->conf->threads, sizeof *s);
    int ok = s != NULL;
    e->scratch = s;
    /* a line with names may be longer than text_bytes */
    e->text_bytes = e->conf->text_bytes + line;
    for (uint32_t i = 0; ok && i < e->conf->threads; i++) {
        s[i].text = malloc(e->text_bytes);
        if (!e->conf->sorted)
            s[i].raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(e->t));
        ok = s[i].text != NULL && (e->conf->sorted || s[i].raw != NULL);
    }
    return ok ? 0
              : ts_fail(err, TS_ENOMEM, "no memory for a shard of %" PRIu32 " bytes and its text",
                        e->t->header.max_shard_bytes);
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

int export_pieces_write(const struct export_pieces *conf, struct ts_err *err)
{
    const uint64_t lines = conf->text_bytes / LINE_GUESS;
    struct job e = { .conf = conf, .t = conf->tensor };
    int rc;
    e.level = conf->sorted ? conf->by : e.t->mode[conf->mode].disk.level;
    e.piece_nnz =
        (uint32_t)(lines < TS_BLOCK_NNZ ? TS_BLOCK_NNZ : lines / TS_BLOCK_NNZ * TS_BLOCK_NNZ);
    rc = scratch_new(&e, err);
    if (rc == 0 && conf->sorted)
        export_sorted(&e);
    else if (rc == 0)
        export_stored(&e);
    tool_progress_end(&e.progress);
    if (e.rc < 0 && err != NULL)
        *err = e.err;
    scratch_free(e.scratch, conf->threads);
    return rc < 0 ? rc : e.rc;
}
