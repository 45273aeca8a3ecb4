/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - divides the work of passes among processes, and sends partial sums, rows and arrays
 * between them. */
#include "cpu/ranks/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stream/feed/feed.h"

/* bytes of packed columns for each rank at a time */
#define STAGE_BYTES    (UINT64_C(256) << 10)
#define STAGES_BYTES   (UINT64_C(64) << 20) /* bytes of packed columns for all ranks at a time */
#define MOST_ROW_BYTES (TS_FMAT_MAX_STRIDE * sizeof(double))
/* time between two checks whether another rank has given up */
#define POLL_NS UINT64_C(50000000)

struct ts_share {
    const struct ts_tensor *tensor;
    struct ts_comm *comm;
    uint32_t n;
    uint64_t *cut[TS_MAX_ORDER];                /* for each mode: first partition of each rank */
    unsigned char *deal[TS_MAX_ORDER];          /* for each mode: enum ts_deal of each shard */
    uint64_t *first_row, *byte, *shard, *group; /* n + 1 each: start of each rank's range; end */
    double *each;                               /* one number of each rank, for ts_share_largest */
    struct ts_share_row *row;  /* rows with nonzeros in the ranges of several ranks (cut rows) */
    struct ts_comm_move *move; /* transfers of bytes between the n ranks; room for 4 n */
    char *stage;               /* buffer for packed columns; or NULL */
    uint64_t polled_ns;
    struct ts_exchanged noted;
    int given_up, whole;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Adds to s->move the transfers that send heads (sums of first rows of partitions) of cut rows to
 * the rank that folds (adds up) each row. ends 1: each partition has two parts, and those of the
 * partition where the row begins are sent, too. Returns the number of transfers. */
static uint32_t head_moves(const struct ts_share *s, const uint64_t *cut, uint32_t n_rows, int ends,
                           uint64_t bytes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_rows; i++)
        for (uint32_t r = 0; r < s->n; r++) {
            const uint64_t first = ends ? ts_share_first_end(&s->row[i]) / 2 : s->row[i].first;
            const uint64_t begin = cut[r] > first ? cut[r] : first;
            const uint64_t end = cut[r + 1] <= s->row[i].last ? cut[r + 1] : s->row[i].last + 1;
            if (r != s->row[i].to && begin < end)
                s->move[n++] = (struct ts_comm_move){ r, s->row[i].to, begin * bytes, end * bytes };
        }
    return n;
}

/* Adds to s->move the transfers of the first parts (partial sums) of cut rows (rows whose nonzeros
 * several ranks have). These parts are rows of the product. Returns the number of transfers. */
static uint32_t part_moves(const struct ts_share *s, uint32_t n_rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_rows; i++)
        if (s->row[i].from != s->row[i].to)
            s->move[n++] = (struct ts_comm_move){ s->row[i].from, s->row[i].to, s->row[i].row,
                                                  UINT64_C(1) + s->row[i].row };
    return n;
}

/* Removes transfers within a machine from the first n entries of s->move. Returns the number of
 * transfers between machines. */
static uint32_t between_machines(const struct ts_share *s, uint32_t n)
{
    const uint32_t *machine = s->comm->machine;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (machine[s->move[i].from] != machine[s->move[i].to])
            s->move[kept++] = s->move[i];
    return kept;
}

static uint32_t row_moves(const struct ts_share *s, const uint64_t *wanted)
{
    const uint64_t *has = s->first_row;
    uint32_t n = 0;
    for (uint32_t from = 0; from < s->n; from++)
        for (uint32_t to = 0; to < s->n; to++) {
            const uint64_t begin = has[from] > wanted[to] ? has[from] : wanted[to];
            const uint64_t end = has[from + 1] < wanted[to + 1] ? has[from + 1] : wanted[to + 1];
            if (from != to && begin < end)
                s->move[n++] = (struct ts_comm_move){ from, to, begin, end };
        }
    return n;
}

/* ---- tables of ranges ---- */

static void *room_for(char **at, uint64_t bytes)
{
    void *ret = *at;
    *at += (bytes + 7) / 8 * 8;
    return ret;
}

/* Places all tables in the memory from `at` on. Returns its end. */
static char *lay_out(struct ts_share *s, const struct ts_tensor *t, uint32_t n, char *at)
{
    const uint64_t numbers = (n + UINT64_C(1)) * sizeof(uint64_t);
    for (uint32_t m = 0; m < t->order; m++) {
        s->cut[m] = room_for(&at, numbers);
        s->deal[m] = room_for(&at, t->mode[m].disk.n_shards);
    }
    s->first_row = room_for(&at, numbers);
    s->byte = room_for(&at, numbers);
    s->shard = room_for(&at, numbers);
    s->group = room_for(&at, numbers);
    s->each = room_for(&at, numbers);
    s->row = room_for(&at, n * sizeof *s->row);
    s->move = room_for(&at, 4 * UINT64_C(1) * n * sizeof *s->move);
    return at;
}

uint64_t ts_share_bytes(const struct ts_tensor *t, uint32_t n_ranks)
{
    struct ts_share s = { 0 };
    char none[1];
    return sizeof s + (uint64_t)(lay_out(&s, t, n_ranks, none) - none);
}

static void mark_shards(struct ts_share *s, uint32_t mode)
{
    uint64_t begin, end, first = 0;
    ts_share_range(s, mode, &begin, &end);
    for (uint64_t i = 0; i < s->tensor->mode[mode].disk.n_shards; i++) {
        const uint64_t behind = first + ts_shard_partitions(&s->tensor->mode[mode].shard[i]);
        s->deal[mode][i] = ts_share_is_of(begin, end, first, behind) ? TS_DEAL_LEND : TS_DEAL_LEAVE;
        first = behind;
    }
}

int ts_share_new(const struct ts_tensor *t, struct ts_comm *comm, int whole, struct ts_share **ret,
                 struct ts_err *err)
{
    struct ts_share *s = calloc(1, ts_share_bytes(t, comm->n));
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    s->tensor = t;
    s->comm = comm;
    s->n = comm->n;
    s->whole = whole;
    lay_out(s, t, comm->n, (char *)(s + 1));
    for (uint32_t m = 0; m < t->order; m++) {
        ts_share_cut(t->mode[m].shard, t->mode[m].disk.n_shards, s->n, s->cut[m]);
        if (whole)
            ts_share_round(t->mode[m].shard, t->mode[m].disk.n_shards, s->n, s->cut[m]);
        mark_shards(s, m);
    }
    *ret = s;
    return 0;
}

void ts_share_free(struct ts_share *s)
{
    if (s == NULL)
        return;
    free(s->stage);
    free(s);
}

uint64_t ts_share_stage_bytes(uint32_t n_ranks)
{
    /* space for at least one row of each transfer */
    const uint64_t rows = 2 * n_ranks * (uint64_t)MOST_ROW_BYTES;
    const uint64_t wanted = least(n_ranks * STAGE_BYTES, STAGES_BYTES);
    return rows > wanted ? rows : wanted;
}

int ts_share_stage(struct ts_share *s, struct ts_err *err)
{
    s->stage = malloc(ts_share_stage_bytes(s->n));
    return s->stage == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path) : 0;
}

struct ts_comm *ts_share_comm(const struct ts_share *s)
{
    return s->comm;
}

const uint64_t *ts_share_cuts(const struct ts_share *s, uint32_t mode)
{
    return s->cut[mode];
}

uint64_t ts_share_partitions(const struct ts_share *s, uint32_t mode)
{
    return s->cut[mode][s->n];
}

void ts_share_range(const struct ts_share *s, uint32_t mode, uint64_t *begin, uint64_t *end)
{
    *begin = s->cut[mode][s->comm->rank];
    *end = s->cut[mode][s->comm->rank + 1];
}

uint64_t ts_share_nnz(const struct ts_share *s, uint32_t mode)
{
    const struct ts_mode *m = &s->tensor->mode[mode];
    uint64_t begin, end, at = 0, nnz = 0;
    ts_share_range(s, mode, &begin, &end);
    for (uint64_t i = 0; i < m->disk.n_shards; i++) {
        const struct ts_disk_shard *shard = &m->shard[i];
        const uint64_t behind = at + ts_shard_partitions(shard);
        if (ts_share_is_of(begin, end, at, behind)) {
            const uint64_t first = (begin > at ? begin - at : 0) * TS_PARTITION_NNZ;
            const uint64_t last = end < behind ? (end - at) * TS_PARTITION_NNZ : shard->nnz;
            nnz += last - first;
        }
        at = behind;
    }
    return nnz;
}

const unsigned char *ts_share_deal(const struct ts_share *s, uint32_t mode)
{
    return s->deal[mode];
}

const uint64_t *ts_share_rows(const struct ts_share *s)
{
    return s->first_row;
}

/* ---- messages between ranks ---- */

void ts_share_note(struct ts_share *s, uint64_t since_ns)
{
    s->noted.ns += ts_clock_ns() - since_ns;
}

void ts_share_note_rows(struct ts_share *s, uint64_t bytes, enum ts_rows_to to)
{
    s->noted.row_bytes += bytes;
    s->noted.rows_to = to;
}

struct ts_exchanged ts_share_noted(struct ts_share *s)
{
    const struct ts_exchanged noted = s->noted;
    s->noted = (struct ts_exchanged){ 0 };
    return noted;
}

int ts_share_poll(struct ts_share *s)
{
    const uint64_t now = ts_clock_ns();
    if (s->given_up || now - s->polled_ns < POLL_NS)
        return s->given_up;
    s->polled_ns = now;
    s->given_up = s->comm->ops->poll(s->comm);
    return s->given_up;
}

int ts_share_gather(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                    struct ts_err *err)
{
    for (uint32_t r = 0; r <= s->n; r++)
        s->byte[r] = first[r] * bytes;
    return s->comm->ops->gather(s->comm, array, s->byte, err);
}

int ts_share_largest(struct ts_share *s, double *x, struct ts_err *err)
{
    int rc;
    for (uint32_t r = 0; r <= s->n; r++)
        s->byte[r] = r * sizeof *s->each;
    s->each[s->comm->rank] = *x;
    rc = s->comm->ops->gather(s->comm, s->each, s->byte, err);
    for (uint32_t r = 0; rc == 0 && r < s->n; r++)
        *x = s->each[r] > *x ? s->each[r] : *x;
    return rc;
}

/* Adds to s->move the transfers of elements first[r] .. first[r + 1] - 1 from each other rank r to
 * rank 0. Returns their number. */
static uint32_t moves_to_first(const struct ts_share *s, const uint64_t *first, uint64_t bytes)
{
    uint32_t n = 0;
    for (uint32_t r = 1; r < s->n; r++)
        if (first[r] < first[r + 1])
            s->move[n++] = (struct ts_comm_move){ r, 0, first[r] * bytes, first[r + 1] * bytes };
    return n;
}

int ts_share_to_first(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                      struct ts_err *err)
{
    return s->comm->ops->move(s->comm, array, s->move, moves_to_first(s, first, bytes), err);
}

const uint64_t *ts_share_groups(struct ts_share *s, uint64_t n)
{
    for (uint32_t r = 0; r <= s->n; r++)
        s->group[r] = n * r / s->n;
    return s->group;
}

/* The columns of a matrix that are sent: all of them, or those of one view. */
struct columns {
    char *first; /* the first of these columns in row 0 */
    uint64_t stride, width;
};

static struct columns columns_of(const struct ts_fmat *f)
{
    const uint64_t size = f->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
    return (struct columns){ f->data, f->stride * size, f->width * size };
}

static struct columns columns_of_rest(const struct ts_fmat *f)
{
    return (struct columns){ (char *)f->rest, f->stride * sizeof(float), f->width * sizeof(float) };
}

static void pack(const struct columns *c, uint64_t row, uint64_t n, char *to)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(to + i * c->width, c->first + (row + i) * c->stride, c->width);
}

static void unpack(const struct columns *c, uint64_t row, uint64_t n, const char *from)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(c->first + (row + i) * c->stride, from + i * c->width, c->width);
}

/* Makes the first n transfers of s->move, which are ranges of rows, through the buffer `stage`.
 * Each transfer gets a part of the buffer. */
static int move_packed(struct ts_share *s, const struct columns *c, uint32_t n, struct ts_err *err)
{
    struct ts_comm_move *piece = s->move + n;
    const uint64_t most = ts_share_stage_bytes(s->n) / (n * c->width + 1);
    uint64_t at = 0;
    uint32_t left;
    do {
        int rc;
        left = 0;
        for (uint32_t i = 0; i < n; i++) {
            const struct ts_comm_move *m = &s->move[i];
            const uint64_t row = least(m->begin + at, m->end), rows = least(m->end - row, most);
            piece[i] = (struct ts_comm_move){ m->from, m->to, i * most * c->width,
                                              (i * most + rows) * c->width };
            left += row + rows < m->end;
            if (m->from == s->comm->rank)
                pack(c, row, rows, s->stage + piece[i].begin);
        }
        rc = s->comm->ops->move(s->comm, s->stage, piece, n, err);
        if (rc < 0)
            return rc;
        for (uint32_t i = 0; i < n; i++)
            if (s->move[i].to == s->comm->rank)
                unpack(c, least(s->move[i].begin + at, s->move[i].end),
                       (piece[i].end - piece[i].begin) / c->width, s->stage + piece[i].begin);
        at += most;
    } while (left > 0);
    return 0;
}

/* Makes the first n transfers of s->move, whose positions are numbers of rows. */
static int move_columns(struct ts_share *s, const struct columns *c, uint32_t n, struct ts_err *err)
{
    struct ts_comm_move *bytes = s->move + n;
    if (c->width < c->stride)
        return move_packed(s, c, n, err);
    for (uint32_t i = 0; i < n; i++)
        bytes[i] =
            (struct ts_comm_move){ s->move[i].from, s->move[i].to, s->move[i].begin * c->stride,
                                   s->move[i].end * c->stride };
    return s->comm->ops->move(s->comm, c->first, bytes, n, err);
}

/* Makes the first n transfers for a matrix and its remainders (`rest`), which ranks never share. */
static int move_matrix(struct ts_share *s, struct ts_fmat *f, uint32_t n, struct ts_err *err)
{
    struct columns c = columns_of_rest(f);
    int rc = f->rest == NULL ? 0 : move_columns(s, &c, n, err);
    c = columns_of(f);
    n = f->shared ? between_machines(s, n) : n;
    return rc == 0 && n > 0 ? move_columns(s, &c, n, err) : rc;
}

int ts_share_agree(struct ts_share *s, int rc, struct ts_err *err)
{
    s->given_up = 0;
    return s->comm->ops->agree(s->comm, rc, err);
}

/* Gathers first and last rows of partitions. Finds rows that ranks share, and ranks' first rows. */
static int meet(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                uint32_t *n_rows, struct ts_err *err)
{
    const uint64_t *cut = s->cut[mode], n_partitions = cut[s->n];
    rc = ts_share_agree(s, rc, err);
    if (rc == 0)
        rc = ts_share_gather(s, edge, sizeof *edge, cut, err);
    if (rc < 0)
        return rc;
    *n_rows = ts_share_cut_rows(edge, n_partitions, cut, s->n, s->row);
    for (uint32_t r = 0; r <= s->n; r++)
        s->first_row[r] = r == 0                  ? 0
                          : cut[r] < n_partitions ? edge[cut[r]].first
                                                  : s->tensor->mode[mode].disk.n_rows;
    return 0;
}

int ts_share_heads(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                   void *heads, uint64_t head_bytes, struct ts_fmat *out, uint64_t *begin,
                   uint64_t *end, struct ts_err *err)
{
    uint32_t n_rows;
    rc = meet(s, mode, rc, edge, &n_rows, err);
    if (rc < 0)
        return rc;
    ts_share_fold(s->row, n_rows, s->cut[mode], s->comm->rank, begin, end);
    rc = s->comm->ops->move(s->comm, heads, s->move,
                            head_moves(s, s->cut[mode], n_rows, 0, head_bytes), err);
    return rc == 0 ? move_matrix(s, out, part_moves(s, n_rows), err) : rc;
}

int ts_share_ends(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                  void *parts, uint64_t part_bytes, uint64_t *begin, uint64_t *end,
                  struct ts_err *err)
{
    uint32_t n_rows;
    rc = meet(s, mode, rc, edge, &n_rows, err);
    if (rc < 0)
        return rc;
    ts_share_fold_ends(s->row, n_rows, s->cut[mode], s->comm->rank, begin, end);
    return s->comm->ops->move(s->comm, parts, s->move,
                              head_moves(s, s->cut[mode], n_rows, 1, 2 * part_bytes), err);
}

int ts_share_is_whole(const struct ts_share *s)
{
    return s->whole;
}

const uint64_t *ts_share_first_shards(struct ts_share *s, uint32_t mode)
{
    const struct ts_mode *m = &s->tensor->mode[mode];
    uint64_t at = 0, i = 0;
    for (uint32_t r = 0; r <= s->n; r++) {
        while (i < m->disk.n_shards && at < s->cut[mode][r])
            at += ts_shard_partitions(&m->shard[i++]);
        s->shard[r] = i;
    }
    return s->shard;
}

int ts_share_shards(struct ts_share *s, uint32_t mode, int rc, struct ts_err *err)
{
    const struct ts_mode *m = &s->tensor->mode[mode];
    const uint64_t *first = ts_share_first_shards(s, mode);
    for (uint32_t r = 0; r <= s->n; r++)
        s->first_row[r] = r == 0                        ? 0
                          : first[r] < m->disk.n_shards ? m->shard[first[r]].row_first
                                                        : m->disk.n_rows;
    return ts_share_agree(s, rc, err);
}

int ts_share_gather_parts(struct ts_share *s, uint32_t mode, void *array, uint64_t bytes,
                          struct ts_err *err)
{
    return ts_share_gather(s, array, bytes, s->cut[mode], err);
}

int ts_share_move_rows(struct ts_share *s, struct ts_fmat *product, const uint64_t *wanted,
                       struct ts_err *err)
{
    return move_matrix(s, product, row_moves(s, wanted), err);
}

int ts_share_settle(struct ts_share *s, struct ts_err *err)
{
    return ts_share_agree(s, 0, err);
}

/* Returns the rank that is number `place` (modulo the number of ranks there) on a machine. */
static uint32_t at_place(const struct ts_comm *c, uint32_t machine, uint32_t place)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->n; r++)
        n += c->machine[r] == machine;
    place %= n;
    for (uint32_t r = 0;; r++)
        if (c->machine[r] == machine && place-- == 0)
            return r;
}

static uint32_t place_of(const struct ts_comm *c, uint32_t rank)
{
    uint32_t place = 0;
    for (uint32_t r = 0; r < rank; r++)
        place += c->machine[r] == c->machine[rank];
    return place;
}

/* Adds to s->move the transfers of each rank's rows to the k-th machine after its own machine. */
static uint32_t machine_moves(struct ts_share *s, const uint64_t *wanted, uint32_t k,
                              uint32_t n_machines)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->n; r++)
        if (wanted[r] < wanted[r + 1])
            s->move[n++] = (struct ts_comm_move){
                r, at_place(s->comm, (s->comm->machine[r] + k) % n_machines, place_of(s->comm, r)),
                wanted[r], wanted[r + 1]
            };
    return n;
}

static uint32_t machine_count(const struct ts_comm *c)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->n; r++)
        n = c->machine[r] >= n ? c->machine[r] + 1 : n;
    return n;
}

uint32_t ts_share_receiver(const struct ts_share *s, int shared, uint32_t from, uint32_t to)
{
    const uint32_t *machine = s->comm->machine;
    if (!shared)
        return to;
    return machine[from] == machine[to] ? from
                                        : at_place(s->comm, machine[to], place_of(s->comm, from));
}

static int gather_shared(struct ts_share *s, const struct columns *c, const uint64_t *wanted,
                         struct ts_err *err)
{
    const uint32_t n_machines = machine_count(s->comm);
    int rc = 0;
    for (uint32_t k = 1; k < n_machines && rc == 0; k++)
        rc = move_columns(s, c, machine_moves(s, wanted, k, n_machines), err);
    return rc == 0 ? ts_share_settle(s, err) : rc;
}

/* Sends the columns of rows wanted[r] .. wanted[r + 1] - 1 of each rank r to all ranks, packed.
 * Each message has the same number of rows of each rank. */
static int gather_packed(struct ts_share *s, const struct columns *c, const uint64_t *wanted,
                         struct ts_err *err)
{
    const uint64_t most = ts_share_stage_bytes(s->n) / (s->n * c->width);
    const uint32_t me = s->comm->rank;
    uint64_t at = 0;
    uint32_t left;
    do {
        int rc;
        left = 0;
        s->byte[0] = 0;
        for (uint32_t r = 0; r < s->n; r++) {
            const uint64_t row = least(wanted[r] + at, wanted[r + 1]);
            const uint64_t rows = least(wanted[r + 1] - row, most);
            s->byte[r + 1] = s->byte[r] + rows * c->width;
            left += row + rows < wanted[r + 1];
            if (r == me)
                pack(c, row, rows, s->stage + s->byte[r]);
        }
        rc = s->comm->ops->gather(s->comm, s->stage, s->byte, err);
        if (rc < 0)
            return rc;
        for (uint32_t r = 0; r < s->n; r++)
            if (r != me)
                unpack(c, least(wanted[r] + at, wanted[r + 1]),
                       (s->byte[r + 1] - s->byte[r]) / c->width, s->stage + s->byte[r]);
        at += most;
    } while (left > 0);
    return 0;
}

int ts_share_gather_rows(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                         struct ts_err *err)
{
    const struct columns c = columns_of(f);
    const uint64_t copies = f->shared ? machine_count(s->comm) : s->n;
    ts_share_note_rows(s, (copies - 1) * wanted[s->n] * c.width, TS_ROWS_TO_ALL);
    if (f->shared)
        return gather_shared(s, &c, wanted, err);
    return c.width < c.stride ? gather_packed(s, &c, wanted, err)
                              : ts_share_gather(s, f->data, c.stride, wanted, err);
}

int ts_share_rows_to_first(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                           struct ts_err *err)
{
    const struct columns c = columns_of(f);
    uint32_t n = moves_to_first(s, wanted, 1);
    n = f->shared ? between_machines(s, n) : n;
    return n > 0 ? move_columns(s, &c, n, err) : 0;
}
