/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_gate - ratios that are asked of the CPU backend, one line each: threads against one thread,
 * float64 against float32, instruction sets against the best one, ranks that are not a multiple of
 * a vector against the next multiple, and sweeps against what their MTTKRPs leave them.
 *
 *   cpu_gate [--threads A,B,..] [--ranks A,B,..] [--seconds S] [--part NAMES] TENSOR.tsh...
 *
 * What a line compares runs in turn, one MTTKRP of each mode at a time, shards in memory; the ratio
 * is the median of those of the turns, so that what else the machine does counts for both alike.
 * The rate, nonzeros x modes a second, is that of the median turn. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/opt.h"
#include "base/rng.h"
#include "bench/measure.h"
#include "bench/sweep.h"
#include "cpu/sparse/pass.h"

#define MOST_SIDES  8
#define MOST_TURNS  1000
#define LEAST_TURNS 5

struct args {
    const char *threads, *ranks, *part, *sweep;
    double seconds;
    uint32_t largest;
    int thread_time;
};

#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { "threads", 'j', TS_OPT_STRING, AT(threads), NULL, "LIST",
      "numbers of threads: the first is what others are held against, the last what other parts "
      "take; by default 1 and all CPUs" },
    { "ranks", 'r', TS_OPT_STRING, AT(ranks), "16,32,64", "LIST", "ranks" },
    { "seconds", 's', TS_OPT_DOUBLE, AT(seconds), "0.3", "S", "time for each line" },
    { "part", 'p', TS_OPT_STRING, AT(part), "threads,precision,code,odd,sweep", "LIST",
      "what is measured" },
    { "largest", 0, TS_OPT_U32, AT(largest), "100", "N", "the largest rank of the part odd" },
    { "sweep", 0, TS_OPT_STRING, AT(sweep), NULL, "PROGRAM", "tstream, for the part sweep" },
    { "thread-time", 0, TS_OPT_FLAG, AT(thread_time), NULL, NULL,
      "with one thread: its CPU time, for machines in use" },
    { 0 },
};
static const struct ts_cmd cmd = {
    .program = "cpu_gate",
    .operands = "TENSOR.tsh...",
    .min_operands = 1,
    .max_operands = 100,
    .summary = "holds MTTKRP and sweeps on CPU cores against what is asked of them",
    .opts = opts,
};

/* One of the things that are compared. */
struct side {
    uint32_t rank, threads;
    enum ts_precision precision;
    enum ts_isa isa;
    struct ts_pass *pass;
    struct ts_fmat factor[TS_MAX_ORDER], out;
    double *seconds; /* a turn */
};

/* A tensor whose shards are in memory. */
struct subject {
    const struct args *args;
    struct ts_tensor *tensor;
    const char *name;
    struct ts_feed *feed[TS_MAX_ORDER];
};

static uint32_t n_missed;

static void check(int rc, const struct ts_err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "cpu_gate: %s\n", err->text);
    exit(1);
}

static int has_part(const struct args *args, const char *name)
{
    return strstr(args->part, name) != NULL;
}

/* Numbers divided by commas. */
static uint32_t parse_list(const char *text, uint32_t *ret, uint32_t most)
{
    uint32_t n = 0;
    while (*text != '\0' && n < most) {
        char *end;
        ret[n++] = (uint32_t)strtoul(text, &end, 10);
        if (end == text || ret[n - 1] == 0) {
            fprintf(stderr, "cpu_gate: '%s' is not a list of numbers like 1,16\n", text);
            exit(2);
        }
        text = end + (*end == ',');
    }
    return n;
}

/* ---- turns ---- */

static void fill(struct ts_fmat *f, uint32_t mode)
{
    double row[TS_FMAT_MAX_RANK];
    for (uint64_t i = 0; i < f->n_rows; i++) {
        for (uint32_t r = 0; r < f->rank; r++)
            row[r] = ts_init_entry(1, mode, i, r);
        ts_fmat_put(f, i, 1, row, 1);
    }
}

static void open_side(const struct subject *x, struct side *s)
{
    const struct ts_tensor *t = x->tensor;
    const struct ts_backend_conf conf = { .tensor = t,
                                          .rank = s->rank,
                                          .precision = s->precision,
                                          .threads = s->threads,
                                          .only_mode = -1,
                                          .spare_bytes = ts_plain_bytes(t, -1) };
    uint64_t most = 0;
    struct ts_err err;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t n = t->mode[m].disk.n_rows;
        check(ts_fmat_new(n, s->rank, s->precision, "factor", &s->factor[m], &err), &err);
        fill(&s->factor[m], m);
        most = n > most ? n : most;
    }
    check(ts_fmat_new(most, s->rank, s->precision, "product", &s->out, &err), &err);
    check(ts_pass_new(&conf, s->isa, s->threads, &s->pass, &err), &err);
    s->seconds = calloc(MOST_TURNS, sizeof *s->seconds);
    if (s->seconds == NULL)
        check(ts_fail(&err, TS_ENOMEM, "out of memory"), &err);
}

static void close_side(struct side *s)
{
    ts_pass_free(s->pass);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        ts_fmat_free(&s->factor[m]);
    ts_fmat_free(&s->out);
    free(s->seconds);
}

/* Seconds of the MTTKRPs of all modes. */
static double run_side(const struct subject *x, struct side *s)
{
    const int own = x->args->thread_time;
    uint64_t ns = 0;
    struct ts_err err;
    for (uint32_t m = 0; m < x->tensor->order; m++) {
        struct ts_fmat out = s->out;
        const struct ts_pass_model model = { .out = &out, .summed = s->precision };
        uint64_t begin;
        out.n_rows = s->factor[m].n_rows;
        ts_feed_rewind(x->feed[m]);
        begin = own ? ts_clock_thread_ns() : ts_clock_ns();
        check(ts_pass_run(s->pass, m, s->factor, 1, &model, x->feed[m], NULL, &err), &err);
        ns += (own ? ts_clock_thread_ns() : ts_clock_ns()) - begin;
    }
    return 1e-9 * (double)ns;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list, uint32_t n)
{
    qsort(list, n, sizeof *list, compare);
    return (list[(n - 1) / 2] + list[n / 2]) / 2;
}

/* Times n sides in turn. rate: of each, M nonzeros/s; ratio: how often each is as fast as the
 * first. */
static void run_turns(const struct subject *x, struct side *side, uint32_t n, double *rate,
                      double *ratio)
{
    const double work = 1e-6 * (double)x->tensor->nnz * x->tensor->order;
    const uint64_t limit = (uint64_t)(1e9 * x->args->seconds);
    static double list[MOST_TURNS];
    uint32_t turns = 0;
    uint64_t begin;
    for (uint32_t i = 0; i < n; i++) {
        open_side(x, &side[i]);
        for (int k = 0; k < 2; k++) /* shards are read, then decoded */
            run_side(x, &side[i]);
    }
    begin = ts_clock_ns();
    while (turns < LEAST_TURNS || (turns < MOST_TURNS && ts_clock_ns() - begin < limit)) {
        for (uint32_t i = 0; i < n; i++)
            side[i].seconds[turns] = run_side(x, &side[i]);
        turns++;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < turns; k++)
            list[k] = side[0].seconds[k] / side[i].seconds[k];
        ratio[i] = median(list, turns);
    }
    for (uint32_t i = 0; i < n; i++) {
        rate[i] = work / median(side[i].seconds, turns);
        close_side(&side[i]);
    }
}

/* ---- lines ---- */

/* asked: the least ratio; 0 where there is none. */
static void print_line(const struct subject *x, const char *what, uint32_t rank, double rate,
                       double ratio, double asked)
{
    printf("%-16.16s %-22s %4u %9.0f %7.2f", x->name, what, rank, rate, ratio);
    if (asked > 0)
        printf(" %7.2f %s", asked, ratio >= asked ? "met" : "MISSED");
    n_missed += asked > 0 && ratio < asked;
    printf("\n");
    fflush(stdout);
}

/* The ratio asked of n threads over one, for tensors of 5 M nonzeros and more: 12 of 16, 22 of
 * 32. */
static double asked_of_threads(const struct ts_tensor *t, uint32_t n, uint32_t first)
{
    const double each = n <= 16 ? 12.0 / 16 : 22.0 / 32;
    return t->nnz < 5000000 || first != 1 ? 0 : each * n;
}

static void gate_threads(const struct subject *x, const uint32_t *threads, uint32_t n,
                         uint32_t rank)
{
    struct side side[MOST_SIDES] = { 0 };
    double rate[MOST_SIDES], ratio[MOST_SIDES];
    char what[40];
    for (uint32_t i = 0; i < n; i++)
        side[i] = (struct side){ .rank = rank, .threads = threads[i], .isa = ts_isa_best() };
    run_turns(x, side, n, rate, ratio);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(what, sizeof what, "%u / %u threads", threads[i], threads[0]);
        print_line(x, what, rank, rate[i], ratio[i],
                   i == 0 ? 0 : asked_of_threads(x->tensor, threads[i], threads[0]));
    }
}

static void gate_precision(const struct subject *x, uint32_t threads, uint32_t rank)
{
    struct side side[2] = { 0 };
    double rate[2], ratio[2];
    for (uint32_t i = 0; i < 2; i++)
        side[i] = (struct side){ .rank = rank,
                                 .threads = threads,
                                 .precision = i == 0 ? TS_FLOAT32 : TS_FLOAT64,
                                 .isa = ts_isa_best() };
    run_turns(x, side, 2, rate, ratio);
    print_line(x, "float64 / float32", rank, rate[1], ratio[1], 0.5);
}

/* How code for other processors does on this one; there is no ratio that it must reach. */
static void gate_code(const struct subject *x, uint32_t threads, uint32_t rank)
{
    static const char *const name[] = { "portable / best", "AVX2 / best" };
    const enum ts_isa best = ts_isa_best();
    struct side side[TS_N_ISA] = { 0 };
    double rate[TS_N_ISA], ratio[TS_N_ISA];
    uint32_t n = 0;
    for (int isa = (int)best; isa >= 0; isa--)
        side[n++] = (struct side){ .rank = rank, .threads = threads, .isa = (enum ts_isa)isa };
    if (n < 2)
        return;
    run_turns(x, side, n, rate, ratio);
    for (uint32_t i = 1; i < n; i++)
        print_line(x, name[best - i], rank, rate[i], ratio[i], 0);
}

/* All ranks up to the largest that are not whole vectors, each beside the next that is: the worst
 * of them. */
static void gate_odd(const struct subject *x, uint32_t threads, enum ts_precision precision)
{
    const double asked = 1 / 1.15;
    uint32_t worst = 0, missed = 0, n = 0;
    double least = 0, rate_there = 0;
    char what[60];
    for (uint32_t rank = 1; rank <= x->args->largest; rank++) {
        const uint32_t next = ts_fmat_stride(rank, precision);
        struct side side[2] = { 0 };
        double rate[2], ratio[2];
        if (next == rank)
            continue;
        for (uint32_t i = 0; i < 2; i++)
            side[i] = (struct side){ .rank = i == 0 ? next : rank,
                                     .threads = threads,
                                     .precision = precision,
                                     .isa = ts_isa_best() };
        run_turns(x, side, 2, rate, ratio);
        n++;
        missed += ratio[1] < asked;
        if (worst != 0 && ratio[1] >= least)
            continue;
        worst = rank;
        least = ratio[1];
        rate_there = rate[1];
    }
    if (n == 0)
        return;
    snprintf(what, sizeof what, "worst of %u odd, %s", n,
             precision == TS_FLOAT32 ? "float" : "double");
    print_line(x, what, worst, rate_there, least, asked);
    if (missed > 1)
        printf("%-16.16s %u of them missed it\n", x->name, missed);
}

static void gate_sweep(const struct subject *x, uint32_t threads, uint32_t rank)
{
    struct sweep s;
    char what[60];
    if (x->args->sweep == NULL || !sweep_time(x->args->sweep, x->tensor, rank, threads, "", &s))
        return;
    snprintf(what, sizeof what, "may / sweep, %u", threads);
    print_line(x, what, rank, 1e-6 * (double)x->tensor->nnz * x->tensor->order / s.all,
               s.may / s.all, 1);
    printf("%-16.16s   %.3f ms: products %.3f, waiting %.3f, solves %.3f, rest %.3f\n", x->name,
           1e3 * s.all, 1e3 * s.products, 1e3 * s.waiting, 1e3 * s.solve,
           1e3 * (s.all - s.products - s.waiting - s.solve));
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void gate(const char *path, const struct args *args, const uint32_t *threads,
                 uint32_t n_threads)
{
    struct subject x = { .args = args, .name = name_of(path) };
    const uint32_t all = threads[n_threads - 1];
    uint32_t rank[MOST_SIDES];
    const uint32_t n_ranks = parse_list(args->ranks, rank, MOST_SIDES);
    struct ts_err err;
    check(ts_tensor_open(path, &x.tensor, &err), &err);
    for (uint32_t m = 0; m < x.tensor->order; m++) {
        const struct ts_feed_conf conf = { .tensor = x.tensor,
                                           .host_bytes = UINT64_C(1) << 40,
                                           .only_mode = (int)m };
        check(ts_feed_new(&conf, &x.feed[m], &err), &err);
    }
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (has_part(args, "threads") && n_threads > 1)
            gate_threads(&x, threads, n_threads, rank[i]);
        if (has_part(args, "precision"))
            gate_precision(&x, all, rank[i]);
        if (has_part(args, "code"))
            gate_code(&x, all, rank[i]);
        for (uint32_t k = n_threads > 1; k < n_threads && has_part(args, "sweep"); k++)
            gate_sweep(&x, threads[k], rank[i]);
    }
    if (has_part(args, "odd")) {
        gate_odd(&x, all, TS_FLOAT32);
        gate_odd(&x, all, TS_FLOAT64);
    }
    for (uint32_t m = 0; m < x.tensor->order; m++)
        ts_feed_free(x.feed[m]);
    ts_tensor_close(x.tensor);
}

int main(int argc, char **argv)
{
    char *operand[100];
    uint32_t n, threads[MOST_SIDES] = { 1, (uint32_t)omp_get_num_procs() }, n_threads;
    struct args args;
    struct ts_err err;
    const int rc = ts_opt_parse(&cmd, argc, argv, &args, &n, operand, NULL, &err);
    check(rc, &err);
    if (rc == 1) {
        ts_opt_help(&cmd, stdout);
        return 0;
    }
    n_threads =
        args.threads == NULL ? 1 + (threads[1] > 1) : parse_list(args.threads, threads, MOST_SIDES);
    printf("%-16s %-22s %4s %9s %7s %7s\n", "tensor", "what", "R", "M nnz/s", "ratio", "asked");
    for (uint32_t i = 0; i < n; i++)
        gate(operand[i], &args, threads, n_threads);
    printf("%u ratio%s missed\n", n_missed, n_missed == 1 ? "" : "s");
    return 0;
}
