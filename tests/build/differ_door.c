/* SPDX-License-Identifier: BSD-3-Clause */
/* differ_door OUT.tsh < CASE: builds a tensor through the builder of the library, as a program in C
 * does, for differ_builds.py. CASE is eleven numbers of 8 bytes (struct given), then the indices,
 * the values and, where there are some, the weights of all nonzeros. Exits with 1 and the sentence
 * of a refusal. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

struct given {
    uint64_t order, n, weighted, float64, keep_zeros, duplicates, memory, threads, shard;
    uint64_t piece, adders; /* nonzeros given at a time, by so many threads in turn */
};

struct adder {
    const struct given *given;
    ts_builder *builder;
    const uint64_t *index;
    const double *value, *weight;
    uint64_t first; /* piece; then each that is `adders` further */
    ts_error err;
    pthread_t thread;
    int rc;
};

static void *read_all(size_t size, uint64_t n)
{
    void *p = malloc((size_t)n * size + 1);
    if (p == NULL || fread(p, size, (size_t)n, stdin) != n) {
        fprintf(stderr, "a case that is cut short\n");
        exit(3);
    }
    return p;
}

static void *add(void *arg)
{
    struct adder *a = arg;
    const struct given *g = a->given;
    for (uint64_t at = a->first * g->piece; at < g->n && a->rc == 0; at += g->adders * g->piece) {
        const uint64_t n = g->n - at < g->piece ? g->n - at : g->piece;
        a->rc = g->weighted ? ts_builder_add_weighted(a->builder, n, a->index + at * g->order,
                                                      a->value + at, a->weight + at, &a->err)
                            : ts_builder_add(a->builder, n, a->index + at * g->order, a->value + at,
                                             &a->err);
    }
    return NULL;
}

/* All adders at once. Returns the first failure. */
static int add_all(struct adder *a, uint64_t n, ts_error *err)
{
    for (uint64_t i = 0; i < n; i++)
        if (pthread_create(&a[i].thread, NULL, add, &a[i]) != 0)
            exit(3);
    for (uint64_t i = 0; i < n; i++)
        pthread_join(a[i].thread, NULL);
    for (uint64_t i = 0; i < n; i++)
        if (a[i].rc < 0) {
            *err = a[i].err;
            return a[i].rc;
        }
    return 0;
}

int main(int argc, char **argv)
{
    struct given g;
    struct adder *a;
    ts_build_conf conf = { .size = sizeof conf };
    ts_build_result result = { .size = sizeof result };
    ts_error err;
    ts_builder *b;
    int rc;
    if (argc != 2 || fread(&g, sizeof g, 1, stdin) != 1 || g.piece == 0 || g.adders == 0)
        return 3;
    conf.out = argv[1];
    conf.order = (uint32_t)g.order;
    conf.weights = (int)g.weighted;
    conf.float64 = (int)g.float64;
    conf.keep_zeros = (int)g.keep_zeros;
    conf.duplicates = (int)g.duplicates;
    conf.memory = g.memory;
    conf.threads = (uint32_t)g.threads;
    conf.shard_bytes = g.shard;
    a = calloc((size_t)g.adders, sizeof *a);
    a[0].index = read_all(8, g.n * g.order);
    a[0].value = read_all(8, g.n);
    a[0].weight = g.weighted ? read_all(8, g.n) : NULL;
    b = ts_builder_new(&conf, &err);
    for (uint64_t i = 0; i < g.adders; i++) {
        a[i] = a[0];
        a[i].given = &g;
        a[i].builder = b;
        a[i].first = i;
    }
    rc = b == NULL ? err.code : add_all(a, g.adders, &err);
    if (rc == 0)
        rc = ts_builder_finish(b, &result, &err);
    ts_builder_free(b);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    else
        printf("%llu runs\n", (unsigned long long)result.runs);
    free((void *)(uintptr_t)a[0].index);
    free((void *)(uintptr_t)a[0].value);
    free((void *)(uintptr_t)a[0].weight);
    free(a);
    return rc < 0;
}
