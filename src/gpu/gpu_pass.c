/* SPDX-License-Identifier: BSD-3-Clause */
/* A member's pass over a mode. This is what waits for what on one device; streams are in brackets,
 * -> is the order of one stream, => is an event:
 *
 *   [copy]     slot's last kernel (unless it has ended) => copy a shard -> the next one ... -> the
 *              next mode's first
 *   [compute]  its copy => product -> edges inside the shard          (round robin over streams)
 *   [keeping]  product of the kept shards of a chunk -> the next but one chunk
 *   [dense]    w -> keeping => edges inside a chunk's shards -> compute => solve its rows -> ...
 *   [send]     solve of chunk k => gather k -> gather k + 1 ... -> gather of shards' edges and of
 *              what was taken from others
 *   [dense]    send, and other members' gathers => edges between shards -> their rows -> a part of
 *              the Gram matrix
 *   [send]     that => gather of parts
 *   [dense]    send => Gram matrix -> host
 *
 * The host waits for the device at the end, when everything is enqueued. So every stream but [copy]
 * is idle when a pass begins, and no earlier work reads what the pass writes; but with one member
 * [dense] may still scale the columns of a factor, for which [compute] and [keeping] wait. During
 * the pass the host waits for shards, for copies out of memory lent by the feed, and for the other
 * members' hosts.
 *
 * One member has nothing to send: it has one chunk, and all its rows are solved at the end. Where its shards all stay on the
 * device, what [dense] does after the product is one graph.
 *
 * Where the update reads the old rows, [dense] solves nothing before [send] has brought the
 * products of all rows: a run that is stopped meanwhile finds the old rows as they were, and units
 * of rows need not be those of shards. */
#include "gpu/gpu_state.h"

#include <cuda_runtime.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/trace.h"
#include "gpu/gpu_cells.h"
#include "gpu/gpu_fail.h"

/* Fewest bytes of rows in a chunk: in a smaller gather the start takes most of the time. */
#define CHUNK_BYTES (UINT64_C(4) << 20)

/* Shards lent by the feed, whose copies to the device may still run. */
struct walk {
    struct ts_gpu_pass *pass;
    struct ts_shard_view lent[TS_GPU_LENT];
    uint32_t first, n, n_leased; /* n_leased: those that are in a slot of the feed */
};

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "MTTKRP");
}

/* Where the product goes, and how it is summed. */
static void choose_out(struct ts_gpu_product *r, uint32_t mode)
{
    const struct ts_gpu *g = r->of->gpu;
    const struct ts_gpu_replica *my = r->my;
    const int for_fit = mode + 1 == g->tensor->order && (r->how == NULL || r->sums->inner != NULL);
    const int kept = r->how != NULL && my->product != NULL;
    if (r->pass->ask->kind ==
        TS_REQUEST_MULTIPLY) { /* what is sent are the rows that are multiplied */
        r->apart = 1;
        r->out = TS_GPU_APART;
        r->out_bytes = ts_gpu_row_bytes(r->of);
        r->args.out = my->phi;
        return;
    }
    if (r->pass->ask->kind == TS_REQUEST_DESCEND) { /* the gradient */
        r->apart = 1;
        r->out = TS_GPU_APART;
        r->out_bytes = ts_gpu_row_bytes(r->of);
        r->args.out = my->apart;
        return;
    }
    if (ts_gpu_solves_observed(r)) { /* rows come as they will be */
        r->out = TS_GPU_FACTOR;
        r->out_bytes = ts_gpu_row_bytes(r->of);
        r->args.out = my->factor[mode];
        return;
    }
    r->wide = for_fit && g->precision == TS_FLOAT32 && r->of->summed == TS_FLOAT64;
    r->apart = ts_gpu_owns(g, mode);
    r->out = TS_GPU_FACTOR;
    r->out_bytes = ts_gpu_row_bytes(r->of);
    r->args.out = my->factor[mode];
    if (r->wide && kept) {
        r->out = TS_GPU_PRODUCT;
        r->out_bytes = ts_gpu_edge_bytes(r->of, 1);
        r->args.out = my->product;
    } else if (r->apart) {
        r->out = TS_GPU_APART;
        r->args.out = my->apart;
    }
    r->args.out_float = r->wide && !kept;
}

static void fill_product(struct ts_gpu_pass *p, const struct ts_request *u,
                         struct ts_gpu_product *r)
{
    const struct ts_gpu *g = p->g;
    const struct ts_gpu_member *me = p->me;
    const struct ts_disk_header *h = &g->tensor->header;
    struct ts_gpu_model *of = u->be;
    *r = (struct ts_gpu_product){
        .pass = p,
        .of = of,
        .my = &p->me->replica[of->number],
        .want = u,
    };
    if (p->ask->kind == TS_REQUEST_PRODUCT || p->ask->kind == TS_REQUEST_ROWS) {
        r->how = u->how;
        r->sums = u->sums;
    }
    if (p->ask->kind == TS_REQUEST_MULTIPLY && p->ask->multiplies)
        r->rounds = u->multiply->rounds;
    r->args = (struct ts_gpu_mttkrp){
        .n_levels = g->tensor->order - 1,
        .value_kind = h->value_kind,
        .n_codes = ts_header_codes(h),
        .weights = (uint32_t)ts_tensor_weighted(g->tensor),
        .value_base = h->value_base,
        .dict = me->dict,
        .edge = r->my->edge,
        .edge_row = ts_gpu_solves_observed(r) ? r->my->edge_row : me->edge_row,
        .ld = of->ld,
        .share_blocks = p->mode->share_blocks,
    };
    for (uint32_t l = 1; l < g->tensor->order; l++)
        r->args.factor[l - 1] = r->my->factor[g->tensor->mode[p->ask->mode].disk.level[l]];
    choose_out(r, p->ask->mode);
}

static void fill_products(struct ts_gpu_pass *p)
{
    p->alone = p->g->n_members == 1 && p->mode->n_shards == 1;
    p->n = p->ask->n;
    p->product = p->me->product;
    for (uint32_t k = 0; k < p->n; k++)
        fill_product(p, &p->ask->of[k], &p->product[k]);
}

static struct ts_gpu_shard describe(const struct ts_gpu_mode *m, uint64_t shard, const void *addr)
{
    const struct ts_disk_shard *s = &m->shard[shard];
    const struct ts_gpu_shard d = {
        .raw = addr,
        .first_share = m->first_share[shard],
        .n_blocks = s->n_blocks,
        .nnz = s->nnz,
        .row_first = s->row_first,
        .number = (uint32_t)shard,
    };
    return d;
}

/* ---- shards that are there */

static int is_here(const struct ts_gpu_mode *m, uint64_t shard)
{
    return m->keep[shard] && m->present[shard];
}

/* Writes the table of the member's kept shards to the device, unless the device has the current
 * one. */
static int make_table(struct ts_gpu_pass *p, struct ts_err *err)
{
    const struct ts_gpu_mode *m = p->mode;
    struct ts_gpu_member *me = p->me;
    struct ts_gpu_table *t = &me->table[p->ask->mode];
    struct ts_gpu_shard *entry;
    uint32_t n = 0;
    ts_gpu_error e = cudaSuccess;
    if (t->version == m->version && t->n_chunks == p->g->board.n_chunks)
        return 0;
    entry = malloc((m->first[me->number + 1] - m->first[me->number] + 1) * sizeof *entry);
    if (entry == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " shards", m->n_shards);
    for (uint32_t c = 0; c < p->g->board.n_chunks; c++) {
        t->n[c] = t->n_shares[c] = 0;
        for (uint64_t i = ts_gpu_chunk(p->g, m, me->number, c);
             i < ts_gpu_chunk(p->g, m, me->number, c + 1); i++) {
            if (!is_here(m, i))
                continue;
            entry[n] = describe(m, i, me->kept + m->place[i]);
            entry[n++].first_cta = t->n_shares[c];
            t->n[c]++;
            t->n_shares[c] += ts_gpu_shares(m, i);
        }
    }
    if (n > 0) /* cudaMemcpy may return too early for other streams */
        e = cudaMemcpyAsync(t->entry, entry, n * sizeof *entry, cudaMemcpyHostToDevice, me->dense);
    TRY(e, cudaStreamSynchronize(me->dense));
    free(entry);
    if (e != cudaSuccess)
        return fail(err, e);
    t->version = m->version;
    t->n_chunks = p->g->board.n_chunks;
    return 0;
}

/* Takes the shards of a chunk that are kept: no other member can have them. */
static void take_kept(struct ts_gpu_pass *p, uint32_t c)
{
    const struct ts_gpu_mode *m = p->mode;
    const uint32_t number = p->me->number;
    uint64_t n = 0;
    for (uint64_t i = ts_gpu_chunk(p->g, m, number, c); i < ts_gpu_chunk(p->g, m, number, c + 1);
         i++)
        if (is_here(m, i)) {
            p->g->board.taken[i] = (unsigned char)number;
            p->kept_nnz += m->shard[i].nnz;
            n++;
        }
    atomic_fetch_sub(&p->g->board.left[number][c], n);
}

/* Makes a stream wait until factors are scaled, if that may still go on. */
static ts_gpu_error wait_for_scaling(const struct ts_gpu_member *me, ts_gpu_stream stream)
{
    return me->scaling ? cudaStreamWaitEvent(stream, me->scaled, 0) : cudaSuccess;
}

/* Those of a chunk that are kept, whose entries of the table begin at `many`. */
static struct ts_gpu_shards kept_shards(const struct ts_gpu_table *t, uint32_t c,
                                        const struct ts_gpu_shard *many)
{
    return (struct ts_gpu_shards){ .many = many, .n_many = t->n[c], .n_shares = t->n_shares[c] };
}

ts_gpu_error ts_gpu_pass_fold(const struct ts_gpu_pass *p)
{
    const struct ts_gpu_table *t = &p->me->table[p->ask->mode];
    const struct ts_gpu_shards s = kept_shards(t, 0, t->entry);
    return ts_gpu_fold_shards(p, &s, p->me->dense);
}

/* Whether what follows the product is launched as one. That is worth its while for one small tensor on one device, whose rows
 * are solved with a matrix; a trace tells of each kernel. */
static int fits_graph(const struct ts_gpu_pass *p)
{
    const struct ts_gpu *g = p->g;
    const struct ts_gpu_product *r = &p->product[0];
    return g->n_members == 1 && g->trace == NULL && p->n == 1 && p->mode->n_shards > 0 &&
           p->me->table[p->ask->mode].n[0] == p->mode->n_shards &&
           p->ask->kind == TS_REQUEST_PRODUCT && r->how != NULL && !r->apart;
}

static int launch_kept(struct ts_gpu_pass *p, uint32_t c, const struct ts_gpu_shard *many,
                       struct ts_err *err)
{
    struct ts_gpu_member *me = p->me;
    const uint32_t k = c % TS_GPU_KEPT_STREAMS;
    const ts_gpu_event ended = me->joined[TS_GPU_STREAMS + k];
    const struct ts_gpu_shards s = kept_shards(&me->table[p->ask->mode], c, many);
    ts_gpu_error e = wait_for_scaling(me, me->keeping[k]);
    TRY(e, ts_gpu_log_start(&me->log, TS_GPU_KERNEL, "kept shards",
                            TS_TRACE_KERNEL + TS_GPU_STREAMS + k, me->keeping[k]));
    TRY(e, ts_gpu_launch_products(p, &s, me->keeping[k]));
    TRY(e, ts_gpu_log_stop(&me->log, me->keeping[k], TS_TRACE_NO_SHARD, 0));
    TRY(e, cudaEventRecord(ended, me->keeping[k]));
    if (e == cudaSuccess && p->g->n_members == 1) { /* several have rows of a chunk to send first */
        const int rc = ts_gpu_rows_prepare(p, err);
        if (rc < 0)
            return rc;
    }
    TRY(e, cudaStreamWaitEvent(me->dense, ended, 0));
    if (e == cudaSuccess && !p->as_graph) /* `keeping` would do it after the next chunk */
        e = ts_gpu_fold_shards(p, &s, me->dense);
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int take_present(struct ts_gpu_pass *p, struct ts_err *err)
{
    const struct ts_gpu_table *t = &p->me->table[p->ask->mode];
    const struct ts_gpu_shard *next = t->entry;
    int rc = make_table(p, err);
    p->as_graph = rc == 0 && fits_graph(p);
    for (uint32_t c = 0; c < p->g->board.n_chunks && rc == 0; c++) {
        take_kept(p, c);
        if (t->n[c] > 0)
            rc = launch_kept(p, c, next, err);
        next += t->n[c];
        if (rc == 0)
            rc = ts_gpu_rows_advance(p, err);
    }
    p->nnz += p->kept_nnz;
    return rc;
}

/* ---- shards from the feed */

/* Waits for the copy of the oldest lent shard and gives that shard back to the feed. */
static int return_oldest(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    const int rc = ts_gpu_team_wait(p->g, p->me, p->me->copied[w->first], err);
    if (rc < 0) /* a member failed; the memory may go only when nothing reads it */
        (void)cudaStreamSynchronize(p->me->copy);
    w->n_leased -= w->lent[w->first].lease != NULL;
    ts_feed_done(p->ask->feed, &w->lent[w->first]);
    w->first = (w->first + 1) % TS_GPU_LENT;
    w->n--;
    return rc;
}

/* Called before asking for a shard. The feed has one slot more than there are members, so a member
 * may hold only one slot then (stream/feed.h). */
static int return_some(struct walk *w, struct ts_err *err)
{
    int rc = 0;
    while (rc == 0 && (w->n == TS_GPU_LENT || w->n_leased > 1))
        rc = return_oldest(w, err);
    return rc;
}

static int wait_for_marks(struct ts_gpu_pass *p, struct ts_err *err)
{
    uint32_t n = 0;
    int rc = 0;
    while (rc == 0 && !ts_gpu_log_room(&p->me->log)) {
        ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(p->g, err);
    }
    return rc;
}

/* Enters on the board who computes the shard, and counts it off in the chunk that it belongs to. */
static void claim(struct ts_gpu_pass *p, uint64_t shard)
{
    struct ts_gpu_board *b = &p->g->board;
    const struct ts_gpu_mode *m = p->mode;
    uint32_t owner = 0, c = 0;
    while (shard >= m->first[owner + 1])
        owner++;
    while (shard >= ts_gpu_chunk(p->g, m, owner, c + 1))
        c++;
    b->taken[shard] = (unsigned char)p->me->number;
    if (owner != p->me->number)
        atomic_store(&b->any_stolen, 1);
    atomic_fetch_sub(&b->left[owner][c], 1); /* after `taken`: who reads 0 here reads that too */
}

/* A copy into a slot comes after the kernel that read the slot. Mostly that kernel has ended long
 * ago; then the stream need not wait, and copies follow each other without a pause. */
static ts_gpu_error wait_for_slot(struct ts_gpu_member *me, const struct ts_gpu_slot *slot,
                                  int *waits)
{
    ts_gpu_error e = cudaSuccess;
    *waits = slot != NULL && ts_gpu_ended(slot->used, &e) == 0;
    return *waits ? cudaStreamWaitEvent(me->copy, slot->used, 0) : e;
}

/* Enqueues the copy of a lent shard. *there: the event of its arrival. */
static ts_gpu_error copy_shard(struct walk *w, const struct ts_shard_view *view, void *to,
                               const struct ts_gpu_slot *slot, ts_gpu_event *there)
{
    struct ts_gpu_pass *p = w->pass;
    struct ts_gpu_member *me = p->me;
    const size_t bytes = (size_t)view->entry->raw_bytes + TS_SHARD_SLACK;
    const uint32_t last = (w->first + w->n) % TS_GPU_LENT;
    int waits;
    ts_gpu_error e = wait_for_slot(me, slot, &waits);
    TRY(e, ts_gpu_log_copy(&me->log, me->copy, waits, view->shard, bytes));
    TRY(e, cudaMemcpyAsync(to, view->raw, bytes, cudaMemcpyHostToDevice, me->copy));
    TRY(e, cudaEventRecord(me->copied[last], me->copy));
    if (e != cudaSuccess) {
        (void)cudaStreamSynchronize(me->copy);
        ts_feed_done(p->ask->feed, view);
        return e;
    }
    p->bytes += bytes;
    w->lent[last] = *view;
    w->n_leased += view->lease != NULL;
    w->n++;
    *there = me->copied[last];
    return cudaSuccess;
}

/* How many shards are computed at a time. Of one model it is one. Of several it is as many as leave half of the slots to
 * copies. */
static uint32_t most_due(const struct ts_gpu_pass *p)
{
    const uint32_t half = p->g->n_slots / 2;
    if (p->n == 1 || half < 2)
        return 1;
    return half < TS_GPU_STREAMS ? half : TS_GPU_STREAMS;
}

/* Records when the streams of the shards that are due have come so far; the last one waits for the others. */
static ts_gpu_error end_batch(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    const uint32_t last = p->due[p->n_due - 1].stream;
    ts_gpu_error e = cudaSuccess;
    for (uint32_t i = 0; i < p->n_due && e == cudaSuccess; i++) {
        const struct ts_gpu_due *d = &p->due[i];
        const ts_gpu_event ended = d->slot != NULL ? d->slot->used : me->joined[d->stream];
        e = cudaEventRecord(ended, me->compute[d->stream]);
        if (d->stream != last)
            TRY(e, cudaStreamWaitEvent(me->compute[last], ended, 0));
        p->batch_ended = ended;
    }
    return e;
}

/* Enqueues the kernels of all shards that are due. */
static ts_gpu_error launch_due(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    const uint32_t n = p->n_due;
    ts_gpu_error e = cudaSuccess;
    ts_gpu_stream first, last;
    if (n == 0)
        return e;
    first = me->compute[p->due[0].stream];
    last = me->compute[p->due[n - 1].stream];
    for (uint32_t i = 0; i < n && e == cudaSuccess; i++)
        e = wait_for_scaling(me, me->compute[p->due[i].stream]);
    TRY(e, ts_gpu_log_start(&me->log, TS_GPU_KERNEL, n == 1 ? "shard" : "shards",
                            TS_TRACE_KERNEL + p->due[0].stream, first));
    TRY(e, ts_gpu_launch_due(p));
    TRY(e, end_batch(p));
    TRY(e, ts_gpu_log_stop(&me->log, last, p->due[0].shards.one.number, 0));
    for (uint32_t i = 0; i < n && e == cudaSuccess; i++) {
        p->unjoined |= 1u << p->due[i].stream;
        p->nnz += p->due[i].shards.one.nnz;
        claim(p, p->due[i].shards.one.number);
    }
    p->n_due = 0;
    return e;
}

/* Whether the device still computes on the shards that were launched last. */
static int is_busy(const struct ts_gpu_pass *p, ts_gpu_error *e)
{
    return p->batch_ended != NULL && ts_gpu_ended(p->batch_ended, e) == 0;
}

/* Enqueues the kernels of a shard at `addr`, to run after `there`, on the next stream; now, or with those of shards to come
 * where the device is busy with others. */
static ts_gpu_error add_due(struct ts_gpu_pass *p, uint64_t shard, const void *addr,
                            ts_gpu_event there, struct ts_gpu_slot *slot)
{
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaStreamWaitEvent(me->compute[me->next_stream], there, 0);
    if (most_due(p) > 1)
        TRY(e, ts_gpu_log_came(&me->log, me->compute[me->next_stream]));
    p->due[p->n_due++] = (struct ts_gpu_due){
        .shards = { .one = describe(p->mode, shard, addr),
                    .n_shares = ts_gpu_shares(p->mode, shard) },
        .slot = slot,
        .stream = me->next_stream,
    };
    me->next_stream = (me->next_stream + 1) % TS_GPU_STREAMS;
    if (e == cudaSuccess && p->n_due < most_due(p) && is_busy(p, &e))
        return e;
    return e == cudaSuccess ? launch_due(p) : e;
}

/* Before the host waits for a shard: enqueues the kernels of those that are due, unless more are there and the device is busy. */
static int launch_waiting(struct ts_gpu_pass *p, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
    if (p->n_due > 0 &&
        (!is_busy(p, &e) || ts_feed_waits(p->ask->feed, p->ask->mode, ts_gpu_here(p->me))))
        TRY(e, launch_due(p));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static struct ts_gpu_slot *next_slot(struct ts_gpu_pass *p)
{
    struct ts_gpu_slot *slot = &p->me->slot[p->me->next_slot];
    p->me->next_slot = (p->me->next_slot + 1) % p->g->n_slots;
    if (slot->early.state == TS_EARLY_HERE) /* no pass took it */
        slot->early.state = TS_EARLY_NONE;
    return slot;
}

/* Enqueues the copy of a lent shard and the kernels that compute on it. */
static int take_shard(struct walk *w, const struct ts_shard_view *view, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    struct ts_gpu_mode *m = &p->g->mode[p->ask->mode];
    const int keep = m->keep[view->shard];
    struct ts_gpu_slot *slot = keep ? NULL : next_slot(p);
    char *to = keep ? p->me->kept + m->place[view->shard] : slot->addr;
    ts_gpu_event there;
    ts_gpu_error e = copy_shard(w, view, to, slot, &there);
    TRY(e, add_due(p, view->shard, to, there, slot));
    if (e != cudaSuccess)
        return fail(err, e);
    if (keep) {
        m->present[view->shard] = 1;
        p->n_filled++;
    }
    return 0;
}

/* Asks the feed for the member's next shard: 1, 0 at the end of the pass, or a failure. */
static int next_shard(struct walk *w, struct ts_shard_view *view, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    const uint64_t start = ts_clock_ns();
    const int rc = ts_feed_next(p->ask->feed, p->ask->mode, ts_gpu_here(p->me), view, err);
    p->wait_ns += ts_clock_ns() - start;
    return rc;
}

/* Takes the prefetched shards. They are computed before the kept ones, because their slots are
 * needed. First the link gets new work: copies to the slots that hold no prefetched shard. */
static int take_early(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    const uint32_t n_free = p->g->n_slots - ts_gpu_early_most(p->g);
    const uint32_t most = n_free < TS_GPU_LENT ? n_free : TS_GPU_LENT;
    struct ts_gpu_slot *here[TS_GPU_SLOTS];
    struct ts_shard_view view;
    uint32_t n = 0, n_copied = 0;
    ts_gpu_error e = cudaSuccess;
    int rc = 0;
    if (!ts_gpu_early_any(p))
        return 0;
    while (rc == 0 && n_copied < most) {
        rc = return_some(w, err);
        if (rc == 0)
            rc = next_shard(w, &view, err);
        if (rc <= 0)
            break;
        here[n] = ts_gpu_early_take(p, view.shard);
        if (here[n] != NULL) {
            n++;
            rc = 0;
            ts_feed_done(p->ask->feed, &view);
        } else {
            n_copied++;
            rc = take_shard(w, &view, err);
        }
    }
    for (uint32_t i = 0; i < n && rc >= 0 && e == cudaSuccess; i++)
        e = add_due(p, here[i]->early.shard, here[i]->addr, here[i]->early.arrived, here[i]);
    if (rc >= 0)
        TRY(e, launch_due(p));
    return rc < 0 ? rc : e == cudaSuccess ? 0 : fail(err, e);
}

/* Called when the last copy of the pass is enqueued: starts prefetching for the next mode. */
static int finish_copies(struct ts_gpu_pass *p, struct ts_err *err)
{
    ts_gpu_error e = launch_due(p);
    TRY(e, ts_gpu_log_copied(&p->me->log, p->me->copy));
    TRY(e, ts_gpu_early_send(p));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int take_all(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    for (;;) {
        struct ts_shard_view view;
        int rc = return_some(w, err);
        if (rc == 0)
            rc = wait_for_marks(p, err);
        if (rc == 0)
            rc = launch_waiting(p, err);
        if (rc == 0) /* that may have been the last of a chunk */
            rc = ts_gpu_rows_advance(p, err);
        if (rc < 0)
            return rc;
        rc = next_shard(w, &view, err);
        if (rc == 0)
            return finish_copies(p, err);
        if (rc > 0)
            rc = take_shard(w, &view, err);
        if (rc < 0)
            return rc;
    }
}

/* ---- the pass */

static int run_pass(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct walk w = { .pass = p };
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = ts_gpu_log_begin(&me->log, me->dense);
    int rc;
    if (e != cudaSuccess)
        return fail(err, e);
    rc = take_early(&w, err);
    if (rc == 0)
        rc = take_present(p, err);
    if (rc == 0)
        rc = take_all(&w, err);
    while (w.n > 0) {
        const int back = return_oldest(&w, rc == 0 ? err : NULL);
        rc = rc == 0 ? back : rc;
    }
    return rc == 0 ? ts_gpu_rows_finish(p, err) : rc;
}

struct job {
    const struct ts_gpu_request *ask;
    struct ts_gpu_pass pass[TS_MAX_TEAM]; /* of members here */
};

static int pass_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    struct job *j = arg;
    struct ts_gpu_pass *p = &j->pass[me->number];
    return g->cells == NULL ? run_pass(p, err) : ts_gpu_cells_run(p, j->pass, err);
}

/* How many chunks a range is divided into: each has rows enough for a gather, and a shard. */
static uint32_t count_chunks(const struct ts_gpu *g, const struct ts_gpu_mode *m,
                             const struct ts_gpu_request *ask)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < ask->n; k++)
        n += m->n_rows * ts_gpu_row_bytes(ask->of[k].be) / g->n_members / CHUNK_BYTES;
    if (g->n_members == 1 || n == 0 || ts_exchange_blocks(g->exchange))
        return 1;
    if (n > m->n_shards / g->n_members)
        n = m->n_shards / g->n_members > 0 ? m->n_shards / g->n_members : 1;
    return n < TS_GPU_CHUNKS ? (uint32_t)n : TS_GPU_CHUNKS;
}

/* Of several processes, none of whose members computes a shard of another's range. */
static void note_owners(struct ts_gpu *g, const struct ts_gpu_mode *m)
{
    for (uint32_t i = 0; i < g->n_members; i++)
        memset(g->board.taken + m->first[i], (int)i, m->first[i + 1] - m->first[i]);
}

static void begin(struct ts_gpu *g, struct job *j)
{
    const struct ts_gpu_request *ask = j->ask;
    struct ts_gpu_board *b = &g->board;
    struct ts_gpu_mode *m = &g->mode[ask->mode];
    memcpy(m->passed, m->first, sizeof m->passed);
    b->n_chunks = count_chunks(g, m, ask);
    atomic_store(&b->any_stolen, 0);
    atomic_store(&b->ready, TS_GPU_NOT_READY);
    for (uint32_t i = 0; i < g->n_members; i++) {
        atomic_store(&b->n_published[i], 0);
        b->n_span[i] = 0;
        for (uint32_t c = 0; c < b->n_chunks; c++)
            atomic_store(&b->left[i][c], ts_gpu_chunk(g, m, i, c + 1) - ts_gpu_chunk(g, m, i, c));
    }
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        struct ts_gpu_pass *p = &j->pass[i];
        *p = (struct ts_gpu_pass){ .g = g, .me = &g->member[i], .ask = ask, .mode = m };
        fill_products(p);
    }
    if (g->comm == NULL)
        return;
    note_owners(g, m);
    ts_gpu_rows_expect(&j->pass[g->first_here]);
}

/* What is kept is there once a pass is over: so processes know it of each other. */
static void note_kept(struct ts_gpu *g, uint32_t mode)
{
    struct ts_gpu_mode *m = &g->mode[mode];
    if (g->comm != NULL)
        memcpy(m->present, m->keep, m->n_shards);
}

int ts_gpu_pass_run(struct ts_gpu *g, const struct ts_gpu_request *ask,
                    struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct job job = { .ask = ask };
    uint64_t n_filled = 0, busy_ns[TS_MAX_TEAM];
    double share[TS_MAX_TEAM];
    int rc;
    begin(g, &job);
    ts_gpu_cells_begin(g, ask);
    if (!ts_gpu_only_sums(ask))
        ts_gpu_cells_changed(g, ask->mode);
    rc = ts_gpu_team_run(g, pass_job, &job, ask->feed, err);
    rc = ts_gpu_ranks_end(g, rc, err);
    if (rc < 0)
        return rc;
    *times = (struct ts_backend_times){
        .total_ns = ts_clock_ns() - start,
        .n_devices = g->n_here,
    };
    ts_gpu_times_collect(g, job.pass, start, times, busy_ns);
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        n_filled += job.pass[i].n_filled;
        if (g->done != NULL && job.pass[i].kept_nnz > 0)
            g->done(g->done_ctx, job.pass[i].kept_nnz);
    }
    if (n_filled > 0)
        g->mode[ask->mode].version++;
    if (g->n_members == 1 || g->cells != NULL)
        return 0;
    note_kept(g, ask->mode);
    rc = ts_gpu_ranks_times(g, times, busy_ns, err);
    if (rc < 0)
        return rc;
    rc = ts_gpu_keep_balance(g, ask->mode, busy_ns, ask->feed, share, err);
    for (uint32_t i = 0; i < g->n_members; i++)
        times->device[i].share = share[i];
    return rc;
}
