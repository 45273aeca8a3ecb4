/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares the product of a model in a pass: its factors, its buffer, and the precision of its
 * sums. */
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_device.h"

/* Chooses the buffer and the precision of the product. */
static void choose_out(struct ts_gpu_product *r, uint32_t mode)
{
    const struct ts_gpu *g = r->of->gpu;
    const struct ts_gpu_replica *my = r->my;
    const int for_fit =
        mode + 1 == g->tensor->order && (r->update == NULL || r->sums->inner != NULL);
    const int kept = r->update != NULL && my->product != NULL;
    if (r->pass->ask->kind ==
        TS_REQUEST_MULTIPLY) { /* the multiplied rows are sent, not products */
        r->apart = 1;
        r->out = TS_GPU_APART;
        r->out_bytes = ts_gpu_row_bytes(r->of);
        r->args.out = my->phi;
        return;
    }
    if (r->pass->ask->kind == TS_REQUEST_DESCEND) {
        /* the gradient is stored in the buffer `apart` */
        r->apart = 1;
        r->out = TS_GPU_APART;
        r->out_bytes = ts_gpu_row_bytes(r->of);
        r->args.out = my->apart;
        return;
    }
    if (ts_gpu_solves_observed(r)) { /* kernels solve for rows at once, without storing products */
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

void ts_gpu_product_fill(struct ts_gpu_pass *p, const struct ts_request *u,
                         struct ts_gpu_product *r)
{
    const struct ts_gpu *g = p->g;
    const struct ts_gpu_member *me = p->me;
    struct ts_gpu_model *of = u->be;
    *r = (struct ts_gpu_product){
        .pass = p,
        .of = of,
        .my = &p->me->replica[of->number],
        .want = u,
    };
    if (p->ask->kind == TS_REQUEST_PRODUCT || p->ask->kind == TS_REQUEST_ROWS) {
        r->update = u->update;
        r->sums = u->sums;
    }
    if (p->ask->kind == TS_REQUEST_MULTIPLY && p->ask->multiplies)
        r->rounds = u->multiply->rounds;
    r->args = ts_gpu_device_args(of, me);
    if (ts_gpu_solves_observed(r))
        r->args.edge_row = r->my->edge_row;
    r->args.share_blocks = p->mode->share_blocks;
    for (uint32_t l = 1; l < g->tensor->order; l++)
        r->args.factor[l - 1] = r->my->factor[g->tensor->mode[p->ask->mode].disk.level[l]];
    choose_out(r, p->ask->mode);
}
