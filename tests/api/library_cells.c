/* SPDX-License-Identifier: BSD-3-Clause */
/* library_cells [GPUS]: a program of the library, for scripts that hold what it computes against
 * their own arithmetic. Each line of standard input is a request, words between blanks; each is
 * answered by a line of JSON, a failure by its sentence. Models go through the directory or file
 * that a request names.
 *
 *     tensor PATH                                 what it is, and sums of its nonzeros as a walk
 *     gives them cp PATH OUT RANK SWEEPS PRECISION OPTION... a session, a run in it, the model
 *     saved, and its exact fit; again in the same session
 *     several PATH OUT SWEEPS                     models of ranks 2 and 1 with two starts each, of
 *     which OUT.0 to OUT.3 are saved fit MODEL PATH, core MODEL PATH
 *     score MODEL PATH                            with slices of the first mode, and the largest
 *                                                 residual
 *     predict MODEL INDEX...                      cells, an index from 0 for each mode
 *     part PATH OUT                               ts_build_select of what a hold-out of 0.3 leaves
 *
 * OPTION: observed, nonneg, l2=X, hold_out=X, huber, poisson.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#define MOST_WORDS 4096

static const char *gpus; /* NULL: CPU cores */

static void put(const char *name, double x)
{
    if (isfinite(x))
        printf("\"%s\":%.17g,", name, x);
    else
        printf("\"%s\":null,", name);
}

static void put_list(const char *name, uint64_t n, const double *x)
{
    printf("\"%s\":[", name);
    for (uint64_t i = 0; i < n; i++)
        printf("%s%.17g", i > 0 ? "," : "", x[i]);
    printf("],");
}

static ts_session_conf session_conf(void)
{
    const ts_session_conf c = { .size = sizeof c,
                                .rank = 2,
                                .precision = TS_REAL_FLOAT64,
                                .cpu = gpus == NULL,
                                .gpus = gpus,
                                .host_memory = gpus == NULL ? UINT64_C(1) << 28 : 0,
                                .threads = 2 };
    return c;
}

/* ---- a tensor ---- */

static int add_nonzeros(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                        const double *value)
{
    double *sum = ctx;
    (void)thread;
    (void)index;
    for (uint64_t i = 0; i < n; i++) {
        sum[0]++;
        sum[1] += value[i];
        sum[2] += value[i] * value[i];
    }
    return 0;
}

static int tell_tensor(char **word, ts_error *err)
{
    double sum[3] = { 0 };
    const ts_each_conf each = { .size = sizeof each, .threads = 1, .fn = add_nonzeros, .ctx = sum };
    ts_tensor *t = ts_open(word[0], err);
    int rc = t == NULL ? err->code : 0;
    if (rc == 0 && !ts_is_dense(t))
        rc = ts_each(t, &each, err);
    if (rc == 0) {
        put("nnz", (double)ts_nnz(t));
        put("norm", ts_norm(t));
        put("duplicates", ts_has_duplicates(t));
        put("walked", sum[0]);
        put("sum", sum[1]);
        put("squares", sum[2]);
    }
    ts_close(t);
    return rc;
}

/* ---- runs ---- */

struct run {
    ts_session_conf session;
    ts_cp_conf cp;
    double l2[TS_MODES_MAX];
};

static void take_option(struct run *r, uint32_t order, const char *word)
{
    const char *value = strchr(word, '=');
    const double x = value == NULL ? 0 : atof(value + 1);
    if (strcmp(word, "observed") == 0) {
        r->cp.observed = r->session.observed = 1;
    } else if (strcmp(word, "nonneg") == 0) {
        r->cp.nonneg = r->session.own_rows = (1u << order) - 1;
    } else if (strncmp(word, "l2=", 3) == 0) {
        for (uint32_t m = 0; m < order; m++)
            r->l2[m] = x;
        r->cp.l2 = r->l2;
    } else if (strncmp(word, "hold_out=", 9) == 0) {
        r->cp.hold_out = x;
        r->session.hold_out = 1;
    } else if (strcmp(word, "huber") == 0) {
        r->cp.loss = r->session.loss = TS_LOSS_HUBER;
        r->cp.loss_at = 1;
    } else if (strcmp(word, "poisson") == 0) {
        r->cp.loss = r->session.loss = TS_LOSS_POISSON;
    } else {
        exit(2);
    }
}

static int save(const ts_cpd *c, const char *out, ts_error *err)
{
    const ts_save_conf conf = { .size = sizeof conf, .replace = 1 };
    return ts_cpd_save(c, out, &conf, err);
}

static void put_result(const ts_cp_result *r)
{
    put("fit", r->fit);
    put("sweeps", r->sweeps);
    put("exact", r->exact);
    put("objective", r->objective);
    put("rmse", r->rmse);
    put("held_out_rmse", r->held_out_rmse);
    put("log_likelihood", r->log_likelihood);
}

static int put_fit(const ts_tensor *t, const ts_cpd *c, ts_error *err)
{
    const ts_session_conf conf = session_conf();
    ts_fit_result f = { .size = sizeof f };
    const int rc = ts_fit(t, c, &conf, &f, err);
    if (rc == 0) {
        put("exact_fit", f.fit);
        put("rounding", f.error);
        put("residual", f.residual);
        put("norm", f.norm);
        put("model_norm", f.model_norm);
    }
    return rc;
}

/* Whether two models have the same numbers. */
static int same(const ts_cpd *a, const ts_cpd *b)
{
    const size_t bytes = ts_cpd_precision(a) == TS_REAL_FLOAT64 ? 8 : 4, rank = ts_cpd_rank(a);
    int ret = memcmp(ts_cpd_weights(a), ts_cpd_weights(b), rank * sizeof(double)) == 0;
    for (uint32_t m = 0; m < ts_cpd_order(a); m++)
        ret &=
            memcmp(ts_cpd_factor(a, m), ts_cpd_factor(b, m), ts_cpd_held(a, m) * rank * bytes) == 0;
    return ret;
}

static int run_cp(char **word, uint32_t n, ts_error *err)
{
    struct run r = { .session = session_conf(), .cp = { .size = sizeof r.cp, .seed = 1 } };
    ts_cp_result result = { .size = sizeof result };
    ts_tensor *t = ts_open(word[0], err);
    ts_session *s = NULL;
    ts_cpd *c = NULL, *again = NULL;
    int rc = t == NULL ? err->code : 0;
    if (rc == 0) {
        r.session.rank = (uint32_t)atoi(word[2]);
        r.cp.sweeps = (uint32_t)atoi(word[3]);
        r.session.precision = strcmp(word[4], "float64") == 0 ? TS_REAL_FLOAT64 : TS_REAL_FLOAT32;
        for (uint32_t i = 5; i < n; i++)
            take_option(&r, ts_order(t), word[i]);
        if (ts_is_dense(t) && r.session.hold_out) /* what is held out of an array is unknown */
            r.session.observed = 1;
        s = ts_session_open(t, &r.session, err);
        c = s == NULL ? NULL : ts_cp(s, &r.cp, &result, err);
        again = c == NULL ? NULL : ts_cp(s, &r.cp, NULL, err);
        rc = again == NULL ? err->code : save(c, word[1], err);
    }
    if (rc == 0) {
        put_result(&result);
        put("same", same(c, again));
        rc = put_fit(t, c, err);
    }
    ts_cpd_free(again);
    ts_cpd_free(c);
    ts_session_close(s);
    ts_close(t);
    return rc;
}

static int run_several(char **word, ts_error *err)
{
    const uint32_t rank[] = { 2, 1 };
    const ts_session_conf session = session_conf();
    const ts_cp_conf run = { .size = sizeof run, .sweeps = (uint32_t)atoi(word[2]) };
    const ts_several_conf conf = {
        .size = sizeof conf, .n_ranks = 2, .rank = rank, .restarts = 2, .run = &run
    };
    ts_several_result row[4] = { { .size = sizeof row[0] } };
    ts_cpd *c[4] = { NULL };
    char name[4096];
    ts_tensor *t = ts_open(word[0], err);
    int rc = t == NULL ? err->code : ts_cp_several(t, &session, &conf, c, row, err);
    if (rc == 0)
        printf("\"models\":[");
    for (int i = 0; i < 4 && rc == 0; i++) {
        snprintf(name, sizeof name, "%s.%d", word[1], i);
        rc = save(c[i], name, err);
        printf("%s{\"rank\":%u,\"fit\":%.17g,\"best\":%d}", i > 0 ? "," : "", row[i].rank,
               row[i].fit, row[i].best);
    }
    if (rc == 0)
        printf("],");
    for (int i = 0; i < 4; i++)
        ts_cpd_free(c[i]);
    ts_close(t);
    return rc;
}

/* ---- models ---- */

static int score(const ts_tensor *t, const ts_cpd *c, ts_error *err)
{
    const uint64_t n = ts_used(t, 0);
    double *slice = calloc(4 * n, sizeof *slice), top[2];
    uint64_t index[TS_MODES_MAX];
    const ts_cpd_score_conf conf = { .size = sizeof conf,
                                     .slice_weight = slice,
                                     .slice_value = slice + n,
                                     .slice_model = slice + 2 * n,
                                     .slice_rmse = slice + 3 * n,
                                     .n_top = 1,
                                     .top_index = index,
                                     .top_value = top,
                                     .top_model = top + 1 };
    const ts_session_conf session = session_conf();
    ts_cpd_score_result r = { .size = sizeof r };
    const int rc = slice == NULL ? TS_ERR_MEMORY : ts_cpd_score(c, t, &conf, &session, &r, err);
    if (rc == 0) {
        put("weight", r.weight);
        put("rmse", r.rmse);
        put("mae", r.mae);
        put("mean_value", r.mean_value);
        put("mean_model", r.mean_model);
        put("poisson", r.poisson);
        put_list("slice_weight", n, slice);
        put_list("slice_value", n, slice + n);
        put_list("slice_model", n, slice + 2 * n);
        put_list("slice_rmse", n, slice + 3 * n);
        put_list("top", 2, top);
    }
    free(slice);
    return rc;
}

static int core(const ts_tensor *t, const ts_cpd *c, ts_error *err)
{
    const ts_session_conf session = session_conf();
    ts_core_result r = { .size = sizeof r };
    const int rc = ts_cpd_core(c, t, &session, &r, err);
    if (rc == 0)
        put("consistency", r.consistency);
    return rc;
}

static int judge(char **word, int (*how)(const ts_tensor *, const ts_cpd *, ts_error *),
                 ts_error *err)
{
    ts_cpd *c = ts_cpd_load(word[0], NULL, err);
    ts_tensor *t = c == NULL ? NULL : ts_open(word[1], err);
    const int rc = t == NULL ? err->code : how(t, c, err);
    ts_close(t);
    ts_cpd_free(c);
    return rc;
}

static int predict(char **word, uint32_t n, ts_error *err)
{
    uint64_t index[MOST_WORDS];
    double value[MOST_WORDS];
    ts_cpd *c = ts_cpd_load(word[0], NULL, err);
    int rc = c == NULL ? err->code : 0;
    for (uint32_t i = 1; i < n; i++)
        index[i - 1] = strtoull(word[i], NULL, 10);
    if (rc == 0)
        rc = ts_cpd_predict(c, (n - 1) / ts_cpd_order(c), index, value, err);
    if (rc == 0)
        put_list("value", (n - 1) / ts_cpd_order(c), value);
    ts_cpd_free(c);
    return rc;
}

static int select_part(char **word, ts_error *err)
{
    const ts_build_conf conf = { .size = sizeof conf, .out = word[1], .replace = 1 };
    const ts_select_conf select = { .size = sizeof select, .hold_out = 0.3, .seed = 1 };
    ts_tensor *t = ts_open(word[0], err);
    const int rc = t == NULL ? err->code : ts_build_select(&conf, t, &select, NULL, err);
    ts_close(t);
    return rc;
}

/* ---- requests ---- */

static int answer(char **word, uint32_t n, ts_error *err)
{
    const char *what = word[0];
    word++;
    n--;
    if (strcmp(what, "tensor") == 0 && n == 1)
        return tell_tensor(word, err);
    if (strcmp(what, "cp") == 0 && n >= 5)
        return run_cp(word, n, err);
    if (strcmp(what, "several") == 0 && n == 3)
        return run_several(word, err);
    if (strcmp(what, "fit") == 0 && n == 2)
        return judge(word, put_fit, err);
    if (strcmp(what, "core") == 0 && n == 2)
        return judge(word, core, err);
    if (strcmp(what, "score") == 0 && n == 2)
        return judge(word, score, err);
    if (strcmp(what, "predict") == 0 && n >= 2)
        return predict(word, n, err);
    if (strcmp(what, "part") == 0 && n == 2)
        return select_part(word, err);
    exit(2);
}

/* The sentence of a failure, as a string of JSON. */
static void put_sentence(const char *text)
{
    printf("\"error\":\"");
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar(*text);
    printf("\",");
}

int main(int argc, char **argv)
{
    static char line[1 << 16];
    gpus = argc > 1 ? argv[1] : NULL;
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *word[MOST_WORDS];
        uint32_t n = 0;
        ts_error err = { 0 };
        for (char *w = strtok(line, " \n"); w != NULL && n < MOST_WORDS; w = strtok(NULL, " \n"))
            word[n++] = w;
        if (n == 0)
            continue;
        printf("{");
        if (answer(word, n, &err) != 0)
            put_sentence(err.text);
        printf("\"request\":\"%s\"}\n", word[0]);
        fflush(stdout);
    }
    return 0;
}
