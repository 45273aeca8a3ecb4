/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans the stride of rows, the tables of shards, and which shards stay on the devices in the
 * memory that is left. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_plan.h"
#include "stream/balance.h"

/* Bytes of device memory for rows that are being converted to or from float64. */
#define STAGE_BYTES (UINT64_C(16) << 20)

/* Bytes that the link to the host transfers in a third of a millisecond, the shortest time that the
 * work on rows takes at the end of a pass. */
#define END_BYTES (UINT64_C(16) << 20)

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the elements between the starts of neighbouring rows. A row of up to 128 bytes is placed
 * in one cache line: padding rank 25 from 112 to 128 bytes made random reads a third faster. Longer
 * rows take whole sectors. */
uint32_t ts_gpu_plan_stride(uint32_t rank, uint32_t element)
{
    const uint32_t bytes = rank * element;
    const uint32_t unit = bytes <= 16 ? 16 : bytes <= 32 || bytes > 128 ? 32 : 64;
    const uint32_t padded = (bytes + unit - 1) / unit * unit / element;
    return (padded + 3) / 4 * 4;
}

uint64_t ts_gpu_plan_factors(const struct ts_gpu *g)
{
    uint64_t rows = g->apart_rows * (g->multiplies ? 2 : 1), sum = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        rows += g->mode[m].n_rows;
    for (uint32_t k = 0; k < g->n_models; k++)
        sum += rows * ts_gpu_row_bytes(&g->model[k]);
    return sum;
}

uint64_t ts_gpu_plan_largest(const struct ts_gpu *g)
{
    uint64_t most = 0;
    if (g->cells != NULL)
        return ts_gpu_cells_chunk_bytes(g);
    for (uint32_t m = 0; m < g->tensor->order; m++)
        for (uint64_t i = 0; ts_gpu_served(g, m) && i < g->mode[m].n_shards; i++)
            most = more(most, ts_gpu_place(&g->mode[m].shard[i]));
    return most > 0 ? most : 256;
}

static void find_boundary(struct ts_gpu_mode *m)
{
    for (uint64_t i = 0; i < m->n_shards; i++) {
        const uint32_t end[2] = { m->shard[i].row_first, m->shard[i].row_last };
        for (int k = 0; k < 2; k++)
            if (m->n_boundary == 0 || m->boundary[m->n_boundary - 1] != end[k])
                m->boundary[m->n_boundary++] = end[k];
    }
}

static int make_mode(struct ts_gpu *g, uint32_t mode, struct ts_err *err)
{
    const struct ts_mode *t = &g->tensor->mode[mode];
    struct ts_gpu_mode *m = &g->mode[mode];
    const uint64_t n = t->disk.n_shards;
    uint64_t n_partitions = 0;
    m->shard = t->shard;
    m->n_shards = n;
    m->n_rows = t->disk.n_rows;
    m->version = 1;
    m->first_share = calloc(n + 1, sizeof *m->first_share);
    m->keep = calloc(n + 1, 1);
    m->present = calloc(n + 1, 1);
    m->place = calloc(n + 1, sizeof *m->place);
    m->boundary = calloc(2 * n + 1, sizeof *m->boundary);
    m->deal = calloc(n + 1, 1);
    if (m->deal == NULL || m->first_share == NULL || m->keep == NULL || m->present == NULL ||
        m->place == NULL || m->boundary == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for %" PRIu64 " shards", t->shards_path,
                       n);
    for (uint64_t i = 0; i < n; i++)
        n_partitions += ts_shard_partitions(&m->shard[i]);
    m->share_blocks = ts_mttkrp_share_blocks(n_partitions);
    for (uint64_t i = 0; i < n; i++) {
        m->first_share[i] = m->n_shares;
        m->n_shares += ts_gpu_shares(m, i);
    }
    find_boundary(m);
    ts_balance_even(m->shard, n, g->n_members, m->first);
    memcpy(m->passed, m->first, sizeof m->passed);
    return 0;
}

static int make_board(struct ts_gpu *g, struct ts_err *err)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        most = more(most, g->mode[m].n_shards);
    g->board.taken = malloc(most + 1);
    /* Memory for spans (the offset and bytes of data to send) of each model: one span of rows, one
     * of inner products and one of edge rows (partial sums) for each run of consecutive shards that
     * a member (GPU) computes. There are at most as many runs as shards. A shard that another
     * member has taken counts for that member. */
    for (uint32_t i = 0; i < g->n_members && g->board.taken != NULL; i++) {
        g->board.span[i] = malloc((3 * most * g->n_models + 1) * sizeof **g->board.span);
        if (g->board.span[i] == NULL)
            break;
        if (i + 1 == g->n_members)
            return 0;
    }
    return ts_fail(err, TS_ENOMEM, "%s: out of memory for %" PRIu64 " shards", g->tensor->path,
                   most);
}

static int make_models(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err)
{
    g->n_models = conf->n_models > 0 ? conf->n_models : 1;
    g->model = calloc(g->n_models, sizeof *g->model);
    if (g->model == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for %u models", g->tensor->path,
                       g->n_models);
    for (uint32_t k = 0; k < g->n_models; k++) {
        const uint32_t rank = conf->n_models > 0 ? conf->ranks[k] : conf->rank;
        g->model[k] = (struct ts_gpu_model){
            .gpu = g,
            .number = k,
            .rank = rank,
            .ld = ts_gpu_plan_stride(rank, g->element),
            .summed = conf->precision,
            .keeps_rest = conf->precision == TS_FLOAT32 && ts_rest_fits(conf->tensor, rank),
        };
    }
    return 0;
}

/* Returns the elements of a member's `stage` (rows that are being converted to or from float64):
 * whole rows, at most as many as the largest factor has. */
static uint64_t stage_elements(const struct ts_gpu *g, uint64_t most_rows)
{
    uint64_t ret = 0;
    for (uint32_t k = 0; k < g->n_models; k++) {
        const uint32_t rank = g->model[k].rank;
        const uint64_t n = STAGE_BYTES / (8 * (uint64_t)rank);
        ret = more(ret, (n < most_rows ? n : most_rows) * rank);
        /* room for the two moments of a row in a step of Adam */
        ret = more(ret, g->descends ? 2 * (uint64_t)rank : 0);
    }
    return ret;
}

int ts_gpu_plan_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err)
{
    uint64_t most_rows = 1;
    int rc;
    g->tensor = conf->tensor;
    g->precision = conf->precision;
    g->element = conf->precision == TS_FLOAT32 ? 4 : 8;
    g->only_mode = conf->only_mode;
    g->device_bytes = conf->device_bytes;
    g->trace = conf->trace;
    g->done = conf->done;
    g->multiplies = ts_has_capability(conf->needs, TS_CAN_MULTIPLY);
    g->observes = ts_has_capability(conf->needs, TS_CAN_OBSERVED);
    g->holds_out = ts_has_capability(conf->needs, TS_CAN_HELD_OUT);
    g->descends = ts_has_capability(conf->needs, TS_CAN_DESCEND);
    g->scores = ts_has_capability(conf->needs, TS_CAN_SCORES);
    g->slices = ts_has_capability(conf->needs, TS_CAN_SLICES);
    g->done_ctx = conf->done_ctx;
    rc = make_models(g, conf, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        rc = make_mode(g, m, err);
        if (rc < 0)
            return rc;
        most_rows = more(most_rows, g->mode[m].n_rows);
        if ((conf->own_rows >> m & 1) != 0)
            g->apart_rows = more(g->apart_rows, g->mode[m].n_rows);
    }
    g->stage = stage_elements(g, most_rows);
    rc = g->tensor->dense == NULL ? 0 : ts_gpu_cells_new(g, conf, err);
    return rc == 0 ? make_board(g, err) : rc;
}

void ts_gpu_plan_free(struct ts_gpu *g)
{
    ts_gpu_cells_free(g);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(g->mode[m].first_share);
        free(g->mode[m].keep);
        free(g->mode[m].present);
        free(g->mode[m].deal);
        free(g->mode[m].place);
        free(g->mode[m].boundary);
    }
    free(g->board.taken);
    for (uint32_t i = 0; i < TS_MAX_TEAM; i++)
        free(g->board.span[i]);
    free(g->model);
}

/* For a team of one member: keeps on the device the same fraction of every mode's shards, from the
 * mode's first shard on, and stores the shards without gaps. all: bytes of all shards; left: bytes
 * of memory. */
static void pack(struct ts_gpu *g, uint64_t all, uint64_t left)
{
    uint64_t used = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        struct ts_gpu_mode *mode = &g->mode[m];
        uint64_t whole = 0, share, mine = 0;
        if (!ts_gpu_served(g, m))
            continue;
        for (uint64_t i = 0; i < mode->n_shards; i++)
            whole += ts_gpu_place(&mode->shard[i]);
        share = all <= left ? whole : (uint64_t)((double)whole / (double)all * (double)left);
        for (uint64_t i = 0; i < mode->n_shards; i++) {
            const uint64_t bytes = ts_gpu_place(&mode->shard[i]);
            if (mine + bytes > share)
                break;
            mode->keep[i] = 1;
            mode->place[i] = used + mine;
            mine += bytes;
        }
        used += mine;
    }
    g->store_bytes = g->n_slots * g->slot_bytes + used;
}

/* For a team of several members: keeps on the devices the fraction n_keep / most of each member's
 * range of shards. All places (memory for one shard each) have the same size, so that a shard fits
 * in any free place. Each member keeps the middle of its range, so that small moves of a boundary
 * affect only streamed shards. */
static void place(struct ts_gpu *g, uint64_t n_keep, uint64_t most)
{
    for (uint32_t i = 0; i < g->n_members; i++) {
        uint64_t next = 0;
        for (uint32_t m = 0; m < g->tensor->order; m++) {
            struct ts_gpu_mode *mode = &g->mode[m];
            const uint64_t n = mode->first[i + 1] - mode->first[i];
            const uint64_t keep = n_keep >= most ? n : n * n_keep / most;
            const uint64_t from = mode->first[i] + (n - keep) / 2;
            if (!ts_gpu_served(g, m))
                continue;
            for (uint64_t s = from; s < from + keep; s++) {
                mode->keep[s] = 1;
                mode->place[s] = next++ * g->place_bytes;
            }
        }
        for (uint64_t p = g->n_places; p > next; p--)
            g->member[i].free_place[g->member[i].n_free++] = (p - 1) * g->place_bytes;
    }
    g->store_bytes = g->n_slots * g->slot_bytes + g->n_places * g->place_bytes;
}

/* Returns the number of slots whose shards the link transfers during the end of a pass. The end
 * reads and writes all rows some five times, at forty times the link's speed. */
static uint64_t slots_for_rows(const struct ts_gpu *g)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < g->n_models; k++)
            bytes += g->mode[m].n_rows * ts_gpu_row_bytes(&g->model[k]);
        most = bytes > most ? bytes : most;
    }
    /* prefetched shards take 3/4 of the slots (ts_gpu_early_most) */
    return (most / 8 + END_BYTES) / ts_gpu_plan_largest(g) * 4 / 3;
}

/* Sets the number of slots (buffers for streamed shards), and subtracts their bytes from *left.
 * They get half of the memory, or more if the end of a pass takes long. */
static void choose_slots(struct ts_gpu *g, uint64_t *left)
{
    const uint64_t fit = *left / ts_gpu_plan_largest(g);
    uint64_t n = more(fit / 2, less(fit, slots_for_rows(g)));
    n = n < 2 ? 2 : n > TS_GPU_SLOTS ? TS_GPU_SLOTS : n;
    g->slot_bytes = ts_gpu_plan_largest(g);
    g->n_slots = (uint32_t)n;
    *left -= n * g->slot_bytes;
}

uint64_t ts_gpu_plan_all(const struct ts_gpu *g)
{
    uint64_t all = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        for (uint64_t i = 0; ts_gpu_served(g, m) && i < g->mode[m].n_shards; i++)
            all += ts_gpu_place(&g->mode[m].shard[i]);
    return all;
}

int ts_gpu_plan_shards(struct ts_gpu *g, uint64_t left, struct ts_err *err)
{
    const uint64_t all = ts_gpu_plan_all(g);
    uint64_t most = 0, n_keep;
    if (g->cells != NULL) {
        ts_gpu_cells_plan(g, left);
        return 0;
    }
    if (g->n_members == 1) {
        if (all > left)
            choose_slots(g, &left);
        pack(g, all, left);
        return 0;
    }
    for (uint32_t i = 0; i < g->n_members; i++) {
        uint64_t n = 0;
        for (uint32_t m = 0; m < g->tensor->order; m++)
            n += ts_gpu_served(g, m) ? g->mode[m].first[i + 1] - g->mode[m].first[i] : 0;
        most = more(most, n);
    }
    g->place_bytes = ts_gpu_plan_largest(g);
    if (left / g->place_bytes >= most) { /* all shards stay; ranges may grow by a quarter */
        const uint64_t want = most + most / 4 + 2, room = left / g->place_bytes;
        g->n_places = want < room ? want : room;
        n_keep = most;
    } else {
        choose_slots(g, &left);
        g->n_places = left / g->place_bytes;
        /* a part of the places (memory for one shard each) stays free, for shards that move */
        n_keep = g->n_places - (g->n_places + 31) / 32;
    }
    for (uint32_t i = 0; i < g->n_members; i++) {
        g->member[i].free_place = malloc((g->n_places + 1) * sizeof *g->member[i].free_place);
        if (g->member[i].free_place == NULL)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory for %" PRIu64 " places",
                           g->tensor->path, g->n_places);
    }
    place(g, n_keep, most);
    return 0;
}
