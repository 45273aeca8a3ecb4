/* SPDX-License-Identifier: BSD-3-Clause */
/* Scores on GPUs: sums of residuals at all nonzeros, and for each slice of a mode (the nonzeros
 * with one index).
 *
 * A pass leaves the sums of shares and of slices on the device that computed them. A share is one
 * thread block's nonzeros. A warp sums a unit, a fourth of a share. The sums of a slice inside a
 * unit are complete. Sums of the first and last slice of each unit are added on the host, in the
 * order of the file. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"
#include "gpu/sparse/score_kernel.h"

/* Number of slices whose sums are copied to the host at once. */
#define PIECE (UINT64_C(1) << 15)

struct job {
    const struct ts_gpu_model *of;
    uint32_t mode;
    int slices;
    uint32_t turn; /* the member (GPU) whose sums are being fetched */
    /* for each share (one thread block's nonzeros): sums of all members (GPUs), and of one
     * member */
    struct ts_score_share *share, *share_here;
    /* 2 partial sums (parts) for each unit (a warp's nonzeros) */
    struct ts_score_sums *part, *part_here;
    uint32_t *row, *row_here; /* row numbers of these partial sums */
    /* slice: sums of each row over all members (GPUs); piece: those of one member for PIECE rows */
    struct ts_score_sums *slice, *piece;
};

static uint64_t shares_of(const struct job *j)
{
    return j->of->gpu->mode[j->mode].n_shares;
}

static uint64_t parts_of(const struct job *j)
{
    return 2 * TS_SCORE_UNITS * shares_of(j);
}

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "scores of a model");
}

/* ---- kernels of a pass */

ts_gpu_error ts_gpu_scores_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_scores *want = r->want->scores;
    const struct ts_gpu_scores what = {
        .own = r->my->factor[p->ask->mode],
        .logs = want->counts,
        .share = r->my->score_share,
        .slice = want->slice != NULL ? r->my->score_slice : NULL,
        .part = r->my->score_part,
    };
    return ts_scores_launch(p->g->precision, args, &what, stream);
}

ts_gpu_error ts_gpu_scores_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_scores what = { .own = my->factor[0],
                                        .logs = 1,
                                        .share = my->score_share,
                                        .slice = my->score_slice,
                                        .part = my->score_part };
    return ts_scores_launch(of->gpu->precision, args, &what, me->dense);
}

/* ---- work before and after a pass */

/* Clears the sums on a device. The sums of shares (thread blocks' nonzeros) that a member does not
 * compute stay zero, and no row number is set for their partial sums. */
static int clear_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const struct ts_gpu_replica *my = &me->replica[j->of->number];
    ts_gpu_error e =
        cudaMemsetAsync(my->score_share, 0, shares_of(j) * sizeof *my->score_share, me->dense);
    if (j->slices) {
        TRY(e, cudaMemsetAsync(my->score_slice, 0,
                               g->mode[j->mode].n_rows * sizeof *my->score_slice, me->dense));
        TRY(e, cudaMemsetAsync(my->score_part, 0, parts_of(j) * sizeof *my->score_part, me->dense));
        TRY(e, cudaMemsetAsync(me->edge_row, 0xff, parts_of(j) * sizeof *me->edge_row, me->dense));
    }
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static void add(struct ts_score_sums *to, const struct ts_score_sums *x)
{
    to->n += x->n;
    to->weight += x->weight;
    to->value += x->value;
    to->model += x->model;
    to->squares += x->squares;
    to->magnitudes += x->magnitudes;
}

/* Copies bytes from the device to the host, and waits for the copy. */
static ts_gpu_error fetch(struct ts_gpu_member *me, void *to, const void *from, uint64_t bytes)
{
    ts_gpu_error e = bytes == 0
                         ? cudaSuccess
                         : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, me->dense);
    TRY(e, cudaStreamSynchronize(me->dense));
    return e;
}

static ts_gpu_error fetch_slices(struct job *j, struct ts_gpu_member *me)
{
    const struct ts_gpu_replica *my = &me->replica[j->of->number];
    const uint64_t n_rows = j->of->gpu->mode[j->mode].n_rows, n = parts_of(j);
    ts_gpu_error e = fetch(me, j->part_here, my->score_part, n * sizeof *j->part);
    TRY(e, fetch(me, j->row_here, me->edge_row, n * sizeof *j->row));
    for (uint64_t k = 0; k < n && e == cudaSuccess; k++)
        if (j->row_here[k] != UINT32_MAX) {
            /* each unit (a warp's nonzeros) is computed by one member (GPU), so its sums are
             * copied, not added */
            j->part[k] = j->part_here[k];
            j->row[k] = j->row_here[k];
        }
    for (uint64_t i = 0; i < n_rows && e == cudaSuccess; i += PIECE) {
        const uint64_t piece = n_rows - i < PIECE ? n_rows - i : PIECE;
        e = fetch(me, j->piece, my->score_slice + i, piece * sizeof *j->piece);
        for (uint64_t k = 0; k < piece && e == cudaSuccess; k++)
            add(&j->slice[i + k], &j->piece[k]);
    }
    return e;
}

/* Fetches the sums of one member (GPU) at a time, because they are added to the same arrays. */
static int fetch_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    struct job *j = arg;
    ts_gpu_error e;
    (void)g;
    if (me->number != j->turn)
        return 0;
    e = fetch(me, j->share_here, me->replica[j->of->number].score_share,
              shares_of(j) * sizeof *j->share);
    for (uint64_t k = 0; k < shares_of(j) && e == cudaSuccess; k++)
        /* each share (one thread block's nonzeros) is computed by one member (GPU), so its sums are
         * copied, not added */
        if (j->share_here[k].sums.n > 0)
            j->share[k] = j->share_here[k];
    if (j->slices)
        TRY(e, fetch_slices(j, me));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* ---- answering a request */

uint64_t ts_gpu_scores_rows(const struct ts_gpu *g)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        if (ts_gpu_served(g, m) && g->mode[m].n_rows > most)
            most = g->mode[m].n_rows;
    return most;
}

uint64_t ts_gpu_scores_host_bytes(const struct ts_mode *mode, int slices)
{
    uint64_t n_partitions = 0, n = 0;
    uint32_t blocks;
    for (uint64_t i = 0; i < mode->disk.n_shards; i++)
        n_partitions += ts_shard_partitions(&mode->shard[i]);
    blocks = ts_mttkrp_share_blocks(n_partitions);
    for (uint64_t i = 0; i < mode->disk.n_shards; i++)
        n += ts_mttkrp_shares(mode->shard[i].n_blocks, blocks);
    return 2 * n * sizeof(struct ts_score_share) +
           (slices ? 4 * TS_SCORE_UNITS * n * (sizeof(struct ts_score_sums) + sizeof(uint32_t)) +
                         PIECE * sizeof(struct ts_score_sums)
                   : 0);
}

static int check(const struct ts_gpu_model *of, const struct ts_scores *scores, struct ts_err *err)
{
    const struct ts_gpu *g = of->gpu;
    if (g->cells != NULL)
        return ts_fail(err, TS_EARG, "scores of a dense tensor are computed on CPU cores only");
    if (g->comm != NULL)
        return ts_fail(err, TS_EARG, "several processes compute scores on CPU cores only");
    if (!g->scores || (scores->slice != NULL && !g->slices))
        return ts_fail(err, TS_EARG, "no GPU memory was set aside for scores");
    return 0;
}

static int new_job(struct job *j, const struct ts_scores *scores, struct ts_err *err)
{
    const uint64_t n = shares_of(j), parts = parts_of(j);
    int there;
    j->slices = scores->slice != NULL;
    j->slice = scores->slice;
    j->share = calloc(n + 1, sizeof *j->share);
    j->share_here = malloc((n + 1) * sizeof *j->share_here);
    there = j->share != NULL && j->share_here != NULL;
    if (there && j->slices) {
        j->part = calloc(parts + 1, sizeof *j->part);
        j->part_here = malloc((parts + 1) * sizeof *j->part_here);
        j->row = malloc((parts + 1) * sizeof *j->row);
        j->row_here = malloc((parts + 1) * sizeof *j->row_here);
        j->piece = malloc(PIECE * sizeof *j->piece);
        there = j->part != NULL && j->part_here != NULL && j->row != NULL && j->row_here != NULL &&
                j->piece != NULL;
    }
    if (!there)
        return ts_fail(err, TS_ENOMEM, "out of memory for sums of residuals");
    for (uint64_t k = 0; j->slices && k < parts; k++)
        j->row[k] = UINT32_MAX;
    return 0;
}

static void free_job(struct job *j)
{
    free(j->share);
    free(j->share_here);
    free(j->part);
    free(j->part_here);
    free(j->row);
    free(j->row_here);
    free(j->piece);
}

static void add_up(const struct job *j, struct ts_scores *scores)
{
    uint64_t others = 0;
    scores->all = (struct ts_score_sums){ 0 };
    scores->logs = 0;
    for (uint64_t k = 0; k < shares_of(j); k++) {
        add(&scores->all, &j->share[k].sums);
        scores->logs += j->share[k].logs;
        others += j->share[k].others;
    }
    scores->counts = scores->counts && others == 0;
    for (uint64_t k = 0; j->slices && k < parts_of(j); k++)
        if (j->row[k] != UINT32_MAX)
            add(&j->slice[j->row[k]], &j->part[k]);
}

int ts_gpu_scores(struct ts_gpu_model *of, uint32_t mode, struct ts_feed *feed,
                  struct ts_scores *scores, struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_gpu *g = of->gpu;
    struct job j = { .of = of, .mode = mode };
    const struct ts_request one = { .be = of, .scores = scores };
    const struct ts_gpu_request ask = {
        .mode = mode, .feed = feed, .kind = TS_REQUEST_SCORES, .n = 1, .of = &one
    };
    int rc = check(of, scores, err);
    if (rc == 0)
        rc = new_job(&j, scores, err);
    if (rc == 0)
        rc = ts_gpu_team_run(g, clear_job, &j, NULL, err);
    if (rc == 0)
        rc = ts_gpu_pass_run(g, &ask, times, err);
    for (; j.turn < g->n_members && rc == 0; j.turn++)
        rc = ts_gpu_team_run(g, fetch_job, &j, NULL, err);
    if (rc == 0)
        add_up(&j, scores);
    free_job(&j);
    return rc;
}
