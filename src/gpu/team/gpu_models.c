/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses how many models are computed at once. Each model has its own factors and sums on every
 * device, which leave less memory for shards. */
#include <stdlib.h>

#include "gpu/team/gpu_budget.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_plan.h"

/* Bytes that n models take on a device: `least` with two slots for streamed shards, `most` with all
 * shards on the devices. */
struct taken {
    uint64_t least, most;
};

static int add_up(const struct ts_backend_conf *conf, uint32_t n, uint64_t *left, struct taken *ret)
{
    struct ts_backend_conf some = *conf;
    const uint32_t here = conf->n_devices > 0 ? conf->n_devices : 1;
    const uint32_t processes = ts_comm_many(conf->comm) ? conf->comm->n : 1;
    struct ts_gpu g = { .n_here = here, .n_members = here * processes };
    int rc;
    some.n_models = n;
    if (g.n_members > TS_MAX_TEAM) /* `open` reports the error */
        g.n_members = TS_MAX_TEAM;
    g.member = calloc(g.n_members, sizeof *g.member);
    if (g.member == NULL)
        return TS_ENOMEM;
    for (uint32_t i = 0; i < g.n_here; i++)
        g.member[i].device = conf->device[i];
    rc = ts_gpu_plan_new(&g, &some, NULL);
    if (rc == 0) {
        const uint64_t work = ts_gpu_device_work_bytes(&g), largest = ts_gpu_plan_largest(&g);
        ret->least = work + 2 * largest;
        ret->most = work + ts_gpu_plan_all(&g) / g.n_members + largest;
        *left = ts_gpu_budget_guess(&g, conf);
    }
    ts_gpu_plan_free(&g);
    free(g.member);
    return rc;
}

/* Chooses how many models are computed at once: as many as fit the devices. If a smaller number
 * would keep all shards on the devices, it chooses that number, unless it is less than half: a pass
 * that sends shards sends them once for all models. */
uint32_t ts_gpu_models_most(const struct ts_backend_conf *conf)
{
    const uint32_t wanted = conf->n_models < TS_GPU_MODELS ? conf->n_models : TS_GPU_MODELS;
    uint32_t fit = 0;
    if (conf->tensor->dense != NULL)
        return 1;
    for (uint32_t n = wanted; n > 1; n--) {
        struct taken taken;
        uint64_t left;
        if (add_up(conf, n, &left, &taken) < 0)
            continue;
        if (taken.most <= left)
            return n;
        if (fit == 0 && taken.least <= left)
            fit = n;
        if (n <= fit / 2)
            break;
    }
    return fit > 0 ? fit : 1;
}
