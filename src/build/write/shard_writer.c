/* SPDX-License-Identifier: BSD-3-Clause */
/* With several threads, joins the partitions of each shard, compresses the shard, and writes it to
 * its place in the file. */
#include "build/write/shard_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/shard.h"

/* A shard that waits to be written. */
struct waiting {
    struct waiting *next;
    uint64_t number;
    struct ts_shard_draft draft;
};

/* A buffer in which a shard is joined and compressed. */
struct buffer {
    struct buffer *next;
    char *raw, *lz4;
    size_t raw_room, lz4_room;
};

struct ts_shard_writer {
    struct ts_shard_writer_plan plan;
    int fd;
    pthread_t *thread;
    uint32_t n_threads;

    pthread_mutex_t lock;
    pthread_cond_t moved; /* signalled when a member below this one changes */
    struct waiting *first, *last;
    struct buffer *free_buffers;
    struct buffer *buffer; /* array of all buffers */
    uint32_t n_waiting, n_busy;
    int stop, failed;
    struct ts_err err;

    struct ts_cell_sum cells; /* checksum over the cells of the shards written so far */
    struct ts_disk_shard *shard;
    /* number of shards so far; number of entries that the table `shard` has space for */
    uint64_t n_shards, shard_room;
    /* number of shards whose place in the file is known; the byte at which the last of them ends */
    uint64_t n_placed, file_bytes;
    uint64_t ahead; /* length of the file, to which it was extended before its shards are written */
    int may_extend;
};

void ts_shard_draft_drop(struct ts_shard_draft *draft, struct ts_partition_pool *pool)
{
    while (draft->first != NULL) {
        struct ts_packed_partition *p = draft->first;
        draft->first = p->next;
        ts_partition_pool_put(pool, p);
    }
    memset(draft, 0, sizeof *draft);
}

void ts_shard_draft_add(struct ts_shard_draft *d, struct ts_packed_partition *p)
{
    p->next = NULL;
    if (d->first == NULL) {
        d->first = p;
        d->row_first = p->row_first;
    } else {
        d->last->next = p;
    }
    d->last = p;
    d->n_blocks += p->n_blocks;
    d->body_words += p->n_words;
    d->nnz += p->nnz;
    d->row_last = p->row_last;
}

static size_t pad(size_t bytes)
{
    return (bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

/* ------------------------------------------------------------------ writing one shard */

/* Makes the memory *mem at least `bytes` bytes long. Its address is a multiple of TS_PAGE, as
 * O_DIRECT needs. */
static int want_room(char **mem, size_t *room, size_t bytes)
{
    void *more;
    if (bytes <= *room)
        return 0;
    free(*mem);
    *mem = NULL;
    *room = 0;
    if (posix_memalign(&more, TS_PAGE, pad(bytes)) != 0)
        return -1;
    *mem = more;
    *room = pad(bytes);
    return 0;
}

/* Joins the partitions of a draft into a shard: first the tables of blocks, then the blocks. */
static void join_partitions(const struct ts_shard_draft *d, uint32_t *raw)
{
    const uint32_t head = 2 * d->n_blocks + 1;
    uint32_t block = 0, at = 0;
    for (const struct ts_packed_partition *r = d->first; r != NULL; r = r->next) {
        for (uint32_t k = 0; k < r->n_blocks; k++) {
            raw[block + k] = head + at + r->block_at[k];
            raw[d->n_blocks + 1 + block + k] = r->block_row[k] - d->row_first;
        }
        memcpy(raw + head + at, r->word, 4 * (size_t)r->n_words);
        block += r->n_blocks;
        at += r->n_words;
    }
    assert(block == d->n_blocks && at == d->body_words);
    raw[d->n_blocks] = head + at;
}

static int write_all(const struct ts_shard_writer *w, const char *p, size_t bytes, uint64_t at)
{
    while (bytes > 0) {
        /* read before the write, because another thread may clear O_DIRECT during the write */
        const int flags = fcntl(w->fd, F_GETFL), direct = flags > 0 && (flags & O_DIRECT) != 0;
        const ssize_t n = pwrite(w->fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && direct && fcntl(w->fd, F_SETFL, flags & ~O_DIRECT) == 0)
            /* the disk needs a larger alignment for O_DIRECT: writes through the page cache */
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return -1;
        }
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Extends a large file beyond the bytes written so far, because writes inside a file run in
 * parallel, and writes that extend it do not. */
static void extend_file(struct ts_shard_writer *w)
{
    const uint64_t quarter = w->file_bytes / 4, least = TS_SHARD_WRITER_AHEAD;
    w->ahead = w->file_bytes + (quarter > least ? quarter : least);
    w->may_extend = fallocate(w->fd, 0, 0, (off_t)w->ahead) == 0;
}

/* Waits until all shards before shard `number` have their places in the file, and then gives it the
 * next `padded` bytes. Returns their offset, or UINT64_MAX after a failure. */
static uint64_t place_shard(struct ts_shard_writer *w, uint64_t number, size_t padded)
{
    uint64_t offset;
    pthread_mutex_lock(&w->lock);
    while (w->n_placed != number && !w->failed)
        pthread_cond_wait(&w->moved, &w->lock);
    if (w->failed) {
        pthread_mutex_unlock(&w->lock);
        return UINT64_MAX;
    }
    offset = w->file_bytes;
    w->file_bytes += padded;
    w->n_placed++;
    if (w->may_extend && w->file_bytes > w->ahead && w->file_bytes > TS_SHARD_WRITER_AHEAD)
        extend_file(w);
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    return offset;
}

static int write_shard(struct ts_shard_writer *w, struct waiting *q, struct buffer *b,
                       struct ts_err *err)
{
    struct ts_shard_draft *d = &q->draft;
    struct ts_disk_shard e = {
        .nnz = d->nnz, .n_blocks = d->n_blocks, .row_first = d->row_first, .row_last = d->row_last
    };
    struct ts_cell_sum cells = { 0 };
    struct ts_err why;
    char *stored;
    size_t padded;
    e.raw_bytes = e.stored_bytes = 4 * (2 * d->n_blocks + 1 + d->body_words);
    if (want_room(&b->raw, &b->raw_room, (size_t)e.raw_bytes + TS_SHARD_SLACK) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", w->plan.path);
    join_partitions(d, (uint32_t *)(void *)b->raw);
    ts_shard_draft_drop(d, w->plan.pool); /* frees memory for partitions that are packed next */
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    memset(b->raw + e.raw_bytes, 0, TS_SHARD_SLACK);
    if (w->plan.order > 0 && ts_cell_sum_shard(&e, b->raw, w->plan.order, w->plan.n_codes,
                                               w->plan.level, &cells, &why) < 0)
        return ts_fail(err, TS_EIO,
                       "%s: a block cannot be decoded again (%s): this is a bug in tstream, please "
                       "report it; nothing was written",
                       w->plan.path, why.text);
    stored = b->raw;
    if (w->plan.compress) {
        /* compression must save a tenth, or it is not worth the time that readers need to
         * decompress */
        const int room = (int)(e.raw_bytes / 10 * 9);
        int n;
        if (want_room(&b->lz4, &b->lz4_room, e.raw_bytes) < 0)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", w->plan.path);
        n = LZ4_compress_default(b->raw, b->lz4, (int)e.raw_bytes, room);
        if (n > 0) {
            stored = b->lz4;
            e.stored_bytes = (uint32_t)n;
            e.flags = TS_SHARD_LZ4;
        }
    }
    padded = pad(e.stored_bytes);
    memset(stored + e.stored_bytes, 0, padded - e.stored_bytes);
    e.hash = XXH3_64bits(stored, padded);
    e.offset = place_shard(w, q->number, padded);
    if (e.offset == UINT64_MAX) /* another shard has failed, and w->err has its message */
        return 0;
    if (write_all(w, stored, padded, e.offset) < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot write", w->plan.path);
    pthread_mutex_lock(&w->lock);
    w->shard[q->number] = e;
    ts_cell_sum_join(&w->cells, &cells);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

/* ------------------------------------------------------------------ threads that write shards */

/* Takes the shard that has waited longest and writes it, without the lock, which the caller holds
 * before and after the call. */
static void write_next(struct ts_shard_writer *w)
{
    struct waiting *q = w->first;
    struct buffer *b = w->free_buffers;
    struct ts_err err = { 0 };
    int rc = 0;
    w->first = q->next;
    w->last = w->first == NULL ? NULL : w->last;
    w->free_buffers = b->next;
    w->n_waiting--;
    w->n_busy++;
    if (!w->failed) {
        pthread_mutex_unlock(&w->lock);
        rc = write_shard(w, q, b, &err);
        pthread_mutex_lock(&w->lock);
    }
    if (rc < 0 && !w->failed) {
        w->failed = 1;
        w->err = err;
    }
    b->next = w->free_buffers;
    w->free_buffers = b;
    w->n_busy--;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    ts_shard_draft_drop(&q->draft, w->plan.pool);
    free(q);
    pthread_mutex_lock(&w->lock);
}

static void *writing(void *arg)
{
    struct ts_shard_writer *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        if (w->first != NULL && w->free_buffers != NULL)
            write_next(w);
        else if (w->stop && w->first == NULL)
            break;
        else
            pthread_cond_wait(&w->moved, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int failure(const struct ts_shard_writer *w, struct ts_err *err)
{
    if (!w->failed)
        return 0;
    if (err != NULL)
        *err = w->err;
    return w->err.code;
}

/* Whether another partition may be packed, because few shards wait and partitions use little
 * memory. If no shard waits or is being written, it may, because all partitions in use then belong
 * to the caller, and waiting would not free them. */
static int has_room(const struct ts_shard_writer *w)
{
    if (w->n_waiting >= w->n_threads)
        return 0;
    return w->plan.pool == NULL || w->n_waiting + w->n_busy == 0 ||
           ts_partition_pool_used(w->plan.pool) <= w->plan.partition_bytes;
}

int ts_shard_writer_make_room(struct ts_shard_writer *w, struct ts_err *err)
{
    int rc;
    pthread_mutex_lock(&w->lock);
    while (!has_room(w) && !w->failed) {
        if (w->first != NULL && w->free_buffers != NULL)
            write_next(w);
        else
            pthread_cond_wait(&w->moved, &w->lock);
    }
    rc = failure(w, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void ts_shard_writer_help(struct ts_shard_writer *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->first != NULL && w->free_buffers != NULL)
        write_next(w);
    pthread_mutex_unlock(&w->lock);
}

int ts_shard_writer_put(struct ts_shard_writer *w, struct ts_shard_draft *draft, struct ts_err *err)
{
    struct waiting *q = malloc(sizeof *q);
    int rc = 0;
    if (q == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", w->plan.path);
    pthread_mutex_lock(&w->lock);
    if (w->n_shards == w->shard_room) {
        const uint64_t room = 2 * w->shard_room + 64;
        struct ts_disk_shard *more = realloc(w->shard, room * sizeof *more);
        if (more == NULL) {
            rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for the table of shards", w->plan.path);
            goto done;
        }
        w->shard = more;
        w->shard_room = room;
    }
    q->draft = *draft;
    q->number = w->n_shards++;
    q->next = NULL;
    memset(draft, 0, sizeof *draft);
    if (w->last == NULL)
        w->first = q;
    else
        w->last->next = q;
    w->last = q;
    q = NULL;
    w->n_waiting++;
    pthread_cond_broadcast(&w->moved);
done:
    pthread_mutex_unlock(&w->lock);
    free(q);
    return rc;
}

/* ------------------------------------------------------------------ making and ending a writer */

static int open_file(struct ts_shard_writer *w, struct ts_err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    struct rlimit limit;
    w->fd = open(w->plan.path, flags | O_DIRECT, 0666);
    if (w->fd < 0 && errno == EINVAL) { /* an open that fails may have created the file */
        unlink(w->plan.path);
        w->fd = open(w->plan.path, flags, 0666);
    }
    if (w->fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot create", w->plan.path);
    /* without a limit on file sizes the file may be extended; a process that exceeds a limit is
     * killed */
    w->may_extend = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
    return 0;
}

int ts_shard_writer_new(const struct ts_shard_writer_plan *plan, struct ts_shard_writer **ret,
                        struct ts_err *err)
{
    struct ts_shard_writer *w = calloc(1, sizeof *w);
    int rc = 0;
    if (w == NULL)
        return ts_no_memory(err, plan->path);
    w->plan = *plan;
    w->fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->moved, NULL);
    w->thread = calloc(plan->threads, sizeof *w->thread);
    w->buffer = calloc(plan->n_buffers, sizeof *w->buffer);
    if (w->thread == NULL || w->buffer == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", plan->path);
        goto fail;
    }
    for (uint32_t k = 0; k < plan->n_buffers; k++) {
        w->buffer[k].next = w->free_buffers;
        w->free_buffers = &w->buffer[k];
    }
    w->file_bytes = plan->at;
    if (plan->has_file)
        w->fd = plan->file;
    else
        rc = open_file(w, err);
    if (rc < 0)
        goto fail;
    for (; w->n_threads < plan->threads; w->n_threads++) {
        errno = pthread_create(&w->thread[w->n_threads], NULL, writing, w);
        if (errno != 0 && w->n_threads == 0) {
            rc = ts_fail_errno(err, TS_ENOMEM, "%s: cannot start a thread", plan->path);
            goto fail;
        }
        if (errno != 0) /* no more threads can be started; fewer threads are enough */
            break;
    }
    *ret = w;
    return 0;
fail:
    ts_shard_writer_free(w);
    return rc;
}

static void join_threads(struct ts_shard_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = 1;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    for (; w->n_threads > 0; w->n_threads--)
        pthread_join(w->thread[w->n_threads - 1], NULL);
}

void ts_shard_writer_free(struct ts_shard_writer *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->failed = 1; /* makes the threads drop the shards that still wait */
    pthread_mutex_unlock(&w->lock);
    join_threads(w);
    for (uint32_t k = 0; w->buffer != NULL && k < w->plan.n_buffers; k++) {
        free(w->buffer[k].raw);
        free(w->buffer[k].lz4);
    }
    if (w->fd >= 0 && !w->plan.has_file)
        close(w->fd);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->moved);
    free(w->thread);
    free(w->buffer);
    free(w->shard);
    free(w);
}

int ts_shard_writer_finish(struct ts_shard_writer *w, struct ts_disk_shard **shard,
                           uint64_t *n_shards, uint64_t *file_bytes, struct ts_cell_sum *cells,
                           struct ts_err *err)
{
    int rc;
    join_threads(w);
    rc = failure(w, err);
    if (rc == 0 && !w->plan.has_file && ftruncate(w->fd, (off_t)w->file_bytes) < 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", w->plan.path);
    if (rc < 0)
        return rc;
    *shard = w->shard;
    w->shard = NULL;
    *n_shards = w->n_shards;
    *file_bytes = w->file_bytes;
    *cells = w->cells;
    return 0;
}

/* ------------------------------------------------------------------ drafts: unfinished shards */

void ts_slice_count_follow(struct ts_slice_count *w, const struct ts_packed_partition *s)
{
    if (s->row_first == w->row)
        w->nnz += s->first_row_nnz;
    else
        w->nnz = s->first_row_nnz;
    w->largest = w->nnz > w->largest ? w->nnz : w->largest;
    w->largest = s->largest_row_nnz > w->largest ? s->largest_row_nnz : w->largest;
    if (s->row_last != s->row_first)
        w->nnz = s->last_row_nnz;
    w->row = s->row_last;
    w->sum_of_squares += s->sum_of_squares;
}

int ts_shard_draft_joins(uint64_t blocks, uint64_t body_words, uint32_t n_blocks, uint32_t n_words,
                         uint64_t shard_bytes)
{
    const uint64_t words = 2 * (blocks + n_blocks) + 1 + body_words + n_words;
    return blocks == 0 || 4 * words <= shard_bytes;
}
