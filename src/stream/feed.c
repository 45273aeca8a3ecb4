#include "stream/feed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "format/shard.h"

struct ts_feed {
    const struct ts_tensor *tensor;
    pthread_mutex_t lock;
    void **raw[TS_MAX_ORDER]; /* of each shard */
    uint64_t *first_partition[TS_MAX_ORDER];
    int only_mode, pass_mode; /* -1: no pass has begun */
    uint64_t given;           /* shards of this pass handed out */
    uint64_t bytes_read, resident_bytes;
};

static size_t place_bytes(const struct ts_disk_shard *s)
{
    const size_t stored = s->stored_bytes, raw = s->raw_bytes + (size_t)TS_SHARD_SLACK;
    return ((raw > stored ? raw : stored) + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

static int load_mode(struct ts_feed *f, uint32_t mode, struct ts_err *err)
{
    const struct ts_mode *m = &f->tensor->mode[mode];
    const size_t most = (f->tensor->header.max_shard_bytes + (size_t)TS_SHARD_SLACK + TS_PAGE - 1) /
                        TS_PAGE * TS_PAGE;
    uint64_t partitions = 0;
    f->raw[mode] = calloc(m->disk.n_shards + 1, sizeof(void *));
    f->first_partition[mode] = calloc(m->disk.n_shards + 1, sizeof(uint64_t));
    if (f->raw[mode] == NULL || f->first_partition[mode] == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->shards_path);
    for (uint64_t i = 0; i < m->disk.n_shards; i++) {
        const size_t bytes = place_bytes(&m->shard[i]);
        int rc;
        if (posix_memalign(&f->raw[mode][i], TS_PAGE, bytes > most ? bytes : most) != 0)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->shards_path);
        rc = ts_tensor_read_shard(f->tensor, mode, i, f->raw[mode][i], err);
        if (rc < 0)
            return rc;
        f->first_partition[mode][i] = partitions;
        partitions += ts_shard_partitions(&m->shard[i]);
        f->resident_bytes += bytes;
        f->bytes_read += m->shard[i].stored_bytes;
    }
    return 0;
}

int ts_feed_new(const struct ts_feed_conf *conf, struct ts_feed **ret, struct ts_err *err)
{
    struct ts_feed *f = calloc(1, sizeof *f);
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    f->tensor = conf->tensor;
    f->only_mode = conf->only_mode;
    f->pass_mode = -1;
    pthread_mutex_init(&f->lock, NULL);
    for (uint32_t m = 0; m < f->tensor->order; m++) {
        const int rc = conf->only_mode < 0 || (uint32_t)conf->only_mode == m ? load_mode(f, m, err) : 0;
        if (rc < 0) {
            ts_feed_free(f);
            return rc;
        }
    }
    *ret = f;
    return 0;
}

void ts_feed_free(struct ts_feed *f)
{
    if (f == NULL)
        return;
    for (uint32_t m = 0; m < f->tensor->order; m++) {
        for (uint64_t i = 0; f->raw[m] != NULL && i < f->tensor->mode[m].disk.n_shards; i++)
            free(f->raw[m][i]);
        free(f->raw[m]);
        free(f->first_partition[m]);
    }
    pthread_mutex_destroy(&f->lock);
    free(f);
}

int ts_feed_next(struct ts_feed *f, uint32_t mode, struct ts_shard_view *ret, struct ts_err *err)
{
    int rc = 0;
    (void)err;
    pthread_mutex_lock(&f->lock);
    if (f->pass_mode != (int)mode) {
        f->pass_mode = (int)mode;
        f->given = 0;
    }
    if (f->given < f->tensor->mode[mode].disk.n_shards) {
        ret->mode = mode;
        ret->shard = f->given++;
        ret->first_partition = f->first_partition[mode][ret->shard];
        ret->entry = &f->tensor->mode[mode].shard[ret->shard];
        ret->raw = f->raw[mode][ret->shard];
        ret->lease = NULL;
        rc = 1;
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

void ts_feed_done(struct ts_feed *f, const struct ts_shard_view *view)
{
    (void)f;
    (void)view;
}

void ts_feed_rewind(struct ts_feed *f)
{
    f->pass_mode = -1;
}

void ts_feed_stats(struct ts_feed *f, struct ts_feed_stats *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->bytes_read = f->bytes_read;
    ret->resident_bytes = f->resident_bytes;
    f->bytes_read = 0;
}
