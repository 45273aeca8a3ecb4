/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathers the sizes of all packed partitions on all ranks. From these sizes each rank finds which
 * shards there are, and writes the shards that begin with one of its partitions. */
#include "build/ranks/partition_deal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/tempfile.h"
#include "build/ranks/shards_file.h"

/* The sizes of a packed partition, which all ranks know. */
struct entry {
    uint32_t n_blocks, n_words, row_first, row_last;
    uint32_t first_row_nnz, last_row_nnz, largest_row_nnz;
    double sum_of_squares;
};

/* Where a packed partition of this rank is stored. */
struct place {
    struct ts_packed_partition *mem; /* address in memory; NULL: in the temporary file */
    uint64_t at;                     /* first byte in the temporary file */
};

struct ts_partition_deal {
    struct ts_partition_deal_plan plan;
    pthread_mutex_t lock;
    /* spare memory for packed partitions of this rank; protected by the lock */
    char *mem;
    uint64_t mem_bytes, mem_room; /* bytes in use, and bytes in total */
    int fd;                       /* temporary file for the partitions that do not fit in `mem` */
    uint64_t file_bytes;
    struct place *place; /* where each partition of this rank is stored */
    struct entry *own, *all;
    uint64_t n_own, own_room;

    /* for each rank, the number of partitions before its first; n + 1 entries */
    uint64_t *rank_first;
    /* for each shard, the number of partitions before its first; n_shards + 1 entries */
    uint64_t *shard_first, n_shards;
    uint64_t begin, end; /* this rank writes shards begin .. end - 1 */
    /* partitions of higher ranks that this rank received, to complete its last shard */
    char *lent;
    /* number of partitions in `lent`; byte offset there of the next one to be written */
    uint64_t n_lent, lent_at;

    /* the thread that writes the shards of this rank, and its results */
    int out; /* file descriptor of the file of shards, which all ranks write; -1: not open */
    pthread_t thread;
    int has_thread, rc;
    struct ts_err err;
    struct ts_disk_shard *shard;
    struct ts_cell_sum cells; /* sum over the cells of the shards that this rank has written */
};

int ts_partition_deal_new(const struct ts_partition_deal_plan *plan, struct ts_partition_deal **ret,
                          struct ts_err *err)
{
    struct ts_partition_deal *d = calloc(1, sizeof *d);
    int rc;
    if (d == NULL)
        return ts_no_memory(err, plan->writer.path);
    d->plan = *plan;
    d->out = -1;
    rc = ts_tempfile_new(plan->tmp, &d->fd, err);
    if (rc < 0) {
        free(d);
        return rc;
    }
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

void ts_partition_deal_free(struct ts_partition_deal *d)
{
    if (d == NULL)
        return;
    ts_partition_deal_wait(d);
    ts_fd_close(d->out);
    free(d->shard);
    close(d->fd);
    pthread_mutex_destroy(&d->lock);
    free(d->place);
    free(d->own);
    free(d->all);
    free(d->rank_first);
    free(d->shard_first);
    free(d->lent);
    free(d);
}

/* Returns the bytes of a partition in memory and in messages, a multiple of 8 so that the next one
 * is aligned. */
static uint64_t bytes_of(uint32_t n_words)
{
    return sizeof(struct ts_packed_partition) + 4 * (n_words + (uint64_t)n_words % 2);
}

struct ts_packed_partition *ts_partition_deal_room(struct ts_partition_deal *d, uint32_t n_words)
{
    struct ts_packed_partition *p = NULL;
    pthread_mutex_lock(&d->lock);
    if (d->mem == NULL && d->plan.spare != NULL) {
        d->mem = d->plan.spare->mem;
        d->mem_room = d->plan.spare->bytes;
    }
    if (bytes_of(n_words) <= d->mem_room - d->mem_bytes) {
        p = (struct ts_packed_partition *)(void *)(d->mem + d->mem_bytes);
        d->mem_bytes += bytes_of(n_words);
        p->room = 0;
    }
    pthread_mutex_unlock(&d->lock);
    return p;
}

/* Stores a packed partition, and sets *place to where it is. A partition that is not in spare
 * memory is appended to the temporary file. */
static int keep(struct ts_partition_deal *d, struct ts_packed_partition *p, struct place *place,
                struct ts_err *err)
{
    const uint64_t bytes = sizeof *p + 4 * (uint64_t)p->n_words;
    int rc;
    *place = (struct place){ .mem = p->room == 0 ? p : NULL, .at = d->file_bytes };
    if (place->mem != NULL)
        return 0;
    rc = ts_tempfile_write(d->fd, d->plan.tmp, p, bytes, d->file_bytes, err);
    d->file_bytes += rc == 0 ? bytes : 0;
    return rc;
}

/* Copies partition k of this rank to `to`, which must be large enough. */
static int read_kept(const struct ts_partition_deal *d, uint64_t k, void *to, struct ts_err *err)
{
    const struct place *place = &d->place[k];
    const uint64_t bytes = sizeof *place->mem + 4 * (uint64_t)d->own[k].n_words;
    if (place->mem == NULL)
        return ts_tempfile_read(d->fd, d->plan.tmp, to, bytes, place->at, err);
    memcpy(to, place->mem, bytes);
    return 0;
}

static int more_room(struct ts_partition_deal *d, struct ts_err *err)
{
    const uint64_t room = 2 * d->own_room + 64;
    struct entry *own = realloc(d->own, room * sizeof *own);
    struct place *place = own == NULL ? NULL : realloc(d->place, room * sizeof *place);
    d->own = own == NULL ? d->own : own;
    if (place == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", d->plan.writer.path);
    d->place = place;
    d->own_room = room;
    return 0;
}

int ts_partition_deal_add(struct ts_partition_deal *d, struct ts_packed_partition *p,
                          struct ts_err *err)
{
    int rc = d->n_own == d->own_room ? more_room(d, err) : 0;
    if (rc == 0)
        rc = keep(d, p, &d->place[d->n_own], err);
    if (rc < 0)
        return rc;
    memset(&d->own[d->n_own], 0, sizeof *d->own);
    d->own[d->n_own++] = (struct entry){ .n_blocks = p->n_blocks,
                                         .n_words = p->n_words,
                                         .row_first = p->row_first,
                                         .row_last = p->row_last,
                                         .first_row_nnz = p->first_row_nnz,
                                         .last_row_nnz = p->last_row_nnz,
                                         .largest_row_nnz = p->largest_row_nnz,
                                         .sum_of_squares = p->sum_of_squares };
    return 0;
}

/* ------------------------------------------------------------------ the table of partitions */

/* Gathers the sizes of the partitions of all ranks in d->all. */
static int gather(struct ts_partition_deal *d, int rc, struct ts_err *err)
{
    struct ts_comm *c = d->plan.ranks->comm;
    uint64_t *n = NULL, *first = NULL;
    rc = ts_build_comm_numbers(d->plan.ranks, rc, &d->n_own, 1, &n, err);
    if (rc == 0) {
        d->rank_first = ts_build_comm_places(c, c->n + 1, 0);
        first = ts_build_comm_places(c, c->n + 1, 0);
    }
    if (d->rank_first != NULL && first != NULL) {
        for (uint32_t r = 0; r < c->n; r++) {
            d->rank_first[r + 1] = d->rank_first[r] + n[r];
            first[r + 1] = d->rank_first[r + 1] * sizeof *d->all;
        }
        d->all = calloc(d->rank_first[c->n] + 1, sizeof *d->all);
        d->shard_first = malloc((d->rank_first[c->n] + 1) * sizeof *d->shard_first);
    }
    if (rc == 0 && (d->all == NULL || d->shard_first == NULL))
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for the table of partitions",
                     d->plan.writer.path);
    rc = ts_build_comm_agree(d->plan.ranks, rc, err);
    if (rc == 0 && d->n_own > 0)
        memcpy(d->all + d->rank_first[c->rank], d->own, d->n_own * sizeof *d->own);
    if (rc == 0)
        rc = ts_build_comm_gather(d->plan.ranks, d->all, first, err);
    free(n);
    free(first);
    return rc;
}

/* Divides the partitions of all ranks into shards, as mode_writer.c does with one process. Then
 * finds the shards that begin with a partition of this rank. */
static void cut_shards(struct ts_partition_deal *d)
{
    const struct ts_comm *c = d->plan.ranks->comm;
    uint64_t blocks = 0, words = 0;
    for (uint64_t k = 0; k < d->rank_first[c->n]; k++) {
        const struct entry *e = &d->all[k];
        if (k == 0 ||
            !ts_shard_draft_joins(blocks, words, e->n_blocks, e->n_words, d->plan.shard_bytes)) {
            d->shard_first[d->n_shards++] = k;
            blocks = words = 0;
        }
        blocks += e->n_blocks;
        words += e->n_words;
    }
    d->shard_first[d->n_shards] = d->rank_first[c->n];
    while (d->begin < d->n_shards && d->shard_first[d->begin] < d->rank_first[c->rank])
        d->begin++;
    d->end = d->begin;
    while (d->end < d->n_shards && d->shard_first[d->end] < d->rank_first[c->rank + 1])
        d->end++;
}

/* Computes the nonzeros of the largest slice, and the sum of squares of the values, which is added
 * up in the same order as with one process. */
static void add_up(const struct ts_partition_deal *d, struct ts_mode_written *ret)
{
    struct ts_slice_count count = { .row = UINT32_MAX };
    for (uint64_t k = 0; k < d->shard_first[d->n_shards]; k++) {
        const struct entry *e = &d->all[k];
        const struct ts_packed_partition s = { .row_first = e->row_first,
                                               .row_last = e->row_last,
                                               .first_row_nnz = e->first_row_nnz,
                                               .last_row_nnz = e->last_row_nnz,
                                               .largest_row_nnz = e->largest_row_nnz,
                                               .sum_of_squares = e->sum_of_squares };
        ts_slice_count_follow(&count, &s);
    }
    ret->largest_slice = count.largest;
    ret->sum_of_squares = count.sum_of_squares;
}

/* ------------------------------------------------------------------ partitions sent to ranks */

/* Returns the bytes that partitions first .. end - 1 take in messages to other ranks. */
static uint64_t sum_bytes(const struct ts_partition_deal *d, uint64_t first, uint64_t end)
{
    uint64_t sum = 0;
    for (uint64_t k = first; k < end; k++)
        sum += bytes_of(d->all[k].n_words);
    return sum;
}

/* Returns the first partition of rank r. The partitions from it to *end - 1 belong to a shard that
 * begins on a lower rank, *to, which writes that shard. If *end is the first partition, rank r has
 * no such partitions. */
static uint64_t borrowed(const struct ts_partition_deal *d, uint32_t r, uint64_t *end, uint32_t *to)
{
    const uint64_t first = d->rank_first[r];
    uint64_t s = 0, high = d->n_shards;
    *end = first;
    while (s < high) { /* finds the first shard that begins at or after `first` */
        const uint64_t mid = (s + high) / 2;
        if (d->shard_first[mid] < first)
            s = mid + 1;
        else
            high = mid;
    }
    if (d->rank_first[r + 1] == first || s == 0 || d->shard_first[s] == first)
        return first;
    *end = d->shard_first[s] < d->rank_first[r + 1] ? d->shard_first[s] : d->rank_first[r + 1];
    *to = 0;
    while (d->rank_first[*to + 1] <= d->shard_first[s - 1])
        ++*to;
    return first;
}

static int lend(struct ts_partition_deal *d, struct ts_err *err)
{
    struct ts_comm *c = d->plan.ranks->comm;
    uint64_t *send_first = ts_build_comm_places(c, c->n + 1, 0);
    uint64_t *got_first = ts_build_comm_places(c, c->n + 1, 0), bytes = 0;
    char *send = NULL;
    int rc = 0;
    if (send_first == NULL || got_first == NULL)
        rc = ts_build_comm_no_memory(err);
    for (uint32_t r = 0; r < c->n && rc == 0; r++) {
        uint64_t end;
        uint32_t to = 0;
        const uint64_t first = borrowed(d, r, &end, &to), n = sum_bytes(d, first, end);
        const int comes = to == c->rank && end > first;
        got_first[r + 1] = got_first[r] + (comes ? n : 0);
        d->n_lent += comes ? end - first : 0;
        if (r == c->rank) {
            bytes = n;
            for (uint32_t q = 0; q < c->n; q++)
                send_first[q + 1] = q >= to ? n : 0;
        }
    }
    if (rc == 0) {
        send = malloc(bytes + 1);
        d->lent = malloc(got_first[c->n] + 1);
        if (send == NULL || d->lent == NULL)
            rc = ts_build_comm_no_memory(err);
    }
    /* this rank sends its first partitions */
    for (uint64_t k = 0, at = 0; at < bytes && rc == 0; k++) {
        rc = read_kept(d, k, send + at, err);
        at += bytes_of(d->own[k].n_words);
    }
    rc = ts_build_comm_agree(d->plan.ranks, rc, err);
    if (rc == 0)
        rc = ts_build_comm_deal(d->plan.ranks, send, send_first, d->lent, got_first, err);
    free(send);
    free(send_first);
    free(got_first);
    return rc;
}

/* ------------------------------------------------------------------ writing this rank's shards */

/* Sets *ret to partition k, which is in a shard that this rank writes: to its address in memory, or
 * to a copy read from the temporary file. */
static int read_partition(struct ts_partition_deal *d, uint64_t k, struct ts_packed_partition **ret,
                          struct ts_err *err)
{
    const struct ts_comm *c = d->plan.ranks->comm;
    const uint64_t own = k - d->rank_first[c->rank];
    struct ts_packed_partition *p;
    uint32_t room;
    int rc;
    if (k >= d->rank_first[c->rank + 1]) {
        p = (struct ts_packed_partition *)(void *)(d->lent + d->lent_at);
        p->room = 0;
        d->lent_at += bytes_of(d->all[k].n_words);
        *ret = p;
        return 0;
    }
    if (d->place[own].mem != NULL) {
        *ret = d->place[own].mem;
        return 0;
    }
    p = ts_partition_pool_get(d->plan.writer.pool, d->own[own].n_words);
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for packing", d->plan.writer.path);
    room = p->room;
    rc = read_kept(d, own, p, err);
    p->room = room;
    if (rc == 0)
        *ret = p;
    else
        ts_partition_pool_put(d->plan.writer.pool, p);
    return rc;
}

static int write_shards(struct ts_partition_deal *d, struct ts_shard_writer *w, struct ts_err *err)
{
    struct ts_shard_draft draft = { 0 };
    int rc = 0;
    for (uint64_t s = d->begin; s < d->end && rc == 0; s++) {
        for (uint64_t k = d->shard_first[s]; k < d->shard_first[s + 1] && rc == 0; k++) {
            struct ts_packed_partition *p = NULL;
            rc = ts_shard_writer_make_room(w, err);
            if (rc == 0)
                rc = read_partition(d, k, &p, err);
            if (rc == 0)
                ts_shard_draft_add(&draft, p);
        }
        if (rc == 0)
            rc = ts_shard_writer_put(w, &draft, err);
    }
    ts_shard_draft_drop(&draft, d->plan.writer.pool);
    return rc;
}

/* Returns the offset of shard `end` in the file of shards, if shards are not compressed. */
static uint64_t plain_offset(const struct ts_partition_deal *d, uint64_t end)
{
    uint64_t sum = 0;
    for (uint64_t s = 0; s < end; s++) {
        uint64_t words = 0;
        for (uint64_t k = d->shard_first[s]; k < d->shard_first[s + 1]; k++)
            words += 2 * (uint64_t)d->all[k].n_blocks + d->all[k].n_words;
        sum += (4 * (words + 1) + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
    }
    return sum;
}

/* Writes the shards of this rank to the file `to` from byte `at` on. `to` is the shared file, or a
 * temporary file if the offset in the shared file is not known yet. Sets *shard to the table of
 * these shards, and *bytes to their size. */
static int write_own(struct ts_partition_deal *d, int to, uint64_t at, struct ts_disk_shard **shard,
                     uint64_t *bytes, struct ts_err *err)
{
    struct ts_shard_writer_plan plan = d->plan.writer;
    struct ts_shard_writer *w = NULL;
    uint64_t n = 0;
    int rc;
    /* these threads mostly wait for the disk, so they take little time from packing the next
     * mode */
    plan.threads = plan.n_buffers;
    plan.has_file = 1;
    plan.file = to;
    plan.at = at;
    rc = ts_shard_writer_new(&plan, &w, err);
    if (rc == 0)
        rc = write_shards(d, w, err);
    if (rc == 0)
        rc = ts_shard_writer_finish(w, shard, &n, bytes, &d->cells, err);
    ts_shard_writer_free(w);
    /* frees this memory now, not with d, because packing of the next mode needs it */
    ts_partition_pool_trim(d->plan.writer.pool);
    free(d->lent);
    d->lent = NULL;
    *bytes -= rc == 0 ? at : 0;
    return rc;
}

/* Flushes and closes the file of shards. Each rank flushes what it has written, because a rank on
 * another machine cannot do that. */
static int end_file(struct ts_partition_deal *d, int rc, struct ts_err *err)
{
    if (rc == 0 && fsync(d->out) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be flushed to the disk", d->plan.writer.path);
    if (d->out >= 0 && close(d->out) != 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", d->plan.writer.path);
    d->out = -1;
    return rc;
}

/* Thread function: writes shards that are not compressed to the shared file. Their offsets follow
 * from the sizes of the partitions. */
static void *write_plain(void *arg)
{
    struct ts_partition_deal *d = arg;
    uint64_t bytes = 0;
    d->rc = write_own(d, d->out, plain_offset(d, d->begin), &d->shard, &bytes, &d->err);
    d->rc = end_file(d, d->rc, &d->err);
    return NULL;
}

/* Compresses the shards of this rank into a temporary file. When all ranks know the compressed
 * sizes, each rank copies its shards to the shared file. */
static int write_packed(struct ts_partition_deal *d, int rc, struct ts_err *err)
{
    struct ts_build_comm *ranks = d->plan.ranks;
    uint64_t bytes = 0, at = 0, *all = NULL;
    int tmp = -1;
    if (rc == 0)
        rc = ts_tempfile_new(d->plan.tmp, &tmp, err);
    if (rc == 0)
        rc = write_own(d, tmp, 0, &d->shard, &bytes, err);
    rc = ts_build_comm_numbers(ranks, rc, &bytes, 1, &all, err);
    for (uint32_t r = 0; r < ranks->comm->rank && rc == 0; r++)
        at += all[r];
    free(all);
    for (uint64_t s = d->begin; s < d->end && rc == 0; s++)
        d->shard[s - d->begin].offset += at;
    if (rc == 0)
        rc = ts_shards_file_copy(&d->plan, tmp, d->out, at, bytes, err);
    ts_fd_close(tmp);
    return end_file(d, rc, err);
}

/* Writes the shards of this rank, in a thread if the memory of the partitions stays available. The
 * result is in d->rc and d->err. */
static void write_file(struct ts_partition_deal *d)
{
    const int stays = d->plan.spare != NULL && d->plan.spare->stays && d->file_bytes == 0;
    d->rc = ts_shards_file_open(
        &d->plan, d->plan.writer.compress ? 0 : plain_offset(d, d->n_shards), &d->out, &d->err);
    if (d->plan.writer.compress) {
        d->rc = write_packed(d, d->rc, &d->err);
        return;
    }
    if (d->rc < 0)
        return;
    d->has_thread = stays && pthread_create(&d->thread, NULL, write_plain, d) == 0;
    if (!d->has_thread) /* otherwise the thread writes and closes the file */
        write_plain(d);
}

/* Gathers the table of the shards of all ranks on each rank. */
static int gather_table(struct ts_partition_deal *d, int rc, const struct ts_disk_shard *own,
                        struct ts_mode_written *ret, struct ts_err *err)
{
    struct ts_comm *c = d->plan.ranks->comm;
    uint64_t *first = ts_build_comm_places(c, c->n + 1, 0);
    ret->shard = calloc(d->n_shards + 1, sizeof *ret->shard);
    if (rc == 0 && (first == NULL || ret->shard == NULL))
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for the table of shards",
                     d->plan.writer.path);
    rc = ts_build_comm_agree(d->plan.ranks, rc, err);
    for (uint32_t r = 0; r < c->n && rc == 0; r++) {
        uint64_t s = first[r] / sizeof *own;
        while (s < d->n_shards && d->shard_first[s] < d->rank_first[r + 1])
            s++;
        first[r + 1] = s * sizeof *own;
    }
    if (rc == 0 && d->begin < d->end)
        memcpy(ret->shard + d->begin, own, (d->end - d->begin) * sizeof *own);
    if (rc == 0)
        rc = ts_build_comm_gather(d->plan.ranks, ret->shard, first, err);
    free(first);
    if (rc < 0) {
        free(ret->shard);
        ret->shard = NULL;
    }
    return rc;
}

int ts_partition_deal_begin(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                            struct ts_err *err)
{
    memset(ret, 0, sizeof *ret);
    rc = gather(d, rc, err);
    if (rc < 0)
        return rc;
    cut_shards(d);
    add_up(d, ret);
    rc = lend(d, err);
    if (rc == 0)
        write_file(d);
    return rc;
}

void ts_partition_deal_wait(struct ts_partition_deal *d)
{
    if (d->has_thread)
        pthread_join(d->thread, NULL);
    d->has_thread = 0;
}

int ts_partition_deal_end(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                          struct ts_err *err)
{
    ts_partition_deal_wait(d);
    if (rc == 0 && d->rc < 0) {
        *err = d->err;
        rc = d->rc;
    }
    rc = gather_table(d, rc, d->shard, ret, err);
    if (rc < 0)
        return rc;
    ret->n_shards = d->n_shards;
    ret->cells = d->cells;
    ret->file_bytes = ret->max_raw_bytes = 0;
    for (uint64_t s = 0; s < d->n_shards; s++) {
        const struct ts_disk_shard *e = &ret->shard[s];
        if (e->raw_bytes > ret->max_raw_bytes)
            ret->max_raw_bytes = e->raw_bytes;
        ret->file_bytes = e->offset + (e->stored_bytes + (uint64_t)TS_PAGE - 1) / TS_PAGE * TS_PAGE;
    }
    return 0;
}
