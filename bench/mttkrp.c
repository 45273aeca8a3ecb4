/* SPDX-License-Identifier: BSD-3-Clause */
/* mttkrp - resident MTTKRP and CP-ALS sweeps of the CPU backend, beside the limits of the machine
 * measured in the same run and the figures of other programs.
 *
 *   mttkrp [--threads N] [--seconds S] [--ranks A,B,..] [--sweep PROGRAM] TENSOR.tsh...
 *
 * A rate is nonzeros x modes / (sum over the modes of the shortest time of one MTTKRP). The bound
 * is what random rows alone would take: for each mode, the nodes of the fibre tree at each level
 * below the root, each one row of that level's factor at the rate measured for its size. Rows that
 * are popular, or come in ascending order, beat it. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/opt.h"
#include "base/rng.h"
#include "bench/measure.h"
#include "bench/sweep.h"
#include "cpu/cpu_backend.h"
#include "cpu/sparse/kernel.h"
#include "format/shard.h"
#ifdef __x86_64__
#include "base/machine/target_avx2.h"

#include "cpu/sparse/plain_expand.h"
#include "base/machine/target_pop.h"
#else
#include "cpu/sparse/plain_expand.h"
#endif

/* M nonzeros/s at ranks 16, 32, 64, float32, 2 threads, and seconds of a sweep at rank 32: the best
 * other program (ALTO with AVX-512 on every line), measured on two cores of an EPYC (Zen 4) whose
 * triad was 37 GB/s and whose random 128-byte rows, both cores, 235, 215, 167, 73 and 22 GB/s from
 * 256 KB, 1, 4, 16 and 64 MB. */
static const struct peer {
    const char *tensor;
    double rate[3], sweep;
} peers[] = {
    { "uniform", { 470, 268, 116 }, 0.126 },        { "power3", { 150, 104, 61 }, 0.400 },
    { "power5", { 129, 90, 65 }, 0.335 },           { "uber-apr-jun14", { 650, 445, 284 }, 0.0127 },
    { "names-us-state", { 554, 435, 263 }, 0.058 }, { "git-history-5d", { 304, 188, 105 }, 0.040 },
    { "fb15k-237", { 805, 509, 199 }, 0.0064 },     { "icews14", { 487, 392, 198 }, 0.0039 },
};

struct args {
    uint32_t threads;
    double seconds;
    const char *ranks, *sweep;
    int thread_time, packed, float64;
};

#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { "threads", 'j', TS_OPT_U32, AT(threads), "0", "N", "threads; 0 takes all CPUs" },
    { "seconds", 's', TS_OPT_DOUBLE, AT(seconds), "0.7", "S", "time for each mode and rank" },
    { "ranks", 'r', TS_OPT_STRING, AT(ranks), "16,32,64", "LIST", "ranks" },
    { "sweep", 0, TS_OPT_STRING, AT(sweep), NULL, "PROGRAM",
      "tstream, to time sweeps of its cp at the same ranks" },
    { "thread-time", 0, TS_OPT_FLAG, AT(thread_time), NULL, NULL,
      "with one thread: its CPU time, for machines in use" },
    { "float64", 0, TS_OPT_FLAG, AT(float64), NULL, NULL, "factors and products in float64" },
    { "packed", 0, TS_OPT_FLAG, AT(packed), NULL, NULL, "decode every time: keep no plain blocks" },
    { 0 },
};
static const struct ts_cmd cmd = {
    .program = "mttkrp",
    .operands = "TENSOR.tsh...",
    .min_operands = 1,
    .max_operands = 100,
    .summary = "times MTTKRP and sweeps on CPU cores",
    .opts = opts,
};

static void check(int rc, const struct ts_err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "mttkrp: %s\n", err->text);
    exit(1);
}

static const struct peer *find_peer(const struct ts_tensor *t)
{
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
        if (strstr(t->path, peers[i].tensor) != NULL)
            return &peers[i];
    return NULL;
}

/* What one pass over all copies, read by ts_tensor_read_shard, shows: the time of decoding alone,
 * and how many nodes each level has. */
struct structure {
    double decode_s, expand_s; /* of packed blocks, and of those kept plain (0: not measured) */
    double nodes[TS_MAX_ORDER][TS_MAX_ORDER]; /* [mode][level] */
};

/* Seconds of expanding the plain blocks of a shard as kernels do, where it is compiled for this
 * machine. */
static double time_expand(const struct ts_tensor *t, uint32_t mode, const struct ts_disk_shard *s,
                          const void *raw)
{
    static struct ts_unpacked u;
    struct ts_plain *store;
    struct ts_plain_conf conf;
    uint64_t best = UINT64_MAX;
    struct ts_err err;
#ifdef __x86_64__
    if (!ts_isa_here(TS_ISA_AVX2))
        return 0;
#endif
    ts_plain_conf(t, mode, 0, &conf);
    check(ts_plain_new(t, ts_plain_bytes(t, (int)mode), &store, &err), &err);
    for (uint32_t k = 0; k < ts_shard_partitions(s); k++)
        ts_plain_add(store, mode, k, s, raw, k, ts_kernel_unpack(ts_isa_best()), &u);
    for (int rep = 0; rep < 3; rep++) {
        const uint64_t begin = ts_clock_thread_ns();
        uint64_t ns;
        for (uint32_t k = 0; k < ts_shard_partitions(s); k++) {
            const uint32_t left = s->n_blocks - k * TS_PARTITION_BLOCKS;
            const void *plain = ts_plain_get(store, mode, k);
            for (uint32_t b = 0; plain != NULL && b < TS_PARTITION_BLOCKS && b < left; b++)
                plain = plain_expand(&conf, plain, &u);
        }
        ns = ts_clock_thread_ns() - begin;
        best = ns < best ? ns : best;
    }
    ts_plain_free(store);
    return 1e-9 * (double)best;
}

static void look_at_shard(const struct ts_tensor *t, uint32_t mode, const struct ts_disk_shard *s,
                          const void *raw, struct structure *ret)
{
    static struct ts_unpacked u;
    struct ts_unpack_conf conf;
    struct ts_block_parts parts;
    uint64_t best = UINT64_MAX;
    ts_kernel_values(t, TS_FLOAT32, &conf);
    for (int rep = 0; rep < 3; rep++) {
        const uint64_t begin = ts_clock_thread_ns();
        uint64_t ns;
        for (uint32_t b = 0; b < s->n_blocks; b++) {
            const struct ts_block_at at = ts_shard_block(s, raw, b);
            ts_kernel_unpack(ts_isa_best())(&conf, &at, &u);
        }
        ns = ts_clock_thread_ns() - begin;
        best = ns < best ? ns : best;
    }
    ret->decode_s += 1e-9 * (double)best;
    ret->expand_s += time_expand(t, mode, s, raw);
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        const struct ts_block_at at = ts_shard_block(s, raw, b);
        struct ts_err err;
        check(ts_block_parse(at.word, at.n_words, t->order, at.nnz, conf.n_codes, &parts, &err),
              &err);
        for (uint32_t l = 1; l < t->order; l++)
            for (int k = 0; k < 4; k++)
                ret->nodes[mode][l] += __builtin_popcountll(parts.flags[l].bit[k]);
    }
}

static struct structure look_at(const struct ts_tensor *t)
{
    const size_t bytes = (size_t)t->header.max_shard_bytes + TS_SHARD_SLACK + TS_PAGE;
    struct structure s = { 0 };
    struct ts_err err;
    void *raw;
    check(ts_bigmem_new(bytes, "shard", &raw, &err), &err);
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; i < t->mode[m].disk.n_shards; i++) {
            check(ts_tensor_read_shard(t, m, i, raw, &err), &err);
            look_at_shard(t, m, &t->mode[m].shard[i], raw, &s);
        }
    ts_bigmem_free(raw, bytes);
    return s;
}

static double row_bound_s(const struct ts_tensor *t, const struct structure *s, uint32_t rank,
                          uint32_t threads)
{
    const uint32_t row_bytes = rank <= 16 ? 64 : rank <= 32 ? 128 : 256;
    double sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint32_t l = 1; l < t->order; l++)
            sum += s->nodes[m][l] *
                   measure_row_seconds(row_bytes,
                                       (double)row_bytes *
                                           (double)t->mode[t->mode[m].disk.level[l]].disk.n_rows,
                                       threads);
    return sum;
}

static void fill(void *be, const struct ts_tensor *t, uint32_t mode, uint32_t rank, double scale)
{
    double row[1024];
    struct ts_err err;
    for (uint64_t i = 0; i < t->mode[mode].disk.n_rows; i++) {
        for (uint32_t r = 0; r < rank; r++)
            row[r] = scale * ts_init_entry(1, mode, i, r);
        check(ts_backend_cpu.put_rows(be, mode, i, 1, row, &err), &err);
    }
}

/* Shortest time of an MTTKRP of `mode`, all its shards in memory. */
static double time_mode(void *be, const struct ts_tensor *t, uint32_t mode, const struct args *args)
{
    struct ts_feed_conf conf = { .tensor = t,
                                 .host_bytes = UINT64_C(1) << 40,
                                 .only_mode = (int)mode };
    const uint64_t begin = ts_clock_ns(), limit = (uint64_t)(args->seconds * 1e9);
    uint64_t best = UINT64_MAX;
    struct ts_feed *feed;
    struct ts_err err;
    check(ts_feed_new(&conf, &feed, &err), &err);
    for (int rep = 0; rep < 4 || ts_clock_ns() - begin < limit; rep++) {
        const uint64_t start = args->thread_time ? ts_clock_thread_ns() : ts_clock_ns();
        uint64_t ns;
        ts_feed_rewind(feed);
        check(ts_backend_cpu.pass(&(struct ts_request){ .be = be }, 1, mode, feed, NULL, &err),
              &err);
        ns = (args->thread_time ? ts_clock_thread_ns() : ts_clock_ns()) - start;
        best = rep > 0 && ns < best ? ns : best; /* the first reads from disk */
    }
    ts_feed_free(feed);
    return 1e-9 * (double)best;
}

/* How often the time of the first mode's MTTKRP it takes when products fall below the range of
 * float32. */
static double subnormal_times(void *be, const struct ts_tensor *t, uint32_t rank,
                              const struct args *args)
{
    const double root = pow(1e-40, 1.0 / (t->order - 1));
    double seconds[2];
    for (int k = 0; k < 2; k++) {
        for (uint32_t m = 0; m < t->order; m++)
            fill(be, t, m, rank, k == 0 ? 1 : root);
        seconds[k] = time_mode(be, t, 0, args);
    }
    return seconds[1] / seconds[0];
}

/* A sweep beside what it may take. */
static void print_sweep(const struct ts_tensor *t, const struct args *args, uint32_t rank,
                        uint32_t threads, const struct peer *peer)
{
    struct sweep s;
    if (args->sweep == NULL || !sweep_time(args->sweep, t, rank, threads, "", &s))
        return;
    printf(
        "         sweep %.3f ms: MTTKRPs %.3f (of it waiting %.3f), solves %.3f (multiply-adds alone "
        "%.3f), rest %.3f: %.2f x what it may take",
        1e3 * s.all, 1e3 * (s.products + s.waiting), 1e3 * s.waiting, 1e3 * s.solve, 1e3 * s.adds,
        1e3 * (s.all - s.products - s.waiting - s.solve), s.all / s.may);
    if (peer != NULL && rank == 32 && peer->sweep > 0)
        printf(", ALTO %.1f ms: %.2f x", 1e3 * peer->sweep, peer->sweep / s.all);
    printf("\n");
}

static void time_tensor(const char *path, const struct args *args, uint32_t threads)
{
    struct ts_tensor *t;
    struct structure s;
    struct ts_err err;
    const struct peer *peer;
    const char *at = args->ranks;
    double work;
    int at_first = 0;
    check(ts_tensor_open(path, &t, &err), &err);
    work = 1e-6 * (double)t->nnz * t->order;
    peer = find_peer(t);
    s = look_at(t);
    printf("%s: %llu nonzeros, order %u; decoding alone %.0f M/s a core", path,
           (unsigned long long)t->nnz, t->order, work / s.decode_s);
    if (s.expand_s > 0)
        printf(", of plain blocks %.0f", work / s.expand_s);
    printf("\n");
    while (*at != '\0') {
        const uint32_t rank = (uint32_t)strtoul(at, (char **)&at, 10);
        const struct ts_backend_conf conf = {
            .tensor = t,
            .rank = rank,
            .precision = args->float64 ? TS_FLOAT64 : TS_FLOAT32,
            .threads = threads,
            .only_mode = -1,
            .spare_bytes = args->packed ? 0 : ts_plain_bytes(t, -1),
        };
        const double bound = row_bound_s(t, &s, rank, threads);
        double sum = 0;
        void *be;
        check(ts_backend_cpu.open(&conf, &be, &err), &err);
        for (uint32_t m = 0; m < t->order; m++)
            fill(be, t, m, rank, 1);
        printf("  R %3u  modes", rank);
        for (uint32_t m = 0; m < t->order; m++) {
            const double seconds = time_mode(be, t, m, args);
            fill(be, t, m, rank, 1);
            printf(" %4.0f", 1e-6 * (double)t->nnz / seconds);
            sum += seconds;
        }
        printf("   all %4.0f M/s, random rows alone %4.0f, decoding %2.0f %%", work / sum,
               work / bound, 100 * (args->packed ? s.decode_s : s.expand_s) / (sum * threads));
        if (peer != NULL && (rank == 16 || rank == 32 || rank == 64)) {
            const double rate = peer->rate[rank == 16 ? 0 : rank == 32 ? 1 : 2];
            printf(", ALTO %3.0f: %.2f x", rate, work / sum / rate);
        }
        printf("\n");
        if (at_first++ == 0)
            printf("         products below 1e-38: %.2f x the time of others\n",
                   subnormal_times(be, t, rank, args));
        ts_backend_cpu.close(be);
        print_sweep(t, args, rank, threads, peer);
        fflush(stdout);
        at += *at == ',';
    }
    ts_tensor_close(t);
}

int main(int argc, char **argv)
{
    char *operand[100];
    uint32_t n, threads;
    struct args args;
    struct ts_err err;
    const int rc = ts_opt_parse(&cmd, argc, argv, &args, &n, operand, NULL, &err);
    check(rc, &err);
    if (rc == 1) {
        ts_opt_help(&cmd, stdout);
        return 0;
    }
    threads = args.threads > 0 ? args.threads : (uint32_t)omp_get_num_procs();
    printf("%u threads, %s, triad %.1f GB/s\n", threads, args.float64 ? "float64" : "float32",
           1e-9 * measure_triad(threads));
    for (uint32_t i = 0; i < n; i++)
        time_tensor(operand[i], &args, threads);
    return 0;
}
