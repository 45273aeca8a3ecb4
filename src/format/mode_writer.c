#include "format/mode_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/block_codec.h"

#define PARTITION_WORDS (TS_PARTITION_BLOCKS * TS_BLOCK_MAX_WORDS)
#define N_BUFFERS 3u /* one being filled, one being written, one between */
#define MIN_BLOCK_BYTES 12u /* no block is smaller */

/* A packed partition. */
struct slot {
    uint32_t n_blocks, n_words, nnz;
    uint32_t block_at[TS_PARTITION_BLOCKS]; /* words from its start */
    uint32_t block_row[TS_PARTITION_BLOCKS];
    uint32_t row_first, row_last;
    uint32_t first_run, last_run, longest_run; /* nonzeros of the first, last, fullest row in it */
    double sum_of_squares;
    uint32_t *word; /* PARTITION_WORDS */
};

/* A shard being filled, or on its way to the disk. The tables grow down from the blocks, so that
 * the whole lies in one piece when it is closed. */
struct buffer {
    uint32_t *word;  /* front_words for tables, then the blocks */
    uint32_t *block_at, *block_row;
    uint32_t n_blocks, body_words;
    struct ts_disk_shard entry;
};

struct ts_mode_writer {
    struct ts_mode_writer_plan plan;
    uint32_t n_codes, n_slots;
    struct slot *slot;
    uint64_t *carry; /* records of an unfinished partition */
    uint32_t n_carry;
    uint32_t max_blocks; /* of a shard */
    size_t front_words, buffer_words;
    struct buffer buffer[N_BUFFERS];
    uint32_t filling;

    pthread_mutex_t turn_lock;
    pthread_cond_t turn_moved;
    uint64_t turn; /* partitions joined since the last call of add_partitions */

    /* slices */
    uint32_t run_row;
    uint64_t run, largest;
    double sum_of_squares;

    /* the writing thread takes closed buffers in turn */
    int fd, thread_made;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t n_closed, n_written; /* shards */
    int stop, failed;
    struct ts_err err;
    char *lz4;
    int lz4_room;

    struct ts_disk_shard *shard; /* of the writing thread until it ended */
    uint64_t shard_room, file_bytes;
};

/* ------------------------------------------------------------------ packing */

/* The columns of n records. */
static void unpack_columns(const struct ts_mode_writer *w, const uint64_t *rec, uint32_t n,
                           uint32_t column[][TS_BLOCK_NNZ], uint32_t code[2][TS_BLOCK_NNZ])
{
    const struct ts_record_layout *l = &w->plan.layout;
    const uint32_t order = w->plan.order;
    for (uint32_t f = 0; f < order; f++) {
        if (l->words == 1) {
            const uint32_t left = l->start[f], right = 64 - l->width[f];
            for (uint32_t i = 0; i < n; i++)
                column[f][i] = right == 64 ? 0 : (uint32_t)(rec[i] << left >> right);
            continue;
        }
        for (uint32_t i = 0; i < n; i++)
            column[f][i] = (uint32_t)ts_record_get(l, rec + (size_t)i * l->words, f);
    }
    for (uint32_t i = 0; i < n && w->n_codes > 0; i++) {
        const uint64_t x = ts_record_get(l, rec + (size_t)i * l->words, order);
        code[0][i] = w->n_codes == 2 ? (uint32_t)(x >> 32) : (uint32_t)x;
        code[1][i] = (uint32_t)x;
    }
}

static double sum_squares(const struct ts_mode_writer *w, const uint64_t *rec, uint32_t n)
{
    const struct ts_record_layout *l = &w->plan.layout;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t x = ts_record_get(l, rec + (size_t)i * l->words, w->plan.order);
        const double v = ts_value_code_value(w->plan.code, x);
        sum += v * v;
    }
    return sum;
}

/* Follows the rows of a block. */
static void count_runs(struct slot *s, const uint32_t *row, uint32_t n, uint32_t *run)
{
    if (s->nnz > 0 && row[n - 1] == s->row_last) { /* mostly: rows ascend, so all are the same */
        *run += n;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (s->nnz + i > 0 && row[i] != s->row_last) {
            s->first_run = s->first_run == 0 ? *run : s->first_run;
            s->longest_run = *run > s->longest_run ? *run : s->longest_run;
            *run = 0;
        }
        s->row_last = row[i];
        ++*run;
    }
}

/* Packs nnz records as one partition. */
static void pack_partition(const struct ts_mode_writer *w, const uint64_t *rec, uint32_t nnz,
                           struct slot *s)
{
    const uint32_t words = w->plan.layout.words, order = w->plan.order;
    uint32_t column[TS_MAX_ORDER][TS_BLOCK_NNZ], code[2][TS_BLOCK_NNZ], run = 0;
    const uint32_t *level[TS_MAX_ORDER], *codes[2] = { code[0], code[1] };
    for (uint32_t l = 0; l < order; l++)
        level[l] = column[l];
    s->n_blocks = s->n_words = s->nnz = s->first_run = s->longest_run = 0;
    s->sum_of_squares = 0;
    while (s->nnz < nnz) {
        const uint32_t left = nnz - s->nnz, n = left < TS_BLOCK_NNZ ? left : TS_BLOCK_NNZ;
        const uint64_t *first = rec + (size_t)s->nnz * words;
        unpack_columns(w, first, n, column, code);
        if (s->nnz == 0)
            s->row_first = column[0][0];
        count_runs(s, column[0], n, &run);
        s->block_at[s->n_blocks] = s->n_words;
        s->block_row[s->n_blocks++] = column[0][0];
        s->n_words += ts_block_encode(order, n, level, w->n_codes, codes, s->word + s->n_words);
        if (w->plan.want_norm)
            s->sum_of_squares += sum_squares(w, first, n);
        s->nnz += n;
    }
    s->last_run = run;
    s->first_run = s->first_run == 0 ? run : s->first_run;
    s->longest_run = run > s->longest_run ? run : s->longest_run;
}

/* ------------------------------------------------------------------ the writing thread */

static int write_all(int fd, const char *p, size_t bytes, uint64_t at)
{
    while (bytes > 0) {
        const ssize_t n = pwrite(fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
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

/* Tables in front of the blocks; returns the raw bytes, which have room for padding behind. */
static char *close_tables(const struct ts_mode_writer *w, struct buffer *b)
{
    uint32_t *raw = b->word + w->front_words - (2 * (size_t)b->n_blocks + 1);
    const uint32_t head = 2 * b->n_blocks + 1;
    for (uint32_t k = 0; k < b->n_blocks; k++) {
        raw[k] = head + b->block_at[k];
        raw[b->n_blocks + 1 + k] = b->block_row[k] - b->entry.row_first;
    }
    raw[b->n_blocks] = head + b->body_words;
    b->entry.n_blocks = b->n_blocks;
    b->entry.raw_bytes = b->entry.stored_bytes = 4 * (head + b->body_words);
    return (char *)raw;
}

static int write_shard(struct ts_mode_writer *w, struct buffer *b, struct ts_err *err)
{
    struct ts_disk_shard *e = &b->entry;
    char *stored = close_tables(w, b);
    size_t padded;
    if (w->lz4 != NULL) {
        /* only a saving of a tenth is worth the time of undoing it */
        const int room = (int)(e->raw_bytes / 10 * 9);
        const int n = LZ4_compress_default(stored, w->lz4, (int)e->raw_bytes, room);
        if (n > 0) {
            stored = w->lz4;
            e->stored_bytes = (uint32_t)n;
            e->flags = TS_SHARD_LZ4;
        }
    }
    padded = ((size_t)e->stored_bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
    memset(stored + e->stored_bytes, 0, padded - e->stored_bytes);
    e->offset = w->file_bytes;
    e->hash = XXH3_64bits(stored, padded);
    if (write_all(w->fd, stored, padded, e->offset) < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot write", w->plan.path);
    /* starts the disk now, so that the fsync at the end finds little to do */
    sync_file_range(w->fd, (off_t)e->offset, (off_t)padded, SYNC_FILE_RANGE_WRITE);
    w->file_bytes += padded;
    if (w->n_written == w->shard_room) {
        const uint64_t room = 2 * w->shard_room + 64;
        struct ts_disk_shard *more = realloc(w->shard, room * sizeof *more);
        if (more == NULL)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory for the table of shards",
                           w->plan.path);
        w->shard = more;
        w->shard_room = room;
    }
    w->shard[w->n_written] = *e;
    return 0;
}

static void *writing(void *arg)
{
    struct ts_mode_writer *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        int rc;
        while (w->n_written == w->n_closed && !w->stop)
            pthread_cond_wait(&w->moved, &w->lock);
        if (w->n_written == w->n_closed)
            break;
        pthread_mutex_unlock(&w->lock);
        rc = w->failed ? 0 : write_shard(w, &w->buffer[w->n_written % N_BUFFERS], &w->err);
        pthread_mutex_lock(&w->lock);
        w->failed |= rc < 0;
        w->n_written++;
        pthread_cond_broadcast(&w->moved);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ------------------------------------------------------------------ joining */

static void start_shard(struct ts_mode_writer *w)
{
    struct buffer *b = &w->buffer[w->filling];
    b->n_blocks = b->body_words = 0;
    memset(&b->entry, 0, sizeof b->entry);
}

/* Hands the filled buffer to the writing thread and waits for an empty one. */
static int close_shard(struct ts_mode_writer *w, struct ts_err *err)
{
    int failed;
    pthread_mutex_lock(&w->lock);
    w->n_closed++;
    pthread_cond_broadcast(&w->moved);
    while (w->n_closed - w->n_written >= N_BUFFERS)
        pthread_cond_wait(&w->moved, &w->lock);
    failed = w->failed;
    pthread_mutex_unlock(&w->lock);
    if (failed) {
        if (err != NULL)
            *err = w->err;
        return w->err.code;
    }
    w->filling = (uint32_t)(w->n_closed % N_BUFFERS);
    start_shard(w);
    return 0;
}

static void follow_slices(struct ts_mode_writer *w, const struct slot *s)
{
    if (s->row_first == w->run_row)
        w->run += s->first_run;
    else
        w->run = s->first_run;
    w->largest = w->run > w->largest ? w->run : w->largest;
    w->largest = s->longest_run > w->largest ? s->longest_run : w->largest;
    if (s->row_last != s->row_first)
        w->run = s->last_run;
    w->run_row = s->row_last;
    w->sum_of_squares += s->sum_of_squares;
}

static int join_partition(struct ts_mode_writer *w, const struct slot *s, struct ts_err *err)
{
    struct buffer *b = &w->buffer[w->filling];
    const uint64_t words = 2 * ((uint64_t)b->n_blocks + s->n_blocks) + 1 + b->body_words + s->n_words;
    if (b->n_blocks > 0 && 4 * words > w->plan.shard_bytes) {
        const int rc = close_shard(w, err);
        if (rc < 0)
            return rc;
        b = &w->buffer[w->filling];
    }
    if (b->n_blocks == 0)
        b->entry.row_first = s->row_first;
    assert(b->n_blocks + s->n_blocks <= w->max_blocks);
    for (uint32_t k = 0; k < s->n_blocks; k++) {
        b->block_at[b->n_blocks + k] = b->body_words + s->block_at[k];
        b->block_row[b->n_blocks + k] = s->block_row[k];
    }
    memcpy(b->word + w->front_words + b->body_words, s->word, 4 * (size_t)s->n_words);
    b->n_blocks += s->n_blocks;
    b->body_words += s->n_words;
    b->entry.nnz += s->nnz;
    b->entry.row_last = s->row_last;
    follow_slices(w, s);
    return 0;
}

/* Waits until `turn` partitions of this call are joined, joins one more and lets the next go. Asleep,
 * not spinning as OpenMP's `ordered` does: whoever has the turn may wait for the disk. */
static void join_in_turn(struct ts_mode_writer *w, const struct slot *s, uint64_t turn, int *rc,
                         struct ts_err *err)
{
    pthread_mutex_lock(&w->turn_lock);
    while (w->turn != turn)
        pthread_cond_wait(&w->turn_moved, &w->turn_lock);
    pthread_mutex_unlock(&w->turn_lock);
    if (*rc == 0)
        *rc = join_partition(w, s, err);
    pthread_mutex_lock(&w->turn_lock);
    w->turn++;
    pthread_cond_broadcast(&w->turn_moved);
    pthread_mutex_unlock(&w->turn_lock);
}

/* Packs whole partitions (and a last one of `rest` records). A thread joins what it packed when its
 * turn has come: in file order, without a barrier between. */
static int add_partitions(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n_partitions,
                          uint32_t rest, struct ts_err *err)
{
    const uint64_t stride = (uint64_t)TS_PARTITION_NNZ * w->plan.layout.words;
    const uint64_t all = n_partitions + (rest > 0);
    int rc = 0;
    w->turn = 0;
#pragma omp parallel for num_threads(w->plan.threads) schedule(monotonic : dynamic, 1) if (all > 1)
    for (uint64_t k = 0; k < all; k++) {
        struct slot *s = &w->slot[omp_get_thread_num()];
        pack_partition(w, rec + k * stride, k < n_partitions ? TS_PARTITION_NNZ : rest, s);
        join_in_turn(w, s, k, &rc, err);
    }
    return rc;
}

int ts_mode_writer_add(struct ts_mode_writer *w, const uint64_t *rec, uint64_t n,
                       struct ts_err *err)
{
    const uint32_t words = w->plan.layout.words;
    int rc = 0;
    if (w->n_carry > 0) {
        const uint64_t lack = TS_PARTITION_NNZ - w->n_carry, take = n < lack ? n : lack;
        memcpy(w->carry + (size_t)w->n_carry * words, rec, take * words * sizeof *rec);
        w->n_carry += (uint32_t)take;
        rec += take * words;
        n -= take;
        if (w->n_carry < TS_PARTITION_NNZ)
            return 0;
        w->n_carry = 0;
        rc = add_partitions(w, w->carry, 1, 0, err);
    }
    if (rc == 0)
        rc = add_partitions(w, rec, n / TS_PARTITION_NNZ, 0, err);
    if (rc < 0)
        return rc;
    w->n_carry = (uint32_t)(n % TS_PARTITION_NNZ);
    memcpy(w->carry, rec + n / TS_PARTITION_NNZ * TS_PARTITION_NNZ * words,
           (size_t)w->n_carry * words * sizeof *rec);
    return 0;
}

/* ------------------------------------------------------------------ making and ending */

static int new_buffers(struct ts_mode_writer *w)
{
    const struct ts_mode_writer_plan *p = &w->plan;
    const size_t body = (p->shard_bytes > 4 * PARTITION_WORDS ? p->shard_bytes
                                                              : 4 * PARTITION_WORDS) + TS_PAGE;
    w->max_blocks = (uint32_t)(p->shard_bytes / MIN_BLOCK_BYTES) + TS_PARTITION_BLOCKS;
    w->front_words = 2 * (size_t)w->max_blocks + 1;
    w->buffer_words = w->front_words + body / 4;
    for (uint32_t k = 0; k < N_BUFFERS; k++) {
        struct buffer *b = &w->buffer[k];
        b->word = malloc(4 * w->buffer_words);
        b->block_at = malloc(4 * (size_t)w->max_blocks);
        b->block_row = malloc(4 * (size_t)w->max_blocks);
        if (b->word == NULL || b->block_at == NULL || b->block_row == NULL)
            return -1;
    }
    for (uint32_t k = 0; k < w->n_slots; k++) {
        w->slot[k].word = malloc(4 * PARTITION_WORDS);
        if (w->slot[k].word == NULL)
            return -1;
    }
    if (p->code->kind == TS_VALUE_F32 || p->code->kind == TS_VALUE_F64) {
        w->lz4_room = (int)(4 * w->buffer_words);
        w->lz4 = malloc((size_t)w->lz4_room + TS_PAGE);
        if (w->lz4 == NULL)
            return -1;
    }
    return 0;
}

int ts_mode_writer_new(const struct ts_mode_writer_plan *plan, struct ts_mode_writer **ret,
                       struct ts_err *err)
{
    struct ts_mode_writer *w = calloc(1, sizeof *w);
    int rc = 0;
    if (w == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", plan->path);
    w->plan = *plan;
    w->n_codes = ts_value_codes(plan->code->kind);
    w->fd = -1;
    w->run_row = UINT32_MAX;
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->turn_lock, NULL);
    pthread_cond_init(&w->turn_moved, NULL);
    pthread_cond_init(&w->moved, NULL);
    w->n_slots = plan->threads;
    w->slot = calloc(w->n_slots, sizeof *w->slot);
    w->carry = malloc((size_t)TS_PARTITION_NNZ * plan->layout.words * sizeof *w->carry);
    if (w->slot == NULL || w->carry == NULL || new_buffers(w) < 0) {
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", plan->path);
        goto fail;
    }
    w->fd = open(plan->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot create", plan->path);
        goto fail;
    }
    start_shard(w);
    errno = pthread_create(&w->thread, NULL, writing, w);
    if (errno != 0) {
        rc = ts_fail_errno(err, TS_ENOMEM, "%s: cannot start a thread", plan->path);
        goto fail;
    }
    w->thread_made = 1;
    *ret = w;
    return 0;
fail:
    ts_mode_writer_free(w);
    return rc;
}

static void join_thread(struct ts_mode_writer *w)
{
    if (!w->thread_made)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = 1;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    w->thread_made = 0;
}

void ts_mode_writer_free(struct ts_mode_writer *w)
{
    if (w == NULL)
        return;
    join_thread(w);
    for (uint32_t k = 0; k < N_BUFFERS; k++) {
        free(w->buffer[k].word);
        free(w->buffer[k].block_at);
        free(w->buffer[k].block_row);
    }
    for (uint32_t k = 0; w->slot != NULL && k < w->n_slots; k++)
        free(w->slot[k].word);
    if (w->fd >= 0)
        close(w->fd);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->turn_lock);
    pthread_cond_destroy(&w->turn_moved);
    pthread_cond_destroy(&w->moved);
    free(w->slot);
    free(w->carry);
    free(w->lz4);
    free(w->shard);
    free(w);
}

int ts_mode_writer_finish(struct ts_mode_writer *w, struct ts_mode_written *ret,
                          struct ts_err *err)
{
    int rc = w->n_carry > 0 ? add_partitions(w, w->carry, 0, w->n_carry, err) : 0;
    if (rc == 0 && w->buffer[w->filling].n_blocks > 0)
        rc = close_shard(w, err);
    join_thread(w);
    if (rc == 0 && w->failed) {
        rc = w->err.code;
        if (err != NULL)
            *err = w->err;
    }
    if (rc < 0)
        return rc;
    memset(ret, 0, sizeof *ret);
    ret->shard = w->shard;
    w->shard = NULL;
    ret->n_shards = w->n_written;
    ret->file_bytes = w->file_bytes;
    ret->largest_slice = w->largest;
    ret->sum_of_squares = w->sum_of_squares;
    for (uint64_t s = 0; s < ret->n_shards; s++)
        if (ret->shard[s].raw_bytes > ret->max_raw_bytes)
            ret->max_raw_bytes = ret->shard[s].raw_bytes;
    return 0;
}
