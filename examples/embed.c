/* SPDX-License-Identifier: BSD-3-Clause */
/* embed.c - libtstream in a program: arrays to a tensor, its decomposition, files, names, and back.
 *
 *     cc embed.c $(pkg-config --cflags --libs tstream) -o embed && ./embed /tmp/embed
 *
 * makes /tmp/embed.tsh and /tmp/embed.cp. As good in C++.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

enum { ORDER = 3, RANK = 2, PIECE = 100, N = 1200 };

static void fail(const char *what, const ts_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static void note(void *ctx, const char *sentence)
{
    (void)ctx;
    fprintf(stderr, "note: %s\n", sentence);
}

/* Nonzeros come in pieces, so that a program need not have all of them at once. */
static void build(const char *out)
{
    static const uint64_t dim[ORDER] = { 30, 20, 10 };
    static const char *const name[ORDER] = { "user", "item", "week" };
    uint64_t index[PIECE * ORDER];
    double value[PIECE];
    ts_build_conf conf;
    ts_build_result result;
    ts_builder *b;
    ts_error err;
    memset(&conf, 0, sizeof conf);
    conf.size = sizeof conf;
    conf.out = out;
    conf.replace = 1;
    conf.memory = (uint64_t)128 << 20;
    conf.order = ORDER;
    conf.dim = dim;
    conf.name = name;
    conf.note = note;
    b = ts_builder_new(&conf, &err);
    if (b == NULL)
        fail("build", &err);
    for (int at = 0; at < N; at += PIECE) {
        for (int i = 0; i < PIECE; i++) { /* two groups of users, items and weeks, apart */
            const uint64_t k = (uint64_t)(at + i), group = k % 2;
            index[ORDER * i] = 15 * group + k / 2 % 15;
            index[ORDER * i + 1] = 10 * group + k / 30 % 10;
            index[ORDER * i + 2] = 5 * group + k / 300 % 5;
            value[i] = (group == 0 ? 3.0 : 1.0) * (double)(5 - k / 300 % 5); /* less every week */
        }
        if (ts_builder_add(b, PIECE, index, value, &err) < 0)
            fail("build", &err);
    }
    memset(&result, 0, sizeof result);
    result.size = sizeof result;
    if (ts_builder_finish(b, &result, &err) < 0)
        fail("build", &err);
    ts_builder_free(b);
    printf("built %llu nonzeros of %llu\n", (unsigned long long)result.nnz,
           (unsigned long long)result.read);
}

static int sum(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index, const double *value)
{
    (void)thread; /* one at a time: conf.threads is 1 */
    (void)index;
    for (uint64_t i = 0; i < n; i++)
        *(double *)ctx += value[i];
    return 0;
}

static int show_sweep(void *ctx, const ts_sweep *s)
{
    *(double *)ctx = s->fit;
    return 0; /* anything else would stop the run */
}

static ts_cpd *decompose(const ts_tensor *t)
{
    ts_session_conf conf;
    ts_cp_conf cp;
    ts_cp_result result;
    ts_session *s;
    ts_cpd *c;
    ts_error err;
    double fit = 0;
    memset(&conf, 0, sizeof conf);
    conf.size = sizeof conf;
    conf.rank = RANK;
    conf.precision = TS_REAL_FLOAT64;
    conf.cpu = 1;
    conf.threads = 2;
    conf.note = note;
    s = ts_session_open(t, &conf, &err);
    if (s == NULL)
        fail("session", &err);
    memset(&cp, 0, sizeof cp);
    cp.size = sizeof cp;
    cp.sweeps = 20;
    cp.tol = 1e-9;
    cp.seed = 1;
    cp.sweep = show_sweep;
    cp.ctx = &fit;
    memset(&result, 0, sizeof result);
    result.size = sizeof result;
    c = ts_cp(s, &cp, &result, &err);
    if (c == NULL)
        fail("cp", &err);
    ts_session_close(s);
    printf("fit %.6f, the same as told: %s\n", result.fit, result.fit == fit ? "yes" : "no");
    return c;
}

int main(int argc, char **argv)
{
    const char *stem = argc > 1 ? argv[1] : "embed";
    char tensor[4000], files[4000];
    uint64_t top[3];
    double value[3], total = 0;
    uint32_t found;
    ts_each_conf each;
    ts_save_conf save;
    ts_fit_result fit;
    ts_tensor *t;
    ts_cpd *c, *again;
    ts_error err;
    snprintf(tensor, sizeof tensor, "%s.tsh", stem);
    snprintf(files, sizeof files, "%s.cp", stem);
    build(tensor);
    t = ts_open(tensor, &err);
    if (t == NULL)
        fail("open", &err);
    printf("shape: ");
    for (uint32_t m = 0; m < ts_order(t); m++)
        printf("%s %llu%s", ts_name(t, m), (unsigned long long)ts_dim(t, m),
               m + 1 < ts_order(t) ? ", " : "\n");
    memset(&each, 0, sizeof each);
    each.size = sizeof each;
    each.threads = 1;
    each.fn = sum;
    each.ctx = &total;
    if (ts_each(t, &each, &err) < 0)
        fail("each", &err);
    printf("values add up to %g\n", total);
    c = decompose(t);
    printf("the heavier component has %.0f times the weight of the other\n",
           ts_cpd_weights(c)[0] / ts_cpd_weights(c)[1]);
    if (ts_cpd_top(c, 2, 0, 3, top, value, &found, &err) < 0)
        fail("top", &err);
    printf("its strongest weeks:");
    for (uint32_t i = 0; i < found; i++)
        printf(" %s%llu", top[i] < 5 ? "" : "not in the first group: ", (unsigned long long)top[i]);
    printf("\n");
    memset(&save, 0, sizeof save);
    save.size = sizeof save;
    save.formats = TS_FILE_KTENSOR | TS_FILE_NPY;
    save.replace = 1;
    save.note = note;
    if (ts_cpd_save(c, files, &save, &err) < 0)
        fail("save", &err);
    again = ts_cpd_load(files, NULL, &err);
    if (again == NULL)
        fail("load", &err);
    memset(&fit, 0, sizeof fit);
    fit.size = sizeof fit;
    if (ts_fit(t, again, NULL, &fit, &err) < 0)
        fail("fit", &err);
    printf("exact fit of the files %.6f\n", fit.fit);
    ts_cpd_free(again);
    ts_cpd_free(c);
    ts_close(t);
    if (ts_open("/nowhere.tsh", &err) == NULL)
        printf("errors are sentences: %s\n", err.text);
    return 0;
}
