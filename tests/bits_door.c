/* SPDX-License-Identifier: BSD-3-Clause */
/* bits_door TENSOR OPTION...: a run of the library that is asked for by options of `tstream cp`, so
 * that tests/bits compares runs of the library as it compares those of the program. --stop S.M
 * stops the run in sweep S, when mode M is solved, and leaves its state.
 *
 *   exits with  0 done or stopped as asked, 1 refused with a sentence, 3 an option that it does not
 *               know
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

enum { MODES = TS_MODES_MAX, MODELS = 8 };

/* What the options ask for. The arrays are those that the two structs point to. */
struct asked {
    ts_session_conf session;
    ts_cp_conf cp;
    double l1[MODES], l2[MODES], smooth[MODES], lower[MODES], upper[MODES];
    const char *init;
    uint32_t rank[MODELS], n_ranks, restarts, order, stop_sweep, stop_mode;
    int l2_given;
};

static _Noreturn void unknown(const char *what)
{
    fprintf(stderr, "bits_door: %s is not known here\n", what);
    exit(3);
}

/* "1,3" or, without a text, all modes, as bits. */
static uint32_t mode_bits(const char *text, uint32_t order)
{
    uint32_t bits = 0;
    if (text == NULL)
        return (1u << order) - 1;
    for (char *end; *text != 0; text = *end == ',' ? end + 1 : end)
        bits |= 1u << (strtoul(text, &end, 10) - 1);
    return bits;
}

/* "X" for all modes or "MODE=X,..."; MODE alone gives 1 where `plain` is set. */
static void penalties(const char *text, int plain, uint32_t order, double *ret)
{
    char *end;
    if (!plain && strchr(text, '=') == NULL) {
        for (uint32_t m = 0; m < order; m++)
            ret[m] = strtod(text, NULL);
        return;
    }
    while (*text != 0) {
        const unsigned long mode = strtoul(text, &end, 10);
        ret[mode - 1] = *end == '=' ? strtod(end + 1, &end) : 1;
        text = *end == ',' ? end + 1 : end;
    }
}

/* "LOWER:UPPER" for all modes or "MODE=LOWER:UPPER,...". */
static void bounds(const char *text, struct asked *a)
{
    char *end;
    const int all = strchr(text, '=') == NULL;
    for (uint32_t m = 0; m < a->order; m++) {
        a->lower[m] = -INFINITY;
        a->upper[m] = INFINITY;
    }
    for (; *text != 0; text = *end == ',' ? end + 1 : end) {
        const unsigned long mode = all ? 1 : strtoul(text, &end, 10);
        const double low = strtod(all ? text : end + 1, &end), high = strtod(end + 1, &end);
        for (uint32_t m = all ? 0 : (uint32_t)mode - 1; m < (all ? a->order : mode); m++) {
            a->lower[m] = low;
            a->upper[m] = high;
        }
    }
    a->cp.lower = a->lower;
    a->cp.upper = a->upper;
}

static int loss(const char *text, double *at)
{
    static const char *const name[] = { "least-squares",   "poisson", "bernoulli",
                                        "bernoulli-logit", "gamma",   "poisson-log" };
    for (int i = 0; i < (int)(sizeof name / sizeof *name); i++)
        if (strcmp(text, name[i]) == 0)
            return i;
    if (strncmp(text, "huber:", 6) != 0)
        unknown(text);
    *at = strtod(text + 6, NULL);
    return TS_LOSS_HUBER;
}

static unsigned formats(const char *text)
{
    return (strstr(text, "ktensor") != NULL ? TS_FILE_KTENSOR : 0) |
           (strstr(text, "npy") != NULL ? TS_FILE_NPY : 0) |
           (strstr(text, "splatt") != NULL ? TS_FILE_SPLATT : 0);
}

static void ranks(struct asked *a, const char *text)
{
    char *end;
    for (a->n_ranks = 0; *text != 0 && a->n_ranks < MODELS; text = *end == ',' ? end + 1 : end)
        a->rank[a->n_ranks++] = (uint32_t)strtoul(text, &end, 10);
    a->session.rank = a->rank[0];
}

/* Options without a value, or whose value may be left out; 0: it is none of them. */
static int take_flag(struct asked *a, const char *name, const char *value)
{
    if (strcmp(name, "nonneg") == 0)
        a->cp.nonneg = mode_bits(value, a->order);
    else if (strcmp(name, "accelerate") == 0)
        a->cp.accelerate = 1;
    else if (strcmp(name, "observed") == 0)
        a->cp.observed = 1;
    else if (strcmp(name, "mean") == 0)
        a->cp.mean = 1;
    else if (strcmp(name, "save-init") == 0)
        a->cp.save_init = 1;
    else if (strcmp(name, "cpu") == 0)
        a->session.cpu = 1;
    else
        return strcmp(name, "quiet") == 0;
    return 1;
}

static int take_constraint(struct asked *a, const char *name, const char *value)
{
    if (strcmp(name, "l1") == 0) {
        penalties(value, 0, a->order, a->l1);
        a->cp.l1 = a->l1;
    } else if (strcmp(name, "l2") == 0) {
        penalties(value, 0, a->order, a->l2);
        a->l2_given = 1;
    } else if (strcmp(name, "smooth") == 0) {
        penalties(value, 1, a->order, a->smooth);
        a->cp.smooth = a->smooth;
    } else if (strcmp(name, "bounds") == 0)
        bounds(value, a);
    else if (strcmp(name, "simplex") == 0)
        a->cp.simplex = mode_bits(value, a->order);
    else if (strcmp(name, "orthogonal") == 0)
        a->cp.orthogonal = mode_bits(value, a->order);
    else if (strcmp(name, "fix") == 0)
        a->cp.fix = mode_bits(value, a->order);
    else
        return 0;
    return 1;
}

static int take_model(struct asked *a, const char *name, const char *value)
{
    if (strcmp(name, "loss") == 0)
        a->cp.loss = loss(value, &a->cp.loss_at);
    else if (strcmp(name, "optimizer") == 0)
        a->cp.optimizer = strcmp(value, "lbfgsb") == 0 ? TS_OPTIMIZER_LBFGSB : TS_OPTIMIZER_ADAM;
    else if (strcmp(name, "inner") == 0)
        a->cp.inner = (uint32_t)atoi(value);
    else if (strcmp(name, "l2-scale") == 0)
        a->cp.l2_by_count = strcmp(value, "count") == 0;
    else if (strcmp(name, "hold-out") == 0)
        a->cp.hold_out = strtod(value, NULL) / 100;
    else if (strcmp(name, "patience") == 0)
        a->cp.patience = (uint32_t)atoi(value);
    else if (strcmp(name, "precision") == 0)
        a->session.precision = strcmp(value, "float64") == 0 ? TS_REAL_FLOAT64 : TS_REAL_FLOAT32;
    else if (strcmp(name, "rank") == 0)
        ranks(a, value);
    else
        return 0;
    return 1;
}

static int take_run(struct asked *a, const char *name, const char *value)
{
    if (strcmp(name, "iters") == 0)
        a->cp.sweeps = (uint32_t)atoi(value);
    else if (strcmp(name, "tol") == 0)
        a->cp.tol = strtod(value, NULL);
    else if (strcmp(name, "seed") == 0)
        a->cp.seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "init") == 0)
        a->init = value;
    else if (strcmp(name, "restarts") == 0)
        a->restarts = (uint32_t)atoi(value);
    else if (strcmp(name, "threads") == 0)
        a->session.threads = (uint32_t)atoi(value);
    else if (strcmp(name, "host-memory") == 0)
        a->session.host_memory = strtoull(value, NULL, 10) * 1024; /* K */
    else if (strcmp(name, "gpus") == 0)
        a->session.gpus = value;
    else if (strcmp(name, "out") == 0)
        a->cp.out = value;
    else if (strcmp(name, "format") == 0)
        a->cp.formats = formats(value);
    else if (strcmp(name, "rows") == 0)
        a->cp.held_rows = strcmp(value, "used") == 0;
    else if (strcmp(name, "stop") == 0)
        sscanf(value, "%u.%u", &a->stop_sweep, &a->stop_mode);
    else
        return 0;
    return 1;
}

/* Every option is --name or --name=value. */
static void take_option(struct asked *a, const char *option)
{
    char name[64];
    const char *equals = strchr(option, '=');
    const size_t n = equals == NULL ? strlen(option) : (size_t)(equals - option);
    if (strncmp(option, "--", 2) != 0 || n >= sizeof name)
        unknown(option);
    memcpy(name, option + 2, n - 2);
    name[n - 2] = 0;
    if (take_flag(a, name, equals == NULL ? NULL : equals + 1))
        return;
    if (equals == NULL || (!take_constraint(a, name, equals + 1) &&
                           !take_model(a, name, equals + 1) && !take_run(a, name, equals + 1)))
        unknown(option);
}

/* What a session is told of the run that it is opened for. */
static void prepare_session(struct asked *a)
{
    const ts_cp_conf *c = &a->cp;
    uint32_t rows = c->nonneg | c->simplex | c->fix;
    if (c->observed && !a->l2_given) /* as the program does */
        for (uint32_t m = 0; m < a->order && c->loss == TS_LOSS_LEAST_SQUARES; m++)
            a->l2[m] = (c->fix >> m & 1) != 0 ? 0 : 0.1;
    for (uint32_t m = 0; m < a->order; m++) {
        if ((c->fix >> m & 1) != 0)
            a->l1[m] = a->l2[m] = 0;
        if (a->l1[m] > 0 ||
            (c->lower != NULL && (c->lower[m] > -INFINITY || c->upper[m] < INFINITY)))
            rows |= 1u << m;
        if (a->smooth[m] > 0)
            a->session.smooth |= 1u << m;
    }
    a->cp.l2 = a->l2;
    a->session.own_rows = rows;
    a->session.accelerate = c->accelerate;
    a->session.observed = c->observed;
    a->session.loss = c->loss;
    a->session.optimizer = c->optimizer;
    a->session.patience = c->patience != 0;
    a->session.hold_out = c->hold_out > 0;
    a->session.checkpoints = 1;
}

static int solved(void *ctx, uint32_t sweep, uint32_t mode, double seconds)
{
    const struct asked *a = ctx;
    (void)seconds;
    return sweep == a->stop_sweep && mode + 1 == a->stop_mode;
}

static int fail(const ts_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int run_one(ts_tensor *t, struct asked *a)
{
    ts_error err;
    ts_session *s = ts_session_open(t, &a->session, &err);
    ts_cpd *c = s == NULL ? NULL : ts_cp(s, &a->cp, NULL, &err);
    const int stopped = s != NULL && c == NULL && a->stop_sweep > 0 && err.code == TS_ERR_STOPPED;
    ts_cpd_free(c);
    ts_session_close(s);
    return c != NULL || stopped ? 0 : fail(&err);
}

/* Ranks and starts: "4,6" of --rank, and so many starts of each. */
static int run_several(ts_tensor *t, struct asked *a)
{
    ts_several_conf conf = { .size = sizeof conf,
                             .n_ranks = a->n_ranks,
                             .rank = a->rank,
                             .restarts = a->restarts,
                             .run = &a->cp };
    const uint32_t n = a->n_ranks * a->restarts;
    const ts_cpd *start[MODELS] = { a->cp.start }; /* the first one has it, as with the program */
    ts_cpd *ret[MODELS] = { NULL };
    ts_error err;
    if (n > MODELS || a->stop_sweep > 0)
        unknown("a stop of several models, or so many");
    conf.start = a->cp.start == NULL ? NULL : start;
    a->cp.start = NULL;
    a->cp.mode = NULL;
    if (ts_cp_several(t, &a->session, &conf, ret, NULL, &err) < 0)
        return fail(&err);
    for (uint32_t i = 0; i < n; i++)
        ts_cpd_free(ret[i]);
    return 0;
}

int main(int argc, char **argv)
{
    static struct asked a = { .session = { .size = sizeof a.session },
                              .cp = { .size = sizeof a.cp, .seed = 1 },
                              .restarts = 1 };
    ts_cpd *start = NULL;
    ts_tensor *t;
    ts_error err;
    int status;
    if (argc < 2)
        unknown("no tensor");
    t = ts_open(argv[1], &err);
    if (t == NULL)
        return fail(&err);
    a.order = ts_order(t);
    for (int i = 2; i < argc; i++)
        take_option(&a, argv[i]);
    prepare_session(&a);
    a.cp.mode = solved;
    a.cp.ctx = &a;
    if (a.init != NULL && strcmp(a.init, "nvecs") == 0)
        a.cp.nvecs = 1;
    else if (a.init != NULL && strcmp(a.init, "random") != 0) {
        start = ts_cpd_load(a.init, NULL, &err);
        if (start == NULL)
            return fail(&err);
        a.cp.start = start;
    }
    status = a.restarts > 1 || a.n_ranks > 1 ? run_several(t, &a) : run_one(t, &a);
    ts_cpd_free(start);
    ts_close(t);
    return status;
}
