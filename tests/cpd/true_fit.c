/* SPDX-License-Identifier: BSD-3-Clause */
/* true_fit - whether the fit that `tstream cp` prints is that of the factors that it writes.
 *
 *     true_fit [-n TENSORS] [-f FIRST] [-s SEED] [-c OPTION]... [-l GPUS] [-a] [-k] [-v]
 *     FOLDER_OF_PROGRAMS
 *
 * Makes random tensors (fit_cases.h), decomposes each in float64 and float32, reads the factors
 * back and computes their fit cell by cell in long double. Allowed is a difference of 1e-6, or 0.1
 * % of 1 - fit where that is more. Where the rank is more than that of the tensor, which makes Gram
 * matrices singular, a float32 run must end no more than 1e-3 below the float64 run. -c hands an
 * option to `tstream cp`; -l has the library make the runs in this process, on GPUS GPUs, where
 * each program would take a second to start the driver, 0 on CPU cores. -a tries four ranks on each
 * tensor instead of one, -v prints every run, -f begins with a later tensor. Works in a folder in
 * $TMPDIR or /tmp, which -k keeps: the last tensor as x.tns, x.tsh. The exit status is 1 when
 * something was off. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tstream.h>

#include "model/model_read.h"
#include "tests/cpd/fit_cases.h"

#define MOST_ARGS 40

struct campaign {
    const char *bin;
    const char *cp_option[16];
    const char *library_gpus; /* NULL: by the program */
    uint32_t n_cp_options, n_runs, n_off, n_worse, n_clipped;
    uint64_t seed;
    int all_ranks, verbose;
    char tmp[200];
};

struct run {
    double printed, exact;
    long sweeps;
    int converged;
};

static void die(const char *what)
{
    fprintf(stderr, "true_fit: %s\n", what);
    exit(2);
}

/* Runs a program, its output and messages in the file `log`. */
static void run_program(const char *log, char *const argv[])
{
    const pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd >= 0 && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
            execv(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        die("a program cannot be run");
    if (status != 0) {
        char line[1000];
        FILE *f = fopen(log, "r");
        fprintf(stderr, "true_fit:");
        for (int i = 0; argv[i] != NULL; i++)
            fprintf(stderr, " %s", argv[i]);
        fprintf(stderr, ": status %d\n", status);
        while (f != NULL && fgets(line, sizeof line, f) != NULL)
            fputs(line, stderr);
        exit(2);
    }
}

/* What the event "done" of a --json run says. */
static void read_done(const char *log, struct run *r)
{
    char line[8192], *at = NULL;
    FILE *f = fopen(log, "r");
    if (f == NULL)
        die("no log of tstream cp");
    while (at == NULL && fgets(line, sizeof line, f) != NULL)
        if (strstr(line, "{\"event\":\"done\"") == line)
            at = line;
    fclose(f);
    if (at == NULL || (at = strstr(line, "\"fit\":")) == NULL)
        die("tstream cp printed no fit");
    r->printed = strtod(at + 6, NULL);
    at = strstr(line, "\"sweeps\":");
    r->sweeps = at == NULL ? -1 : strtol(at + 9, NULL, 10);
    r->converged = strstr(line, "\"converged\":true") != NULL;
}

/* The fit of the factors that were written, a row for every index or for used ones. */
static double fit_of_files(const struct test_fit_case *c, const char *path)
{
    struct ts_model *m = NULL;
    struct ts_err err;
    double *factor[TEST_FIT_MOST_ORDER], fit;
    if (ts_model_open(path, &m, &err) < 0)
        die(err.text);
    if (m->order != c->order)
        die("the model has another order");
    for (uint32_t k = 0; k < c->order; k++) {
        uint64_t *index = NULL;
        factor[k] = calloc(c->dim[k] * m->rank, sizeof *factor[k]);
        if (factor[k] == NULL || m->n_rows[k] > c->dim[k])
            die("the model has too many rows");
        if (ts_model_rows(m, k, m->n_rows[k], factor[k], &err) < 0 ||
            ts_model_index(m, k, &index, &err) < 0)
            die(err.text);
        for (uint64_t i = m->n_rows[k]; index != NULL && i-- > 0;) /* from the end: rows move up */
            if (index[i] != i) {
                memcpy(factor[k] + index[i] * m->rank, factor[k] + i * m->rank,
                       m->rank * sizeof(double));
                memset(factor[k] + i * m->rank, 0, m->rank * sizeof(double));
            }
        free(index);
    }
    fit = test_fit_case_fit(c, m->rank, m->weight, factor);
    for (uint32_t k = 0; k < c->order; k++)
        free(factor[k]);
    ts_model_close(m);
    return fit;
}

/* What decompose() does, without a program. */
static struct run decompose_here(const struct campaign *a, const struct test_fit_case *c,
                                 uint32_t rank, uint32_t number, int precision)
{
    static const unsigned format[3] = { TS_FILE_KTENSOR, TS_FILE_NPY, TS_FILE_SPLATT };
    ts_session_conf where = { .size = sizeof where, .rank = rank, .threads = 1 };
    ts_cp_conf how = { .size = sizeof how, .tol = 1e-5, .seed = number + 1 };
    ts_cp_result ret = { .size = sizeof ret };
    ts_error err;
    ts_tensor *t = ts_open("x.tsh", &err);
    ts_session *s = NULL;
    ts_cpd *made = NULL;
    struct run r;
    where.precision = precision == 32 ? TS_REAL_FLOAT32 : TS_REAL_FLOAT64;
    where.cpu = strcmp(a->library_gpus, "0") == 0;
    where.gpus = where.cpu ? NULL : a->library_gpus;
    where.host_memory = (uint64_t)1 << 30;
    how.out = "x.cp";
    how.replace = 1;
    how.formats = format[number % 3];
    how.held_rows = number % 2 == 1;
    if (t == NULL || (s = ts_session_open(t, &where, &err)) == NULL ||
        (made = ts_cp(s, &how, &ret, &err)) == NULL)
        die(err.text);
    r.printed = ret.fit;
    r.sweeps = ret.sweeps;
    r.converged = ret.converged;
    ts_cpd_free(made);
    ts_session_close(s);
    ts_close(t);
    r.exact = fit_of_files(c, "x.cp");
    return r;
}

static struct run decompose(const struct campaign *a, const struct test_fit_case *c, uint32_t rank,
                            uint32_t number, int precision)
{
    static const char *const format[3] = { "ktensor", "npy", "splatt" };
    char tool[500], rank_text[16], seed_text[16];
    char *argv[MOST_ARGS] = { tool,
                              "cp",
                              "x.tsh",
                              "--json",
                              "-t1",
                              "-r",
                              rank_text,
                              "-s",
                              seed_text,
                              "--precision",
                              precision == 32 ? "float32" : "float64",
                              "--output",
                              "x.cp",
                              "--format",
                              (char *)format[number % 3],
                              "--rows",
                              number % 2 == 0 ? "all" : "used",
                              NULL };
    char *clear[] = { "/bin/rm", "-rf", "x.cp", NULL };
    struct run r;
    int n = 17;
    if (a->library_gpus != NULL)
        return decompose_here(a, c, rank, number, precision);
    for (uint32_t i = 0; i < a->n_cp_options; i++)
        argv[n++] = (char *)a->cp_option[i];
    snprintf(tool, sizeof tool, "%s/tstream", a->bin);
    snprintf(rank_text, sizeof rank_text, "%u", rank);
    snprintf(seed_text, sizeof seed_text, "%u", number + 1);
    run_program("log", clear);
    run_program("log", argv);
    read_done("log", &r);
    r.exact = fit_of_files(c, "x.cp");
    return r;
}

static void print_run(const struct test_fit_case *c, uint32_t number, uint32_t rank, int precision,
                      const struct run *r, double share, const char *what)
{
    printf("%4u %-18s", number, c->kind);
    for (uint32_t m = 0; m < c->order; m++)
        printf("%s%" PRIu64, m == 0 ? "" : "x", c->dim[m]);
    printf(" x %.0e, true rank %u, -r %u, float%d: printed %.9f, exact %.9f (%.2g of what is "
           "allowed), %ld sweeps%s%s\n",
           c->scale, c->true_rank, rank, precision, r->printed, r->exact, share, r->sweeps,
           r->converged ? ", converged" : "", what);
}

static void check_run(struct campaign *a, const struct test_fit_case *c, uint32_t number,
                      uint32_t rank, int precision, const struct run *r)
{
    const double off = fabs(r->printed - r->exact), allowed = fmax(1e-6, 1e-3 * (1 - r->exact));
    /* all of the residual lost in rounding: nothing that a run may stop on */
    const int clipped = r->converged && r->printed >= 1;
    const int wrong = !(off <= allowed);
    a->n_runs++;
    a->n_off += (uint32_t)wrong;
    a->n_clipped += (uint32_t)clipped;
    if (wrong || clipped || a->verbose)
        print_run(c, number, rank, precision, r, off / allowed,
                  clipped ? ": STOPPED ON A CLIPPED RESIDUAL"
                  : wrong ? ": OFF"
                          : "");
}

static void try_rank(struct campaign *a, const struct test_fit_case *c, uint32_t number,
                     uint32_t rank)
{
    const struct run wide = decompose(a, c, rank, number, 64),
                     narrow = decompose(a, c, rank, number, 32);
    check_run(a, c, number, rank, 64, &wide);
    check_run(a, c, number, rank, 32, &narrow);
    if (c->exact && rank > c->true_rank && !(narrow.exact >= wide.exact - 1e-3)) {
        a->n_worse++;
        print_run(c, number, rank, 32, &narrow, 0, ": WORSE");
        print_run(c, number, rank, 64, &wide, 0, ", the run it is measured by");
    }
}

static void try_tensor(struct campaign *a, uint32_t number)
{
    const int single = number % 4 == 1;
    struct test_fit_case c = test_fit_case_make(a->seed, number, single);
    const uint32_t rank[4] = { c.true_rank > 0 ? c.true_rank : 3, 16, c.true_rank + 1, 1 };
    char tool[500];
    char *argv[] = { tool, "build", "--force",  "x.tns",
                     "-o", "x.tsh", "--values", single ? "float32" : "float64",
                     NULL };
    snprintf(tool, sizeof tool, "%s/tshard", a->bin);
    test_fit_case_write(&c, "x.tns");
    run_program("log", argv);
    for (uint32_t k = 0; k < 4; k++)
        if (a->all_ranks || k == (number / 12 + number) % 4)
            try_rank(a, &c, number, rank[k]);
    test_fit_case_free(&c);
}

static void enter_folder(struct campaign *a)
{
    const char *parent = getenv("TMPDIR");
    snprintf(a->tmp, sizeof a->tmp, "%s/true_fit-XXXXXX", parent == NULL ? "/tmp" : parent);
    if (mkdtemp(a->tmp) == NULL || chdir(a->tmp) != 0)
        die("no folder to work in");
}

int main(int argc, char **argv)
{
    struct campaign a = { .seed = 1 };
    uint32_t n = 200, first = 0;
    int keep = 0;
    char *bin = NULL, *clear[] = { "/bin/rm", "-rf", a.tmp, NULL };
    int letter;
    while ((letter = getopt(argc, argv, "n:f:s:c:l:akv")) != -1)
        switch (letter) {
        case 'n':
            n = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'f':
            first = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'k':
            keep = 1;
            break;
        case 's':
            a.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            if (a.n_cp_options == 16)
                die("too many options for tstream cp");
            a.cp_option[a.n_cp_options++] = optarg;
            break;
        case 'l':
            a.library_gpus = optarg;
            break;
        case 'a':
            a.all_ranks = 1;
            break;
        case 'v':
            a.verbose = 1;
            break;
        default:
            die("see the head of tests/cpd/true_fit.c");
        }
    if (optind + 1 != argc || (bin = realpath(argv[optind], NULL)) == NULL)
        die("which folder holds tshard and tstream?");
    a.bin = bin;
    setvbuf(stdout, NULL, _IOLBF, 0);
    enter_folder(&a);
    for (uint32_t i = first; i < first + n; i++)
        try_tensor(&a, i);
    if (keep)
        printf("%s\n", a.tmp);
    else
        run_program("/dev/null", clear);
    free(bin);
    printf("%u tensors, %u runs: %u fits off, %u converged on a clipped residual, %u float32 runs "
           "worse than float64\n",
           n, a.n_runs, a.n_off, a.n_clipped, a.n_worse);
    return a.n_off + a.n_clipped + a.n_worse > 0;
}
