/* SPDX-License-Identifier: BSD-3-Clause */
/* Returns the properties of tensors, and their nonzeros. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/json_read.h"
#include "base/num.h"
#include "base/setting.h"
#include "base/machine/threads.h"
#include "build/append.h"
#include "build/room/build_budget.h"
#include "format/segments.h"
#include "format/shard.h"
#include "format/tensor.h"
#include "format/tensor_kind.h"
#include "format/walk.h"
#include "stream/cells_norm.h"

/* Merges the segments of a tensor (one for each append). A caller of the library cannot set the
 * memory for it, so it has the default of tshard build. */
static int merge(const char *path, struct ts_tensor **outside, struct ts_err *err)
{
    struct ts_append_report report;
    struct ts_build_options o = { 0 };
    struct ts_err why;
    int rc = ts_build_budget(0, TS_BUILD_SHARD, 0, &o, &why);
    o.shard_bytes = 0;
    o.tmp = getenv("TMPDIR");
    if (o.tmp != NULL && *o.tmp == '\0')
        o.tmp = NULL;
    if (rc == 0)
        rc = ts_append_merge(path, &o, &report, outside, &why);
    return rc == 0 ? 0
                   : ts_fail(err, rc, "%s: its segments cannot be merged, which reading needs: %s",
                             path, why.text);
}

ts_tensor *ts_open(const char *path, ts_error *err)
{
    struct ts_tensor *t = NULL;
    struct ts_api a;
    ts_segments_set_merger(merge, 0);
    ts_api_begin(&a);
    ts_api_end(&a, ts_tensor_open_any(path, &t, &a.err), err);
    return t;
}

ts_tensor *ts_open_segment(const char *path, uint32_t number, ts_error *err)
{
    struct ts_segments *s = NULL;
    struct ts_tensor *t = NULL;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_segments_open(path, &s, &a.err);
    if (rc == 0 && number != UINT32_MAX && number >= s->n)
        rc = ts_fail(&a.err, TS_EARG, "%s: has %" PRIu32 " segment%s", path, s->n,
                     ts_num_plural(s->n));
    if (rc == 0)
        rc = ts_segments_tensor(s, number == UINT32_MAX ? s->n - 1 : number, &t, &a.err);
    ts_segments_close(s);
    ts_api_end(&a, rc, err);
    return t;
}

void ts_close(ts_tensor *t)
{
    ts_tensor_close(t);
}

const char *ts_path(const ts_tensor *t)
{
    return t->path;
}

uint32_t ts_order(const ts_tensor *t)
{
    return t->order;
}

uint64_t ts_dim(const ts_tensor *t, uint32_t mode)
{
    return mode < t->order ? t->mode[mode].disk.dim : 0;
}

uint64_t ts_used(const ts_tensor *t, uint32_t mode)
{
    return mode < t->order ? t->mode[mode].disk.n_rows : 0;
}

uint64_t ts_nnz(const ts_tensor *t)
{
    return t->nnz;
}

double ts_norm(const ts_tensor *t)
{
    const struct ts_cells_conf conf = { .tensor = t, .threads = 1 };
    struct ts_err err;
    return ts_cells_norm(&conf, &err) < 0 ? NAN : t->header.norm;
}

uint32_t ts_value_bytes(const ts_tensor *t)
{
    return t->header.value_bytes;
}

uint32_t ts_first_index(const ts_tensor *t)
{
    return ts_tensor_base(t);
}

int ts_is_dense(const ts_tensor *t)
{
    return t->dense != NULL;
}

int ts_json_file_check(const char *name, const void *bytes, size_t n, ts_error *err)
{
    struct ts_api a;
    ts_api_begin(&a);
    return ts_api_end(&a, ts_json_check(name, bytes, n, &a.err), err);
}

int ts_has_duplicates(const ts_tensor *t)
{
    return (t->header.flags & TS_TENSOR_DUPLICATES) != 0;
}

const char *ts_name(const ts_tensor *t, uint32_t mode)
{
    return mode < t->order    ? ts_tensor_mode_name(t, mode)
           : mode == t->order ? ts_tensor_value_name(t)
                              : NULL;
}

static int check_mode(const ts_tensor *t, uint32_t mode, struct ts_err *err)
{
    return mode < t->order ? 0
                           : ts_fail(err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %u",
                                     t->path, mode + 1, t->order);
}

static int used_indices(const ts_tensor *t, uint32_t mode, uint64_t *ret, struct ts_err *err)
{
    struct ts_rows_reader *in = NULL;
    uint64_t piece[TS_ROWS_CHUNK], at = 0;
    uint32_t n = 1;
    int rc = check_mode(t, mode, err);
    if (rc == 0)
        rc = ts_rows_reader_open(t, mode, &in, err);
    if (rc == 0 && in == NULL)
        for (; at < t->mode[mode].disk.n_rows; at++)
            ret[at] = at;
    while (in != NULL && rc == 0 && n > 0) {
        rc = ts_rows_reader_next(in, piece, &n, err);
        for (uint32_t i = 0; i < n && rc == 0; i++)
            ret[at++] = piece[i];
    }
    ts_rows_reader_close(in);
    return rc;
}

int ts_used_indices(const ts_tensor *t, uint32_t mode, uint64_t *ret, ts_error *err)
{
    struct ts_api a;
    ts_api_begin(&a);
    return ts_api_end(&a, used_indices(t, mode, ret, &a.err), err);
}

/* ---- reading nonzeros ---- */

static int give(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index, const double *value,
                struct ts_err *err)
{
    const ts_each_conf *c = ctx;
    return c->fn(c->ctx, thread, n, index, value) == 0
               ? 0
               : ts_fail(err, TS_ESTOP, "stopped by the function that took the nonzeros");
}

static int each(const ts_tensor *t, const ts_each_conf *given, struct ts_err *err)
{
    ts_each_conf conf;
    struct ts_walk w = { 0 };
    uint32_t threads = 1;
    int rc = TS_API_CONF(&conf, given, err);
    if (rc == 0 && conf.fn == NULL)
        rc = ts_fail(err, TS_EARG, "a walk needs a function that takes the nonzeros");
    if (rc == 0 && conf.threads != 1)
        rc = ts_threads_get(conf.threads, 0, &threads, err);
    if (rc == 0)
        rc = ts_walk_open(t, conf.mode, &w, err);
    if (rc == 0)
        rc = ts_walk_all(&w, threads, give, &conf, conf.stop, err);
    ts_walk_close(&w);
    return rc;
}

int ts_each(const ts_tensor *t, const ts_each_conf *conf, ts_error *err)
{
    struct ts_api a = {
        .before = (locale_t)0
    }; /* keeps the caller's locale, in which its function must run; messages have no decimals */
    return ts_api_end(&a, each(t, conf, &a.err), err);
}

struct ts_cursor {
    struct ts_walk walk;
    uint64_t shard; /* number of the shard that is being read */
    uint32_t block; /* number of the block that is decoded next */
    int read;       /* 1: the bytes of the shard are in raw */
    void *raw;
};

ts_cursor *ts_cursor_open(const ts_tensor *t, uint32_t mode, ts_error *err)
{
    struct ts_cursor *c = calloc(1, sizeof *c);
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    if (c != NULL)
        c->raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(t));
    rc = c == NULL || c->raw == NULL
             ? ts_fail(&a.err, TS_ENOMEM, "%s: no memory for a shard", t->path)
             : ts_walk_open(t, mode, &c->walk, &a.err);
    if (rc < 0) {
        ts_cursor_close(c);
        c = NULL;
    }
    ts_api_end(&a, rc, err);
    return c;
}

void ts_cursor_close(ts_cursor *c)
{
    if (c == NULL)
        return;
    ts_walk_close(&c->walk);
    free(c->raw);
    free(c);
}

/* Decodes as many of the shard's next blocks as fit into the caller's arrays. */
static int take_blocks(struct ts_cursor *c, uint64_t room, uint64_t *index, double *value,
                       uint64_t *n, struct ts_err *err)
{
    const struct ts_tensor *t = c->walk.tensor;
    const struct ts_disk_shard *s = &t->mode[c->walk.mode].shard[c->shard];
    int rc = c->read ? 0 : ts_walk_read(&c->walk, c->shard, c->raw, err);
    c->read = rc == 0;
    while (rc == 0 && c->block < s->n_blocks && *n + TS_BLOCK_NNZ <= room) {
        uint32_t k = 0;
        rc = ts_walk_block(&c->walk, c->shard, c->raw, c->block, &k, index + *n * t->order,
                           value + *n, err);
        *n += k;
        c->block++;
    }
    if (rc == 0 && c->block == s->n_blocks) {
        c->shard++;
        c->block = 0;
        c->read = 0;
    }
    return rc;
}

int ts_cursor_next(ts_cursor *c, uint64_t room, uint64_t *index, double *value, uint64_t *n,
                   ts_error *err)
{
    const uint64_t n_shards = c->walk.tensor->mode[c->walk.mode].disk.n_shards;
    uint64_t held = 0;
    struct ts_api a;
    int rc = 0;
    ts_api_begin(&a);
    if (room < TS_BLOCK_NNZ)
        rc = ts_fail(&a.err, TS_EARG, "room for %llu nonzero%s is too little: %u are needed",
                     (unsigned long long)room, ts_num_plural(room), TS_BLOCK_NNZ);
    while (rc == 0 && c->shard < n_shards && held + TS_BLOCK_NNZ <= room)
        rc = take_blocks(c, room, index, value, &held, &a.err);
    if (rc == 0)
        *n = held;
    return ts_api_end(&a, rc, err);
}
