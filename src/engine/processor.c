/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses between GPUs and CPU, and explains why a GPU is not used. */
#include "engine/processor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "cpu/cpu_backend.h"
#include "engine/gpu_part_find.h"
#include "stream/comm.h"

/* The value of --gpus: the first n usable GPUs, or a list of n numbers. */
struct wanted {
    uint32_t n;
    int by_number;
    int number[TS_MAX_DEVICES];
};

/* Parses a number that is followed by one of `ends`, and moves *text past both. */
static int parse_number(const char **text, const char *ends, int *ret)
{
    char *end;
    long n;
    if (**text < '0' || **text > '9')
        return 0;
    errno = 0;
    n = strtol(*text, &end, 10);
    if (errno != 0 || n > INT32_MAX || strchr(ends, *end) == NULL)
        return 0;
    *ret = (int)n;
    *text = end;
    return 1;
}

static int parse_list(const char *text, struct wanted *w, struct ts_err *err)
{
    const char *at = text;
    w->by_number = 1;
    while (*at != '\0') {
        int number;
        if (!parse_number(&at, ",", &number))
            return ts_fail(err, TS_EARG,
                           TS_SET_GPUS
                           " %s: numbers of GPUs with commas are wanted, as 0,2 (number 2 "
                           "alone: 2,)",
                           text);
        for (uint32_t i = 0; i < w->n; i++)
            if (w->number[i] == number)
                return ts_fail(err, TS_EARG, TS_SET_GPUS " %s: GPU %d is named twice", text,
                               number);
        if (w->n == TS_MAX_DEVICES)
            return ts_fail(err, TS_EARG, TS_SET_GPUS " %s: a run uses at most %u GPUs", text,
                           TS_MAX_DEVICES);
        w->number[w->n++] = number;
        at += *at == ',';
    }
    return 0;
}

static int parse_gpus(const char *text, struct wanted *w, struct ts_err *err)
{
    const char *at = text;
    int n;
    memset(w, 0, sizeof *w);
    if (strchr(text, ',') != NULL)
        return parse_list(text, w, err);
    if (!parse_number(&at, "", &n))
        return ts_fail(err, TS_EARG,
                       TS_SET_GPUS
                       " %s: how many GPUs (2), or their numbers with commas (0,2; number 2 "
                       "alone: 2,)",
                       text);
    if (n > TS_MAX_DEVICES)
        return ts_fail(err, TS_EARG, TS_SET_GPUS " %s: a run uses at most %u GPUs", text,
                       TS_MAX_DEVICES);
    w->n = (uint32_t)n;
    return 0;
}

int ts_processor_check(const struct ts_processor *asked_for, struct ts_err *err)
{
    struct wanted w;
    int rc;
    if (asked_for->cpu && asked_for->device_bytes > 0)
        return ts_fail(err, TS_EARG, TS_SET_CPU " and " TS_SET_GPU_MEMORY " exclude each other");
    if (asked_for->gpus == NULL)
        return 0;
    rc = parse_gpus(asked_for->gpus, &w, err);
    if (rc == 0 && w.n > 0 && asked_for->cpu)
        rc = ts_fail(err, TS_EARG, TS_SET_CPU " and " TS_SET_GPUS " %s exclude each other",
                     asked_for->gpus);
    if (rc == 0 && w.n == 0 && asked_for->device_bytes > 0)
        rc = ts_fail(err, TS_EARG, TS_SET_GPUS " %s and " TS_SET_GPU_MEMORY " exclude each other",
                     asked_for->gpus);
    return rc;
}

uint32_t ts_processor_gpus(const struct ts_processor *asked_for)
{
    struct wanted w;
    struct ts_err err;
    if (asked_for->gpus == NULL)
        return asked_for->device_bytes > 0;
    return parse_gpus(asked_for->gpus, &w, &err) < 0 ? 0 : w.n;
}

static int choose_numbers(const struct ts_gpu_part *gpu, const char *asked, const struct wanted *w,
                          int there, struct ts_backend_conf *conf, struct ts_err *err)
{
    char why[160];
    for (uint32_t i = 0; i < w->n; i++) {
        const int number = w->number[i];
        if (number >= there)
            return ts_fail(
                err, TS_ECUDA,
                "%s: there is no GPU %d, only %s%d (CUDA_VISIBLE_DEVICES counts); tstream "
                "devices lists them",
                asked, number, there > 1 ? "0 to " : "", there - 1);
        if (!gpu->usable(number, why))
            return ts_fail(err, TS_ECUDA, "%s: GPU %d cannot be used: %s", asked, number, why);
        conf->device[conf->n_devices++] = number;
    }
    return 0;
}

/* Chooses the first n usable GPUs. Processes of one host take them in turn. They start again at the
 * first GPU if there are too few, or if the launcher shows each process its own GPUs only. */
static int choose_first(const struct ts_gpu_part *gpu, const char *asked, uint32_t n, int there,
                        struct ts_backend_conf *conf, struct ts_err *err)
{
    const uint32_t place = ts_comm_many(conf->comm) ? conf->comm->place : 0;
    int *usable = calloc((size_t)there, sizeof *usable);
    char why[160] = "";
    uint32_t n_usable = 0;
    int rc = 0;
    if (usable == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    for (int i = 0; i < there && (n_usable < n || ts_comm_many(conf->comm)); i++)
        if (gpu->usable(i, why))
            usable[n_usable++] = i;
    if (n_usable == 0)
        rc = ts_fail(err, TS_ECUDA, "%s: no GPU can be used: %s", asked, why);
    else if (n_usable < n)
        rc = ts_fail(err, TS_ECUDA, "%s: %u can be used; tstream devices lists them", asked,
                     n_usable);
    for (uint32_t k = 0; k < n && rc == 0; k++)
        conf->device[conf->n_devices++] = usable[(place * n + k) % n_usable];
    free(usable);
    return rc;
}

/* Sets conf->device, or fails with the reason why there is no GPU. *there := the number of GPUs, or
 * a number below 1. */
static int choose_gpus(const char *asked, const struct wanted *w, const struct ts_backend **ret,
                       struct ts_backend_conf *conf, int *there, struct ts_err *err)
{
    const struct ts_gpu_part *gpu;
    struct ts_err none;
    char why[160];
    int rc;
    *there = ts_gpu_part_find(&gpu, &none);
    if (*there <= 0) /* no driver, or one that cannot be used */
        return ts_fail(err, TS_ECUDA, "%s: %s", asked, none.text);
    *there = gpu->count(why);
    if (*there <= 0)
        return ts_fail(err, TS_ECUDA, "%s: %s", asked, why);
    rc = w->by_number ? choose_numbers(gpu, asked, w, *there, conf, err)
                      : choose_first(gpu, asked, w->n, *there, conf, err);
    if (rc == 0)
        *ret = gpu->backend;
    return rc;
}

/* If the backend lacks a capability, or does not support the rank, uses CPU cores instead, unless
 * the user requested GPUs. */
static int check_needs(const struct ts_processor *asked_for, int optional,
                       const struct ts_backend **ret, struct ts_backend_conf *conf,
                       struct ts_err *no_gpu, struct ts_err *err)
{
    const uint32_t most = (*ret)->most_rank(conf);
    const char *say =
        ts_has_capability(conf->needs, TS_CAN_OBSERVED) && conf->rank > most
            ? "a model of observed cells of so high a rank is computed on CPU cores only"
        : conf->rank > most ? "so high a rank is computed on CPU cores only"
                            : "the constraints asked for are computed on CPU cores only";
    if ((conf->needs & ~(*ret)->can) == 0 && conf->rank <= most)
        return 0;
    if (!optional)
        return ts_fail(err, TS_EARG, "%s%s: %s",
                       asked_for->gpus != NULL ? TS_SET_GPUS " " : TS_SET_GPU_MEMORY,
                       asked_for->gpus != NULL ? asked_for->gpus : "", say);
    *ret = &ts_backend_cpu;
    conf->n_devices = 0;
    if (no_gpu != NULL)
        ts_fail(no_gpu, TS_EARG, "computing on the CPU: %s", say);
    return 0;
}

int ts_processor_choose(const struct ts_processor *asked_for, const struct ts_backend **ret,
                        struct ts_backend_conf *conf, struct ts_err *no_gpu, struct ts_err *err)
{
    const int optional = asked_for->gpus == NULL && asked_for->device_bytes == 0;
    struct wanted w = { .n = 1 };
    char asked[96] = TS_SET_GPU_MEMORY;
    int there, rc = ts_processor_check(asked_for, err);
    if (rc == 0 && asked_for->gpus != NULL) {
        rc = parse_gpus(asked_for->gpus, &w, err);
        snprintf(asked, sizeof asked, TS_SET_GPUS " %s", asked_for->gpus);
    }
    if (rc < 0)
        return rc;
    conf->n_devices = 0;
    conf->device_bytes = asked_for->device_bytes;
    conf->exchange = asked_for->exchange;
    *ret = &ts_backend_cpu;
    if (asked_for->cpu || w.n == 0)
        return 0;
    if (!optional) {
        rc = choose_gpus(asked, &w, ret, conf, &there, err);
        return rc == 0 ? check_needs(asked_for, 0, ret, conf, no_gpu, err) : rc;
    }
    rc = choose_gpus("computing on the CPU", &w, ret, conf, &there, no_gpu);
    if (no_gpu != NULL && (rc == 0 || there == 0))
        no_gpu->code = 0;
    return check_needs(asked_for, 1, ret, conf, no_gpu, err);
}

void ts_processor_name(int number, char *ret, size_t room)
{
    const struct ts_gpu_part *gpu;
    ret[0] = '\0';
    if (ts_gpu_part_find(&gpu, NULL) > 0)
        gpu->name(number, ret, room);
}
