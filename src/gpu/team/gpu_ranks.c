/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers the members (GPUs) of several processes that form one team, and makes decisions that all
 * processes share.
 *
 * In `agree`, a function of the comm (stream/comm.h: messages between processes), all processes
 * learn whether one has failed. Between it and the next collective call of the comm, no step may
 * fail. So a process that has failed always meets the others in `agree`. During a pass, processes
 * poll for failures of others (gpu_team.c). */
#include <cuda_runtime.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_team.h"

/* Nanoseconds in which a failing process has to report its failure, after NCCL has noticed its
 * silence. */
#define WORD_NS UINT64_C(2000000000)

static int gather(struct ts_gpu *g, void *array, const uint64_t *byte, struct ts_err *err)
{
    return g->comm->ops->gather(g->comm, array, byte, err);
}

/* ---- opening of the team ---- */

static int too_many(uint32_t n, struct ts_err *err)
{
    return ts_fail(err, TS_ELIMIT, "%u processes have more than %u GPUs together", n, TS_MAX_TEAM);
}

/* Sets first_of[p] to the number of the first member (GPU) of process p, from the numbers of
 * members that all processes have. All processes get the same result. */
static int count_members(struct ts_gpu *g, uint32_t n_here, struct ts_err *err)
{
    const uint32_t n = g->comm->n;
    uint64_t *byte = calloc(n + UINT64_C(1), sizeof *byte);
    int rc;
    g->first_of = calloc(n + UINT64_C(1), sizeof *g->first_of);
    rc = byte == NULL || g->first_of == NULL ? ts_fail(err, TS_ENOMEM, "out of memory") : 0;
    rc = g->comm->ops->agree(g->comm, rc, err);
    if (rc == 0) {
        for (uint32_t p = 0; p <= n; p++)
            byte[p] = p * sizeof *g->first_of;
        g->first_of[g->comm->rank] = n_here;
        rc = gather(g, g->first_of, byte, err);
    }
    free(byte);
    /* replaces the counts by the number of each process's first member (GPU) */
    for (uint32_t p = 0, sum = 0; rc == 0 && p <= n; p++) {
        const uint32_t count = g->first_of[p];
        g->first_of[p] = sum;
        sum += count;
        if (sum > TS_MAX_TEAM)
            return too_many(n, err);
    }
    return rc;
}

/* Reads the name of the machine in the same way as NCCL, including NCCL_HOSTID: if that differs,
 * NCCL treats one GPU of two processes as two. */
static void read_machine(char *ret, size_t size)
{
    const char *named = getenv("NCCL_HOSTID");
    int fd;
    ssize_t n;
    if (named != NULL) {
        snprintf(ret, size, "%.*s", (int)size - 1, named);
        return;
    }
    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, ret, size - 1);
    if (n <= 0)
        (void)gethostname(ret, size - 1);
    if (fd >= 0)
        close(fd);
}

static int fill_card(int device, struct ts_gpu_card *c, struct ts_err *err)
{
    struct cudaDeviceProp prop;
    const ts_gpu_error e = cudaGetDeviceProperties(&prop, device);
    if (e != cudaSuccess)
        return ts_gpu_fail(err, e, "the GPU cannot be used");
    _Static_assert(sizeof prop.uuid == sizeof c->uuid, "16 bytes");
    memcpy(c->uuid, &prop.uuid, sizeof c->uuid);
    snprintf(c->name, sizeof c->name, "%.71s", prop.name);
    read_machine(c->machine, sizeof c->machine);
    return 0;
}

/* Fails unless all GPUs are of one kind. Each process computes some sums separately, and GPUs of
 * one kind give the same bits. */
static int check_names(const struct ts_gpu *g, struct ts_err *err)
{
    for (uint32_t i = 1; i < g->n_members; i++)
        if (strcmp(g->card[i].name, g->card[0].name) != 0)
            return ts_fail(
                err, TS_EARG,
                "several processes take GPUs of one kind, and these are of two: %s and %s",
                g->card[0].name, g->card[i].name);
    return 0;
}

/* Gathers the cards (descriptions) of all devices. rc: the result of earlier steps of this
 * process. */
static int share_cards(struct ts_gpu *g, const int *device, int rc, struct ts_err *err)
{
    uint64_t first[TS_MAX_TEAM + 1];
    g->card = calloc(g->n_members, sizeof *g->card);
    if (rc == 0 && g->card == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < g->n_here && rc == 0; i++)
        rc = fill_card(device[i], &g->card[g->first_here + i], err);
    rc = g->comm->ops->agree(g->comm, rc, err);
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = i;
    if (rc == 0)
        rc = ts_gpu_ranks_gather(g, g->card, sizeof *g->card, first, err);
    return rc == 0 ? check_names(g, err) : rc;
}

/* Allocates all members. Only those of this process have devices. */
static int make_members(struct ts_gpu *g, const int *device, struct ts_err *err)
{
    g->member = calloc(g->n_members, sizeof *g->member);
    if (g->member == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u GPUs", g->n_members);
    for (uint32_t i = 0; i < g->n_members; i++) {
        g->member[i].gpu = g;
        g->member[i].number = i;
        g->member[i].device = ts_gpu_is_here(g, i) ? device[i - g->first_here] : -1;
    }
    return 0;
}

/* Sets the number of members (GPUs), and which of them are in this process. */
static int number_members(struct ts_gpu *g, struct ts_comm *comm, uint32_t n_here,
                          struct ts_err *err)
{
    int rc;
    if (!ts_comm_many(comm)) {
        g->n_members = n_here;
        return 0;
    }
    if (comm->ops == NULL) { /* a plan, in which all processes have equally many GPUs */
        if (comm->n > TS_MAX_TEAM / n_here)
            return too_many(comm->n, err);
        g->is_plan = 1;
        g->n_members = comm->n * n_here;
        g->first_here = comm->rank * n_here;
        return 0;
    }
    g->comm = comm;
    rc = count_members(g, n_here, err);
    if (rc < 0)
        return rc;
    g->n_members = g->first_of[comm->n];
    g->first_here = g->first_of[comm->rank];
    return 0;
}

int ts_gpu_ranks_join(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err)
{
    const uint32_t n_here = conf->n_devices > 0 ? conf->n_devices : 1;
    int rc = number_members(g, conf->comm, n_here, err);
    if (rc < 0)
        return rc;
    g->n_here = n_here;
    rc = make_members(g, conf->device, err);
    if (g->comm != NULL)
        rc = share_cards(g, conf->device, rc, err);
    if (g->member == NULL)
        g->n_members = g->n_here = 0;
    return rc;
}

void ts_gpu_ranks_leave(struct ts_gpu *g)
{
    free(g->member);
    free(g->card);
    free(g->first_of);
}

int ts_gpu_ranks_share(const struct ts_gpu *g)
{
    for (uint32_t i = 0; g->card != NULL && i < g->n_members; i++)
        for (uint32_t j = 0; j < i; j++)
            if (memcmp(g->card[i].uuid, g->card[j].uuid, sizeof g->card[i].uuid) == 0 &&
                strcmp(g->card[i].machine, g->card[j].machine) == 0)
                return 1;
    return 0;
}

/* The result of a process in a step of opening the backend: TS_ELIMIT with its message, or 0. */
struct limit {
    int rc;
    char text[500];
};

int ts_gpu_ranks_settle(struct ts_gpu *g, int rc, struct ts_err *err)
{
    struct limit *all;
    uint64_t *byte;
    int hard = rc == TS_ELIMIT ? 0 : rc;
    if (g->comm == NULL)
        return rc;
    all = calloc(g->comm->n, sizeof *all);
    byte = calloc(g->comm->n + UINT64_C(1), sizeof *byte);
    if (all == NULL || byte == NULL)
        hard = ts_fail(err, TS_ENOMEM, "out of memory");
    if (rc == TS_ELIMIT && hard == 0) {
        all[g->comm->rank].rc = rc;
        snprintf(all[g->comm->rank].text, sizeof all->text, "%.499s", err->text);
    }
    hard = g->comm->ops->agree(g->comm, hard, err);
    for (uint32_t p = 0; hard == 0 && p <= g->comm->n; p++)
        byte[p] = p * sizeof *all;
    if (hard == 0)
        hard = gather(g, all, byte, err);
    for (uint32_t p = 0; p < g->comm->n && hard == 0; p++)
        if (all[p].rc < 0 && rc == TS_ELIMIT)
            hard = TS_ELIMIT; /* err already has the message of this process */
        else if (all[p].rc < 0)
            hard = ts_fail(err, TS_ELIMIT, "as rank %u says: %s", p, all[p].text);
    free(all);
    free(byte);
    return hard;
}

int ts_gpu_ranks_least(struct ts_gpu *g, uint64_t *x, struct ts_err *err)
{
    uint64_t all[TS_MAX_TEAM], byte[TS_MAX_TEAM + 1];
    int rc;
    if (g->comm == NULL)
        return 0;
    for (uint32_t p = 0; p <= g->comm->n; p++) /* no overflow: every process has a member (GPU) */
        byte[p] = p * sizeof *all;
    all[g->comm->rank] = *x;
    rc = gather(g, all, byte, err);
    for (uint32_t p = 0; p < g->comm->n && rc == 0; p++)
        *x = all[p] < *x ? all[p] : *x;
    return rc;
}

void ts_gpu_ranks_link(struct ts_gpu *g)
{
    const char *p2p = getenv("NCCL_P2P_DISABLE"), *shm = getenv("NCCL_SHM_DISABLE");
    int apart = p2p != NULL && strcmp(p2p, "1") == 0 && shm != NULL && strcmp(shm, "1") == 0;
    const char *note;
    if (g->exchange == NULL)
        return;
    note = ts_exchange_note(g->exchange);
    for (uint32_t i = 1; g->card != NULL && i < g->n_members; i++)
        apart |= strcmp(g->card[i].machine, g->card[0].machine) != 0;
    snprintf(g->link, sizeof g->link, "%s%s%.120s%s",
             ts_exchange_used(g->exchange) == TS_EXCHANGE_COPY   ? "by copies from GPU to GPU"
             : ts_exchange_used(g->exchange) == TS_EXCHANGE_HOST ? "through host memory"
             : apart                                             ? "by NCCL over the network"
                                                                 : "by NCCL within the machine",
             note == NULL ? "" : " (", note == NULL ? "" : note, note == NULL ? "" : ")");
}

/* ---- results of passes ---- */

/* Waits up to WORD_NS for another process to report that it stops. Returns whether one did. */
static int hears_word(struct ts_gpu *g)
{
    static const struct timespec moment = { 0, 1000000 };
    const uint64_t since = ts_clock_ns();
    while (!g->comm->ops->poll(g->comm)) {
        if (ts_clock_ns() - since > WORD_NS)
            return 0;
        nanosleep(&moment, NULL);
    }
    return 1;
}

int ts_gpu_ranks_end(struct ts_gpu *g, int rc, struct ts_err *err)
{
    if (g->comm == NULL || g->ended)
        return rc;
    if (rc < 0 && rc != TS_ESTOP && g->exchange != NULL && ts_exchange_suspects(g->exchange) &&
        hears_word(g))
        rc = ts_fail(err, TS_ESTOP, "another rank has stopped");
    rc = g->comm->ops->agree(g->comm, rc, err);
    g->ended = rc < 0;
    /* the other processes may be gone, but closing the exchange would need all of them */
    if (rc < 0 && g->exchange != NULL)
        ts_exchange_abort(g->exchange);
    return rc;
}

int ts_gpu_ranks_gather(struct ts_gpu *g, void *array, uint64_t bytes, const uint64_t *first,
                        struct ts_err *err)
{
    uint64_t byte[TS_MAX_TEAM + 1];
    if (g->comm == NULL)
        return 0;
    for (uint32_t p = 0; p <= g->comm->n; p++)
        byte[p] = first[g->first_of[p]] * bytes;
    return gather(g, array, byte, err);
}

int ts_gpu_ranks_shares(struct ts_gpu *g, uint32_t mode, double *array, uint64_t bytes,
                        struct ts_err *err)
{
    const struct ts_gpu_mode *m = &g->mode[mode];
    uint64_t share[TS_MAX_TEAM + 1];
    for (uint32_t i = 0; i <= g->n_members; i++)
        share[i] = m->passed[i] < m->n_shards ? m->first_share[m->passed[i]] : m->n_shares;
    return ts_gpu_ranks_gather(g, array, bytes, share, err);
}

int ts_gpu_ranks_times(struct ts_gpu *g, struct ts_backend_times *times, uint64_t *range_ns,
                       struct ts_err *err)
{
    struct {
        struct ts_device_times times;
        uint64_t range_ns;
    } all[TS_MAX_TEAM];
    uint64_t first[TS_MAX_TEAM + 1];
    int rc;
    if (g->comm == NULL)
        return 0;
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = i;
    for (uint32_t i = 0; i < g->n_here; i++) {
        all[g->first_here + i].times = times->device[i];
        all[g->first_here + i].times.rank = g->comm->rank;
        all[g->first_here + i].range_ns = range_ns[g->first_here + i];
    }
    rc = ts_gpu_ranks_gather(g, all, sizeof *all, first, err);
    for (uint32_t i = 0; i < g->n_members && rc == 0; i++) {
        times->device[i] = all[i].times;
        range_ns[i] = all[i].range_ns;
    }
    times->n_ranks = g->comm->n;
    times->n_devices = g->n_members;
    return rc;
}
