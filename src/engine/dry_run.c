/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the memory that a run would hold, and the bytes that it would move, without a run. */
#include "engine/dry_run.h"

#include "base/machine/bigmem.h"
#include "format/arrays/dense.h"

/* Whether a sweep makes another pass over the last mode, for errors at cells or a loss. */
static int judges_apart(const struct ts_spec *c)
{
    return c->observed || c->loss != TS_GCP_NONE || (c->held && !c->poisson);
}

/* Adds up the shards of a mode: their bytes in memory, the bytes that a sweep sends to each device,
 * and the bytes that it reads from disk. */
static void count_mode(const struct ts_engine *e, const struct ts_spec *spec,
                       const struct ts_feed_deal *deal, uint32_t m, struct ts_dry_run *p)
{
    const struct ts_mode *mode = &e->tensor->mode[m];
    const int skipped = (ts_spec_skipped(spec, e->tensor->order) >> m & 1) != 0;
    const uint64_t n_times = m + 1 == e->tensor->order && judges_apart(spec) ? 2 : 1;
    uint32_t device = 0;
    for (uint64_t i = 0; i < mode->disk.n_shards; i++) {
        const struct ts_disk_shard *s = &mode->shard[i];
        const uint64_t place = ts_residency_bytes(s);
        p->whole_bytes += skipped ? 0 : ts_residency_stored(s);
        /* another process computes this shard */
        if (deal->keep[m] != NULL && deal->keep[m][i] == TS_DEAL_LEAVE)
            continue;
        while (deal->first[m] != NULL && device + 1 < p->n_devices &&
               i >= deal->first[m][device + 1])
            device++;
        p->shard_bytes += place;
        if (skipped)
            continue;
        p->packed_bytes += ts_residency_stored(s);
        if (deal->keep[m] != NULL && deal->keep[m][i])
            continue;
        p->passing_bytes += place;
        p->link_bytes[device] += p->n_devices > 0 ? n_times * s->raw_bytes : 0;
        if (e->residency.place[m][i] == TS_NOT_RESIDENT)
            p->disk_bytes += n_times * ts_residency_stored(s);
    }
}

/* Returns the number of passes over the cells of a dense tensor in a sweep. */
static uint32_t count_passes(const struct ts_engine *e, const struct ts_spec *spec,
                             const struct ts_dry_run *p)
{
    const struct ts_dense *d = e->tensor->dense;
    const uint32_t skipped = ts_spec_skipped(spec, e->tensor->order);
    const uint32_t groups = e->backend->groups(e->be);
    const int shared = p->n_devices > 0 ? p->device[0].shared_bytes > 0 : e->memory.spare_bytes > 0;
    const uint32_t judging = judges_apart(spec) ? 1 : 0;
    /* a backend may divide the columns of factors into groups: each group needs its own passes, and
     * keeps no part of the sums from one mode to the next */
    if (groups > 1)
        return (e->tensor->order - (uint32_t)__builtin_popcount(skipped)) * groups + judging;
    return ts_dense_passes(d, (shared && groups == 0) || d->n_outer == 1, skipped) + judging;
}

/* Counts the slabs of a dense tensor (the parts in which it is read), which are the same for all
 * modes. Cells that GPUs keep are not sent again. Each GPU gets about the same number of the other
 * cells. */
static void count_slabs(const struct ts_engine *e, const struct ts_spec *spec,
                        const struct ts_feed_deal *deal, struct ts_dry_run *p)
{
    const struct ts_dense *d = e->tensor->dense;
    const uint64_t bytes = d->cells * d->cell_bytes;
    const uint32_t passes = count_passes(e, spec, p);
    p->passing_bytes = bytes;
    for (uint64_t k = 0; deal->slab != NULL && k < d->n_slabs; k++)
        p->passing_bytes -= deal->slab[k] ? ts_dense_slab_bytes(d, k) : 0;
    p->resident_bytes =
        e->slabs.resident_bytes < p->passing_bytes ? e->slabs.resident_bytes : p->passing_bytes;
    p->slot_bytes = e->slabs.slot_bytes;
    p->n_slots = e->slabs.n_slots;
    p->whole_bytes = p->packed_bytes = p->shard_bytes = bytes;
    p->disk_bytes = (p->passing_bytes - p->resident_bytes) * passes;
    for (uint32_t i = 0; i < p->n_devices; i++)
        p->link_bytes[i] = p->passing_bytes * passes / p->n_devices;
}

static uint64_t host_bytes(const struct ts_engine *e, const struct ts_dry_run *p)
{
    const struct ts_engine_memory *m = &e->memory;
    return m->factor_bytes + m->other_bytes - m->rest_bytes + ts_bigmem_cost(p->resident_bytes) +
           ts_bigmem_cost(p->n_slots * p->slot_bytes) + ts_bigmem_cost(m->copy_bytes) +
           m->spare_bytes;
}

void ts_dry_run(const struct ts_engine *e, const struct ts_spec *spec, struct ts_dry_run *ret)
{
    struct ts_feed_deal deal = { 0 };
    *ret = (struct ts_dry_run){ 0 };
    e->backend->deal(e->be, &deal);
    if (ts_backend_can(e->backend, TS_CAN_OWN_MEMORY))
        ret->n_devices = e->backend->memory(e->be, ret->device);
    if (e->tensor->dense != NULL) {
        count_slabs(e, spec, &deal, ret);
    } else {
        ret->resident_bytes = e->residency.resident_bytes;
        ret->slot_bytes = e->residency.slot_bytes;
        ret->n_slots = e->residency.n_slots;
        for (uint32_t m = 0; m < e->tensor->order; m++)
            count_mode(e, spec, &deal, m, ret);
    }
    ret->host_bytes = host_bytes(e, ret);
}
