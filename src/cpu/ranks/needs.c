/* SPDX-License-Identifier: BSD-3-Clause */
/* Records which factor rows the nonzeros of this rank (process) need, tells the ranks that update
 * these rows, and packs rows for each rank. */
#include "cpu/ranks/needs.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "cpu/extent.h"

#define WORD 64u
/* cost of packing a byte with one thread, relative to sending it */
#define THREAD_PACKS (10.0 / 6)
/* least cost of packing a byte with any number of threads, relative to sending it */
#define LEAST_PACKS 0.25
/* rows that a rank may update beyond those that it has, because one rank updates a whole group of
 * rows */
#define SHIFTED_ROWS 512u
/* most bytes of packed rows that are sent to one rank at a time */
#define STAGE_BYTES (UINT64_C(1) << 20)
/* most bytes of packed rows that are sent to all ranks at a time */
#define STAGES_MOST (UINT64_C(64) << 20)
#define FEW_ROWS    512u /* one thread packs up to this many rows */
#define AHEAD       16u  /* a row is prefetched this many rows before its use */

/* where rows of a mode are sent; OPEN: not decided until all mode copies were read */
enum state { OPEN, TO_ALL, TO_NEEDING };

/* Figures of one rank for a mode: rows that it receives, most rows that it sends to one rank, and
 * its cost by the rule of needs.h. */
struct count {
    uint64_t got, most;
    double cost;
};

/* The lists of a mode: which rows go to which ranks. */
struct lists {
    enum state state;
    uint64_t n_rows, n_words;
    /* a bit for each row: nonzeros of this rank need it; later: this rank receives it */
    _Atomic uint64_t *bit;
    atomic_uint_fast64_t n_marked;
    /* with more rows marked as needed, sending rows only to the ranks that need them cannot be
     * cheaper */
    double most_marked;
    /* n + 1 numbers: rank r has the rows whose bits are in words first[r] .. first[r + 1] - 1 */
    uint64_t *first;
    /* n x own words: for each rank r, bits of this rank's rows that are sent to r */
    uint64_t *send;
    uint64_t rounds, bytes; /* number of transfers; bytes that all ranks together receive */
};

struct ts_needs {
    struct ts_needs_conf conf;
    uint32_t n, me, order, walked;
    struct ts_unpack_conf values;
    struct lists mode[TS_MAX_ORDER];
    struct count *count; /* figures of each of the n ranks */
    /* n + 1 numbers 0, 1, 2, ...: ranges of one element of `count` for each rank */
    uint64_t *each;

    /* buffers for packed rows, allocated when the first mode needs them */
    void *memory;
    uint64_t memory_bytes, most; /* most: number of packed rows for one rank at a time */
    char *sent, *got;
    uint32_t *row; /* numbers of the rows that are packed or unpacked, one rank after another */
    /* n + 1 numbers each: where the bytes sent to and received from each rank begin; at, in:
     * positions in the lists of rows that are sent to and received from each rank */
    uint64_t *send_first, *got_first, *at, *in;
};

static uint64_t words_of(uint64_t n_rows)
{
    return (n_rows + WORD - 1) / WORD;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- sizes of buffers, and costs ---- */

/* Returns the number of packed rows that are sent to one rank at a time, for a mode of n_rows
 * rows. */
static uint64_t stage_rows(uint64_t n_rows, uint32_t n, uint32_t row_bytes)
{
    const uint64_t most = least(STAGE_BYTES, STAGES_MOST / n) / row_bytes + 1;
    return least(most, n_rows + 1);
}

static uint64_t stage_bytes(uint64_t n_rows, uint32_t n, uint32_t row_bytes)
{
    return n * stage_rows(n_rows, n, row_bytes) * (2 * (uint64_t)row_bytes + sizeof(uint32_t)) +
           4 * (n + UINT64_C(1)) * sizeof(uint64_t) + 4 * sizeof(uint64_t);
}

/* Returns the number of rows in those shards of a mode that the rank reads. */
static uint64_t own_rows(const struct ts_mode *mode, uint32_t n, uint32_t rank)
{
    uint64_t first, end;
    ts_share_shards_of(mode->shard, mode->disk.n_shards, n, rank, &first, &end);
    return first == end ? 0 : mode->shard[end - 1].row_last - mode->shard[first].row_first + 1;
}

uint64_t ts_needs_bytes(const struct ts_tensor *t, const struct ts_comm *comm, uint32_t row_bytes)
{
    uint64_t sum = sizeof(struct ts_needs) + comm->n * (sizeof(struct count) + sizeof(uint64_t)) +
                   ts_bigmem_cost(stage_bytes(ts_most_rows(t, TS_ALL_MODES), comm->n, row_bytes));
    for (uint32_t m = 0; m < t->order; m++)
        sum += (words_of(t->mode[m].disk.n_rows) +
                comm->n * words_of(own_rows(&t->mode[m], comm->n, comm->rank)) + comm->n + 1) *
               sizeof(uint64_t);
    return sum;
}

/* Estimates the number of rows that a rank has, or all ranks that share factors with it. */
static double group_rows(const struct ts_needs *n, uint32_t mode, uint32_t rank)
{
    const struct ts_comm *c = ts_share_comm(n->conf.share);
    const uint64_t *cut = ts_share_cuts(n->conf.share, mode);
    double sum = 0;
    for (uint32_t r = 0; r < n->n; r++)
        if (r == rank || (n->conf.shared && c->machine[r] == c->machine[rank]))
            sum += ts_share_row_at(&n->conf.tensor->mode[mode], cut[r + 1]) -
                   ts_share_row_at(&n->conf.tensor->mode[mode], cut[r]);
    return sum;
}

/* Returns the cost of packing a row, in bytes that could be sent in this time. */
static double packing(const struct ts_needs *n)
{
    return n->conf.stride_bytes * fmax(THREAD_PACKS / n->conf.threads, LEAST_PACKS);
}

/* Returns the most rows that this rank may need for the rule of needs.h to hold: those that it has
 * itself, and so many others that receiving and unpacking them costs as much as receiving all rows.
 * The rank may update SHIFTED_ROWS more rows, because it updates whole groups of rows. */
static double most_marks(const struct ts_needs *n, uint32_t mode)
{
    const double n_rows = (double)n->mode[mode].n_rows;
    double all = 0;
    for (uint32_t r = 0; r < n->n; r++)
        all = fmax(all, n_rows - group_rows(n, mode, r));
    return group_rows(n, mode, n->me) +
           all * n->conf.stride_bytes / (n->conf.row_bytes + packing(n)) + n_rows / 64 +
           SHIFTED_ROWS;
}

int ts_needs_new(const struct ts_needs_conf *conf, struct ts_needs **ret, struct ts_err *err)
{
    struct ts_needs *n = calloc(1, sizeof *n);
    int whole = n != NULL;
    if (whole) {
        n->conf = *conf;
        n->n = ts_share_comm(conf->share)->n;
        n->me = ts_share_comm(conf->share)->rank;
        n->order = conf->tensor->order;
        n->count = calloc(n->n, sizeof *n->count);
        n->each = calloc(n->n + UINT64_C(1), sizeof *n->each);
        whole = n->count != NULL && n->each != NULL;
        for (uint32_t r = 0; r <= n->n && whole; r++)
            n->each[r] = r;
        ts_kernel_values(conf->tensor, TS_FLOAT64, &n->values);
    }
    for (uint32_t m = 0; whole && m < n->order; m++) {
        struct lists *l = &n->mode[m];
        l->n_rows = conf->tensor->mode[m].disk.n_rows;
        l->n_words = words_of(l->n_rows);
        l->bit = calloc(l->n_words + 1, sizeof *l->bit);
        l->first = calloc(n->n + UINT64_C(1), sizeof *l->first);
        whole = l->bit != NULL && l->first != NULL;
        l->most_marked = conf->always ? INFINITY : most_marks(n, m);
    }
    if (!whole) {
        ts_needs_free(n);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    }
    *ret = n;
    return 0;
}

static void drop(struct lists *l)
{
    free((void *)l->bit);
    free(l->send);
    l->bit = NULL;
    l->send = NULL;
}

void ts_needs_free(struct ts_needs *n)
{
    if (n == NULL)
        return;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        drop(&n->mode[m]);
        free(n->mode[m].first);
    }
    if (n->memory != NULL)
        ts_bigmem_free(n->memory, n->memory_bytes);
    free(n->count);
    free(n->each);
    free(n);
}

/* ---- recording needed rows ---- */

/* Whether all rows of the mode go to all ranks, or so many are marked as needed that they will. */
static int is_lost(const struct lists *l)
{
    return l->state == TO_ALL ||
           (double)atomic_load_explicit(&l->n_marked, memory_order_relaxed) > l->most_marked;
}

int ts_needs_walks(const struct ts_needs *n, uint32_t mode)
{
    int wanted = 0;
    for (uint32_t m = 0; m < n->order; m++)
        wanted |= !is_lost(&n->mode[m]);
    return (n->walked >> mode & 1) == 0 && wanted;
}

static uint32_t mark(struct lists *l, uint32_t row)
{
    _Atomic uint64_t *word = &l->bit[row / WORD];
    const uint64_t bit = UINT64_C(1) << row % WORD;
    if ((atomic_load_explicit(word, memory_order_relaxed) & bit) != 0)
        return 0;
    return (atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit) == 0;
}

static void note_marks(struct lists *l, uint32_t n)
{
    if (n > 0)
        atomic_fetch_add_explicit(&l->n_marked, n, memory_order_relaxed);
}

/* Marks the factor rows that a block's nonzeros need, in the modes at all levels but level 0. */
static void mark_block(struct ts_needs *n, const uint8_t *level, const struct ts_unpacked *b)
{
    const uint32_t leaf = n->order - 1;
    for (uint32_t l = 1; l <= leaf; l++) {
        struct lists *of = &n->mode[level[l]];
        const uint32_t n_indices = b->shared && l < leaf ? b->n_fibres : b->n;
        uint32_t marked = 0;
        if (is_lost(of))
            continue;
        for (uint32_t i = 0; i < n_indices; i++)
            marked += mark(of, b->idx[l][i]);
        note_marks(of, marked);
    }
}

/* Marks as needed the rows first .. last of the mode by which the copy is sorted. */
static void mark_rows(struct lists *l, uint32_t first, uint32_t last)
{
    uint32_t marked = 0;
    for (uint32_t row = first; row <= last; row++)
        marked += mark(l, row);
    note_marks(l, marked);
}

void ts_needs_walk(struct ts_needs *n, uint32_t mode, const struct ts_kernel_input *in,
                   struct ts_unpacked *buffer)
{
    const struct ts_disk_shard *s = in->entry;
    const uint8_t *level = n->conf.tensor->mode[mode].disk.level;
    const uint32_t first = in->partition * TS_PARTITION_BLOCKS, left = s->n_blocks - first;
    const uint32_t end = first + (left < TS_PARTITION_BLOCKS ? left : TS_PARTITION_BLOCKS);
    int wanted = 0;
    /* may mark one row too many: the first row of the next partition */
    if (!is_lost(&n->mode[mode]))
        mark_rows(&n->mode[mode], ts_shard_block(s, in->raw, first).row,
                  end < s->n_blocks ? ts_shard_block(s, in->raw, end).row : s->row_last);
    for (uint32_t l = 1; l < n->order; l++)
        wanted |= !is_lost(&n->mode[level[l]]);
    for (uint32_t k = first; k < end && wanted; k++) {
        const struct ts_block_at at = ts_shard_block(s, in->raw, k);
        n->conf.unpack(&n->values, &at, buffer);
        mark_block(n, level, buffer);
    }
}

void ts_needs_walked(struct ts_needs *n, uint32_t mode)
{
    n->walked |= UINT32_C(1) << mode;
}

static int all_are_walked(const struct ts_needs *n)
{
    const uint32_t all = (UINT32_C(1) << n->order) - 1;
    return ((n->walked | n->conf.skipped) & all) == all;
}

/* ---- exchange of needed rows ---- */

static uint64_t own_words(const struct ts_needs *n, const struct lists *l)
{
    return l->first[n->me + 1] - l->first[n->me];
}

static uint64_t count_bits(const uint64_t *word, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (uint64_t)__builtin_popcountll(word[i]);
    return sum;
}

/* Sends this rank's numbers of sent and received rows of the mode, and its cost, to all ranks. */
static int tell(struct ts_needs *n, struct count own, struct ts_err *err)
{
    n->count[n->me] = own;
    return ts_share_gather(n->conf.share, n->count, sizeof *n->count, n->each, err);
}

/* Tells each rank, by bits, which of its rows other ranks need. back: tells the other ranks which
 * rows they will receive. */
static int tell_needs(struct ts_needs *n, struct lists *l, int back, struct ts_err *err)
{
    struct ts_comm *c = ts_share_comm(n->conf.share);
    uint64_t *whole = n->send_first, *parts = n->got_first;
    for (uint32_t r = 0; r <= n->n; r++) {
        whole[r] = l->first[r] * sizeof(uint64_t);
        parts[r] = r * own_words(n, l) * sizeof(uint64_t);
    }
    return back ? c->ops->deal(c, l->send, parts, (void *)l->bit, whole, err)
                : c->ops->deal(c, (const void *)l->bit, whole, l->send, parts, err);
}

/* Of the ranks that share factors, one receives the rows that any of them needs. Ranks on the
 * machine of this rank receive nothing. */
static void merge(const struct ts_needs *n, struct lists *l)
{
    const uint64_t words = own_words(n, l);
    for (uint32_t r = 0; r < n->n; r++) {
        const uint32_t to = ts_share_receiver(n->conf.share, n->conf.shared, n->me, r);
        uint64_t *from = l->send + r * words;
        if (to == r && r != n->me)
            continue;
        for (uint64_t i = 0; i < words && to != n->me; i++)
            l->send[to * words + i] |= from[i];
        memset(from, 0, words * sizeof *from);
    }
}

/* Returns the most rows that a rank receives if all rows go to all ranks. got: memory for n
 * numbers. */
static uint64_t most_of_all(const struct ts_needs *n, const uint64_t *row, uint64_t *got)
{
    uint64_t most = 0;
    memset(got, 0, n->n * sizeof *got);
    for (uint32_t from = 0; from < n->n; from++)
        for (uint32_t to = 0; to < n->n; to++)
            if (to != from && ts_share_receiver(n->conf.share, n->conf.shared, from, to) == to)
                got[to] += row[from + 1] - row[from];
    for (uint32_t r = 0; r < n->n; r++)
        most = got[r] > most ? got[r] : most;
    return most;
}

static int is_cheaper(const struct ts_needs *n, const uint64_t *row)
{
    const double all = (double)most_of_all(n, row, n->at) * n->conf.stride_bytes;
    double some = 0;
    for (uint32_t r = 0; r < n->n; r++)
        some = fmax(some, n->count[r].cost);
    return n->conf.always || some < all;
}

static int make_stage(struct ts_needs *n, struct ts_err *err)
{
    const uint64_t rows = ts_most_rows(n->conf.tensor, TS_ALL_MODES), numbers = n->n + UINT64_C(1);
    const uint64_t bytes = stage_bytes(rows, n->n, n->conf.row_bytes);
    int rc;
    if (n->memory != NULL)
        return 0;
    rc = ts_bigmem_new(bytes, "rows that travel", &n->memory, err);
    if (rc < 0)
        return rc;
    n->memory_bytes = bytes;
    n->most = stage_rows(rows, n->n, n->conf.row_bytes);
    n->send_first = n->memory;
    n->got_first = n->send_first + numbers;
    n->at = n->got_first + numbers;
    n->in = n->at + numbers;
    n->row = (uint32_t *)(n->in + numbers);
    n->sent = (char *)(n->row + (n->n * n->most + 1) / 2 * 2);
    n->got = n->sent + n->n * n->most * n->conf.row_bytes;
    return 0;
}

static int make_lists(struct ts_needs *n, struct lists *l, struct ts_err *err)
{
    int rc = make_stage(n, err);
    l->send = calloc(n->n * own_words(n, l) + 1, sizeof *l->send);
    if (rc == 0 && l->send == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", n->conf.tensor->path);
    return ts_share_agree(n->conf.share, rc, err);
}

/* Counts the rows that this rank sends and receives, and collects these figures from all ranks. */
static int count(struct ts_needs *n, struct lists *l, struct ts_err *err)
{
    const uint64_t words = own_words(n, l);
    struct count own = { 0 };
    uint64_t all = 0;
    int rc;
    for (uint32_t r = 0; r < n->n; r++) {
        const uint64_t sent = count_bits(l->send + r * words, words);
        all += sent;
        own.most = sent > own.most ? sent : own.most;
    }
    own.got = count_bits((const uint64_t *)(const void *)l->bit, l->n_words);
    own.cost = (double)(all > own.got ? all : own.got) * n->conf.row_bytes +
               (double)(all + own.got) * packing(n);
    rc = tell(n, own, err);
    l->rounds = l->bytes = 0;
    for (uint32_t r = 0; r < n->n && rc == 0; r++) {
        const uint64_t rounds = (n->count[r].most + n->most - 1) / n->most;
        l->rounds = rounds > l->rounds ? rounds : l->rounds;
        l->bytes += n->count[r].got * n->conf.row_bytes;
    }
    return rc;
}

/* Decides after a pass over each copy whether rows of the mode go to all ranks, or to those that
 * need them. */
static int decide(struct ts_needs *n, struct lists *l, const uint64_t *row, struct ts_err *err)
{
    int lost = 0;
    int rc = tell(n, (struct count){ .got = (uint64_t)is_lost(l) }, err);
    for (uint32_t r = 0; r < n->n && rc == 0; r++)
        lost |= n->count[r].got > 0;
    for (uint32_t r = 0; r <= n->n; r++)
        l->first[r] = words_of(row[r]);
    if (rc == 0 && !lost)
        rc = make_lists(n, l, err);
    if (rc == 0 && !lost)
        rc = tell_needs(n, l, 0, err);
    if (rc < 0)
        return rc;
    if (!lost) {
        merge(n, l);
        rc = tell_needs(n, l, 1, err);
        if (rc == 0)
            rc = count(n, l, err);
    }
    if (rc < 0)
        return rc;
    l->state = !lost && is_cheaper(n, row) ? TO_NEEDING : TO_ALL;
    if (l->state == TO_ALL)
        drop(l);
    return 0;
}

/* ---- sending needed rows ---- */

/* Sets ret to the next rows of a list, at most n of them. `first` is the number of the first word,
 * and *at the position of the next bit. Returns the number of rows. */
static uint64_t next_rows(const uint64_t *word, uint64_t n_words, uint64_t first, uint64_t n,
                          uint64_t *at, uint32_t *ret)
{
    uint64_t found = 0, w = *at / WORD;
    uint64_t left = w < n_words ? word[w] >> *at % WORD << *at % WORD : 0;
    while (w < n_words && found < n) {
        while (left != 0 && found < n) {
            const uint32_t bit = (uint32_t)__builtin_ctzll(left);
            ret[found++] = (uint32_t)((first + w) * WORD + bit);
            left &= left - 1;
            *at = w * WORD + bit + 1;
        }
        if (found < n && ++w < n_words)
            left = word[w];
    }
    return found;
}

/* Copies the rows listed in n->row from the factor to the buffer that is sent or, with `comes`,
 * from the received buffer to the factor. */
static void copy_rows(const struct ts_needs *n, struct ts_fmat *f, uint64_t n_rows, int comes)
{
    const uint64_t stride = n->conf.stride_bytes;
    const uint32_t bytes = n->conf.row_bytes, *row = n->row;
    char *data = f->data, *packed = comes ? n->got : n->sent;
#pragma omp parallel for num_threads(n->conf.threads) if (n_rows > FEW_ROWS)
    for (uint64_t i = 0; i < n_rows; i++) {
        char *own = data + row[i] * stride;
        __builtin_prefetch(data + row[i + AHEAD < n_rows ? i + AHEAD : i] * stride, 1);
        if (comes)
            memcpy(own, packed + i * bytes, bytes);
        else
            memcpy(packed + i * bytes, own, bytes);
    }
}

/* Sets n->row to the next rows that are sent to each rank or, with `comes`, received from each
 * rank, one rank after another. Returns their number. */
static uint64_t choose(struct ts_needs *n, const struct lists *l, int comes, uint64_t *first)
{
    const uint64_t *bit = (const uint64_t *)(const void *)l->bit, words = own_words(n, l);
    uint64_t rows = 0;
    for (uint32_t r = 0; r < n->n; r++) {
        first[r] = rows * n->conf.row_bytes;
        rows += comes ? next_rows(bit + l->first[r], l->first[r + 1] - l->first[r], l->first[r],
                                  n->most, &n->in[r], n->row + rows)
                      : next_rows(l->send + r * words, words, l->first[n->me], n->most, &n->at[r],
                                  n->row + rows);
    }
    first[n->n] = rows * n->conf.row_bytes;
    return rows;
}

static int send_listed(struct ts_needs *n, const struct lists *l, struct ts_fmat *f,
                       struct ts_err *err)
{
    struct ts_comm *c = ts_share_comm(n->conf.share);
    int rc = 0;
    memset(n->at, 0, n->n * sizeof *n->at);
    memset(n->in, 0, n->n * sizeof *n->in);
    for (uint64_t k = 0; k < l->rounds && rc == 0; k++) {
        uint64_t rows;
        copy_rows(n, f, choose(n, l, 0, n->send_first), 0);
        rows = choose(n, l, 1, n->got_first);
        rc = c->ops->deal(c, n->sent, n->send_first, n->got, n->got_first, err);
        if (rc == 0)
            copy_rows(n, f, rows, 1);
    }
    ts_share_note_rows(n->conf.share, l->bytes, TS_ROWS_TO_NEEDING);
    return rc == 0 && f->shared ? ts_share_settle(n->conf.share, err) : rc;
}

int ts_needs_send(struct ts_needs *n, uint32_t mode, struct ts_fmat *f, const uint64_t *row,
                  int *some, struct ts_err *err)
{
    struct lists *l = &n->mode[mode];
    int rc = l->state == OPEN && all_are_walked(n) ? decide(n, l, row, err) : 0;
    if (rc < 0)
        return rc;
    *some = l->state == TO_NEEDING;
    return *some ? send_listed(n, l, f, err) : ts_share_gather_rows(n->conf.share, f, row, err);
}

const uint64_t *ts_needs_got(const struct ts_needs *n, uint32_t mode, uint64_t *n_words)
{
    *n_words = n->mode[mode].n_words;
    return (const uint64_t *)(const void *)n->mode[mode].bit;
}
