/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library keeps of a run and goes on with: states, starts, traces, constraints, time. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "api/api_session.h"
#include "base/rng.h"
#include "tests/api/api_case.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

/* ---- what a run keeps ---- */

static int after_two(void *ctx, const ts_sweep *s)
{
    ts_progress p = { .size = sizeof p };
    ts_session_progress(ctx, &p);
    ck_assert_uint_eq(p.sweep, s->sweep + 1);
    ck_assert(p.mode == 0 && p.done == 0 && p.total > 0);
    return s->sweep == 2;
}

static ts_cp_conf kept_run(void)
{
    return (ts_cp_conf){ .size = sizeof(ts_cp_conf),
                         .sweeps = 6,
                         .seed = 3,
                         .out = files,
                         .formats = TS_FILE_KTENSOR | TS_FILE_NPY };
}

/* A run that ends after two sweeps. */
static void stop_one(const ts_tensor *t)
{
    ts_session *s = open_session(t, 2, NULL);
    ts_cp_conf conf = kept_run();
    conf.sweep = after_two;
    conf.ctx = s;
    conf.checkpoint_seconds = 1e-9;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "the state before sweep 3, mode 1 is in") != NULL, "%s",
                  err.text);
    ck_assert_int_ne(access(files, F_OK), 0);
    ts_session_close(s);
}

static ts_cpd *run_kept(const ts_tensor *t, int resume, ts_cp_result *result)
{
    ts_session *s = open_session(t, 1, NULL);
    ts_cp_conf conf = kept_run();
    ts_cpd *c;
    conf.resume = resume;
    c = ts_cp(s, &conf, result, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ts_session_close(s);
    return c;
}

/* The library and the program go on from each other's states, to the same bits. */
START_TEST(a_run_goes_on)
{
    ts_tensor *t = open_tensor();
    ts_cp_conf conf = kept_run();
    ts_session *s = open_session(t, 2, NULL);
    ts_cp_result result = { .size = sizeof result };
    char arguments[9000];
    ts_cpd *whole, *c;
    conf.out = NULL;
    whole = ts_cp(s, &conf, NULL, &err);
    ck_assert_msg(whole != NULL, "%s", err.text);
    conf = kept_run();
    conf.resume = TS_RESUME; /* there is none */
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    conf.resume = 3;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    conf.resume = TS_RESUME;
    conf.out = NULL;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));

    stop_one(t);
    conf = kept_run();
    conf.resume = TS_RESUME_IF_ANY;
    conf.seed = 4;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err)); /* another run */
    ck_assert_msg(strstr(err.text, "the run has seed 3") != NULL, "%s", err.text);
    c = run_kept(t, TS_RESUME, &result);
    ck_assert(equal(whole, c) && result.sweeps == 6 && result.sweeps_before == 2);
    ts_cpd_free(c);
    c = ts_cpd_load(files, NULL, &err);
    ck_assert_mem_eq(ts_cpd_weights(whole), ts_cpd_weights(c), 4 * sizeof(double));
    ts_cpd_free(c);
    conf = kept_run();
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err)); /* which is there */
    ck_assert_int_eq(err.code, TS_ERR_BUSY);
    conf.replace = 1; /* and the session goes on */
    c = ts_cp(s, &conf, &result, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert(equal(whole, c) && result.sweeps_before == 0);
    ts_cpd_free(c);
    ts_session_close(s);
    test_tsh_remove(files);

    stop_one(t);
    snprintf(arguments, sizeof arguments, "--resume %s", files);
    program(arguments);
    c = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_mem_eq(ts_cpd_weights(whole), ts_cpd_weights(c), 4 * sizeof(double));
    ts_cpd_free(c);
    test_tsh_remove(files);

    snprintf(arguments, sizeof arguments, "%s -r 4 -s 3 -i 2 --tol 0 -o %s", tensor, files);
    program(arguments);
    c = run_kept(t, TS_RESUME_IF_ANY, &result);
    ck_assert(equal(whole, c) && result.sweeps_before == 2);
    ts_cpd_free(c);
    ts_cpd_free(whole);
    ts_close(t);
}
END_TEST

static int is_mapped(const char *name)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[5000];
    int found = 0;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = strstr(line, name) != NULL;
    ck_assert_ptr_nonnull(f);
    fclose(f);
    return found;
}

/* A factor of 1 MiB and more, in a file, is mapped; another result may take the place of its files
 * meanwhile. */
START_TEST(large_factors_are_mapped)
{
    const uint64_t dim[2] = { 70000, 10 };
    const double weight[2] = { 3, 2 };
    double *big = malloc(dim[0] * 2 * sizeof *big), rows[4];
    const double *const factor[2] = { big, big };
    const ts_save_conf save = { .size = sizeof save,
                                .formats = TS_FILE_NPY | TS_FILE_KTENSOR,
                                .replace = 1 };
    char name[4300];
    FILE *f;
    ts_cpd *c, *again;
    for (uint64_t i = 0; i < 2 * dim[0]; i++)
        big[i] = (double)ts_mix(i) * 0x1p-64;
    c = ts_cpd_new(2, dim, 2, TS_REAL_FLOAT64, weight, factor, &err);
    ck_assert_int_eq(ts_cpd_save(c, files, &save, &err), 0);
    ts_cpd_free(c);
    snprintf(name, sizeof name, "%s/mode1.npy", files);
    ck_assert_int_eq(is_mapped(name), 0);
    c = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_int_eq(ts_cpd_precision(c), TS_REAL_FLOAT64);
    ck_assert_int_eq(is_mapped(name), 1);
    ck_assert_mem_eq(ts_cpd_factor(c, 0), big, 2 * dim[0] * sizeof *big);
    ck_assert_int_eq(ts_cpd_save(c, files, &save, &err), 0); /* from there to there */
    again = ts_cpd_load(files, NULL, &err);
    ck_assert_int_eq(ts_cpd_rows(c, 0, 69998, 2, rows, &err), 0);
    ck_assert_mem_eq(rows, big + 2 * 69998, sizeof rows);
    ck_assert_mem_eq(ts_cpd_factor(again, 0), big, 2 * dim[0] * sizeof *big);
    ts_cpd_free(c);
    ts_cpd_free(again);
    ck_assert_int_eq(is_mapped(name), 0);
    f = fopen(name, "r+b"); /* and what is mapped was looked at */
    ck_assert_int_eq(fseek(f, -8, SEEK_END), 0);
    fwrite("\0\0\0\0\0\0\xf0\x7f", 1, 8, f);
    fclose(f);
    ck_assert_ptr_null(ts_cpd_load(files, NULL, &err));
    ck_assert_msg(strstr(err.text, "not finite") != NULL, "%s", err.text);
    ck_assert_int_eq(is_mapped(name), 0);
    free(big);
}
END_TEST

START_TEST(a_run_ends_in_time)
{
    const ts_cp_conf conf = {
        .size = sizeof conf, .sweeps = 1000000000, .seed = 3, .max_seconds = 0.05
    };
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL);
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "the time is over") != NULL, "%s", err.text);
    ts_session_close(s);
    s = open_session(t, 2, NULL);
    ck_assert_ptr_null(
        ts_cp(s, &(ts_cp_conf){ .size = sizeof(ts_cp_conf), .max_seconds = -1 }, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* ---- constraints ---- */

static ts_session *open_for(const ts_tensor *t, uint32_t own_rows, uint64_t *factor_bytes)
{
    const ts_session_conf c = {
        .size = sizeof c, .rank = 4, .threads = 2, .cpu = 1, .own_rows = own_rows
    };
    ts_session_info info = { .size = sizeof info };
    ts_session *s = ts_session_open(t, &c, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    ts_session_describe(s, &info);
    *factor_bytes = info.factor_bytes;
    return s;
}

static void run_well(ts_session *s, const ts_cp_conf *conf)
{
    ts_cpd *c = ts_cp(s, conf, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ts_cpd_free(c);
}

static void run_refused(ts_session *s, const ts_cp_conf *conf, const char *why)
{
    char partial[4300];
    ck_assert_ptr_null(ts_cp(s, conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
    snprintf(partial, sizeof partial, "%s.partial", files);
    ck_assert_int_ne(access(partial, F_OK), 0);
}

/* A session has the memory of the constraints that it was opened for; others leave it and the disk
 * as they were. */
START_TEST(a_session_knows_of_constraints)
{
    const double l1[3] = { 0, 0.5, 0 }, l2[3] = { 1, 1, 1 };
    ts_cp_conf conf = kept_run();
    uint64_t plain, one, all, rows[3], most = 0;
    ts_tensor *t = open_tensor();
    ts_session *s = open_for(t, 0, &plain);
    for (uint32_t m = 0; m < 3; m++) {
        rows[m] = ts_used(t, m);
        most = rows[m] > most ? rows[m] : most;
    }
    conf.sweeps = 1;
    conf.nonneg = 1;
    run_refused(s, &conf, "own_rows");
    conf.nonneg = 0;
    conf.l1 = l1;
    run_refused(s, &conf, "own_rows");
    conf.l1 = NULL;
    conf.l2 = l2;
    run_well(s, &conf);
    test_tsh_remove(files);
    ts_session_close(s);

    s = open_for(t, 2, &one);
    ck_assert_uint_eq(one - plain, rows[1] * 4 * sizeof(float));
    conf.nonneg = 4;
    run_refused(s, &conf, "own_rows");
    conf.nonneg = 0;
    conf.l1 = l1;
    run_well(s, &conf);
    test_tsh_remove(files);
    ts_session_close(s);

    s = open_for(t, 7, &all);
    ck_assert_uint_eq(all - plain, most * 4 * sizeof(float));
    conf.nonneg = 7;
    run_well(s, &conf);
    test_tsh_remove(files);
    ts_session_close(s);
    ck_assert_ptr_null(ts_session_open(
        t,
        &(ts_session_conf){ .size = sizeof(ts_session_conf), .rank = 4, .cpu = 1, .own_rows = 8 },
        &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ts_close(t);
}
END_TEST

/* Then what takes it is refused, and other runs are not. */
START_TEST(a_backend_may_lack_updates)
{
    ts_cp_conf conf = kept_run();
    ts_tensor *t = open_tensor();
    uint64_t bytes;
    ts_session *s = open_for(t, 7, &bytes);
    struct ts_backend lacks = *s->engine->backend;
    lacks.can &= ~(uint32_t)TS_ROWS_ALL | TS_CAN(LEAST_SQUARES);
    s->engine->backend = &lacks;
    conf.nonneg = 1;
    run_refused(s, &conf, "these constraints are computed on CPU cores only");
    conf.nonneg = 0;
    run_well(s, &conf);
    ts_session_close(s);
    test_tsh_remove(files);
    ts_close(t);
}
END_TEST

/* ---- the start beside the result ---- */

/* init.ktensor of the result; to be freed. NULL: there is none. */
static char *saved_start(void)
{
    char path[4300], *text = NULL;
    size_t n = 0;
    FILE *f, *to;
    int byte;
    snprintf(path, sizeof path, "%s/init.ktensor", files);
    f = fopen(path, "r");
    if (f == NULL)
        return NULL;
    to = open_memstream(&text, &n);
    while ((byte = getc(f)) != EOF)
        putc(byte, to);
    fclose(f);
    fclose(to);
    return text;
}

/* The start that a run of so many sweeps leaves; to be freed. says: NULL, or why it is refused. */
static char *start_of(ts_session *s, ts_cp_conf conf, uint32_t sweeps, int resume, const char *says)
{
    ts_cpd *c;
    conf.sweeps = sweeps;
    conf.resume = resume;
    conf.save_init = 1;
    c = ts_cp(s, &conf, NULL, &err);
    ck_assert_int_eq(c == NULL, says != NULL);
    ck_assert_msg(says == NULL || strstr(err.text, says) != NULL, "%s", err.text);
    ts_cpd_free(c);
    return c != NULL ? saved_start() : NULL;
}

/* 0: it is drawn; 1: given; 2: computed. */
START_TEST(a_start_is_saved_also_where_a_run_goes_on)
{
    ts_cp_conf conf = kept_run();
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL), *stops;
    ts_cpd *given = NULL;
    char *whole, *text, arguments[9000];
    conf.nvecs = _i == 2;
    if (_i == 1) {
        ts_cp_conf before = { .size = sizeof before, .sweeps = 1, .seed = 5 };
        given = ts_cp(s, &before, NULL, &err);
        ck_assert_msg(given != NULL, "%s", err.text);
        conf.start = given;
    }
    whole = start_of(s, conf, 2, TS_RESUME_NEVER, NULL);
    ck_assert_ptr_nonnull(whole);
    text = start_of(s, conf, 3, TS_RESUME, NULL); /* of a result */
    ck_assert_str_eq(whole, text);
    free(text);
    snprintf(arguments, sizeof arguments, "--resume %s -i 4", files);
    program(arguments); /* which is told of it */
    text = saved_start();
    ck_assert_str_eq(whole, text);
    free(text);
    test_tsh_remove(files);

    conf.checkpoint_seconds = 1e-9; /* of a run that was stopped, and saved none */
    conf.sweep = after_two;
    conf.ctx = stops = open_session(t, 2, NULL);
    ck_assert_ptr_null(ts_cp(stops, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ts_session_close(stops);
    conf.sweep = NULL;
    if (_i == 2) {
        ck_assert_ptr_null(start_of(s, conf, 6, TS_RESUME, "leave save_init out"));
        conf.resume = TS_RESUME;
        ts_cpd_free(ts_cp(s, &conf, NULL, &err));
        ck_assert_ptr_null(saved_start());
    } else {
        conf.start = NULL;
        if (_i == 1)
            ck_assert_ptr_null(start_of(s, conf, 6, TS_RESUME, "give them again"));
        conf.start = given;
        text = start_of(s, conf, 6, TS_RESUME, NULL);
        ck_assert_str_eq(whole, text);
        free(text);
    }
    free(whole);
    ts_cpd_free(given);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* What a run cannot continue with is found before anything is written, and the session serves other
 * runs. */
START_TEST(a_run_goes_on_with_its_constraints)
{
    ts_cp_conf conf = kept_run();
    ts_tensor *t = open_tensor();
    ts_cp_result result = { .size = sizeof result };
    uint64_t bytes;
    ts_session *s;
    ts_cpd *c;
    stop_one(t);
    s = open_for(t, 1, &bytes);
    conf.resume = TS_RESUME;
    conf.nonneg = 1;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "it cannot continue with: nonnegative") != NULL, "%s", err.text);
    conf.nonneg = 0;
    conf.sweeps = 1; /* it is beyond that */
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    conf.sweeps = 6;
    c = ts_cp(s, &conf, &result, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_uint_eq(result.sweeps_before, 2);
    ts_cpd_free(c);
    ts_session_close(s);
    test_tsh_remove(files);
    ts_close(t);
}
END_TEST

/* The program has an l2 of its own where cells are observed, so a state says that a run has
 * none. */
START_TEST(a_run_of_observed_cells_goes_on_with_the_program)
{
    static const double none[3] = { 0, 0, 0 };
    const ts_session_conf c = {
        .size = sizeof c, .rank = 4, .threads = 2, .cpu = 1, .observed = 1
    };
    ts_tensor *t = open_tensor();
    ts_session *s = ts_session_open(t, &c, &err);
    ts_cp_conf conf = kept_run();
    char arguments[9000];
    ck_assert_msg(s != NULL, "%s", err.text);
    conf.observed = 1;
    conf.sweeps = 2;
    conf.l2 = _i == 0 ? NULL : none;
    run_well(s, &conf);
    snprintf(arguments, sizeof arguments, "--resume %s -i 4 --tol 0", files);
    program(arguments);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* 0: of a run that ends well; 1: of one that is stopped. */
START_TEST(a_trace_of_a_run)
{
    const ts_session_conf sc = {
        .size = sizeof sc, .rank = 4, .threads = 1, .cpu = 1, .trace = files, .checkpoints = 1
    };
    ts_cp_conf conf = { .size = sizeof conf, .sweeps = 3, .seed = 3 };
    ts_tensor *t = open_tensor();
    ts_session *s = ts_session_open(t, &sc, &err);
    static char text[1 << 20]; /* a few hundred events */
    size_t n;
    FILE *f;
    ck_assert_msg(s != NULL, "%s", err.text);
    if (_i == 1) {
        conf.sweep = after_two;
        conf.ctx = s;
    }
    ts_cpd_free(ts_cp(s, &conf, NULL, NULL));
    ts_session_close(s);
    f = fopen(files, "r");
    ck_assert_int_eq(f != NULL, _i == 0);
    if (f != NULL) {
        n = fread(text, 1, sizeof text - 1, f);
        text[n] = '\0';
        fclose(f);
        ck_assert_ptr_nonnull(strstr(text, "\"product\""));
        ck_assert_ptr_null(ts_session_open(t, &sc, &err)); /* it is there */
        ck_assert_int_eq(err.code, TS_ERR_BUSY);
        unlink(files);
    }
    ts_close(t);
}
END_TEST

/* ---- options of a state ---- */

/* What no run has, of each KIND of base/settings.def, as far as it is known by the kind alone. */
#define NONE_OF_FLAG                               "2"
#define NONE_OF_COUNT(A, B)                        "-1", "many", "4294967296"
#define NONE_OF_NUMBER                             "-1", "1 2"
#define NONE_OF_NUMBERS                            "0", "2049", "three", "4,5", "4,4"
#define NONE_OF_REAL                               "-1", "nan", "1e999", "x"
#define NONE_OF_SIZE                               "much"
#define NONE_OF_DURATION                           "soon", "-1s"
#define NONE_OF_CHOICE                             "newton"
#define NONE_OF_SHARE                              "100%", "nan", "fold 6/5", "0"
#define NONE_OF_TEXT                               ""
#define NONE_OF_MODES(x)                           "0", "x", "1,1", "1x2", "17"
#define NONE_OF_MODES_OR_ALL(x)                    "0", "x", "1,1", "none"
#define NONE_OF_PENALTIES(x)                       "-1", "inf", "x", "1=1,1=1", "17=1", "1=-1"
#define NONE_OF_PENALTIES_1(x)                     "0.5", "1=-1", "1=nan", "1,1"
#define NONE_OF_BOUNDS(x)                          "2:1", "1", "-inf:inf", "1=2:1", "1=0:1,1=0:1"
#define SETTING(member, option, letter, kind, ...) { option, { NONE_OF_##kind } },
static const struct {
    const char *option;
    const char *value[8];
} impossible[] = {
#include "base/settings.def"
};

/* What is possible by itself, but not with the rest of a run of least squares, or of this state. */
static const char *const not_here[] = {
    "loss=gauss",
    "loss=huber:-1",
    "loss=poisson",
    "loss=bernoulli",
    "format=csv",
    "format=npy,csv",
    "optimizer=lbfgsb",
    "iters=0",
    "inner=0",
    "restarts=2",
    "folds=3",
    "diagnose=1",
    "patience=2",
    "hold-out=10%",
    "l2-scale=count",
    "mean=1",
    "fix=1",
    "accelerate=1",
    "observed=1",
    "rank=5",
    "precision=float64",
    "nonneg=1",
    "nonneg=all",
    "l1=0.5",
    "l2=1=0.5",
    "simplex=2",
    "bounds=1=0:1",
    "orthogonal=2",
    "smooth=3",
    "smooth=3=0.5",
    "simplex=1 bounds=0:1",
    "accelerate=1 orthogonal=1",
    "observed=1 orthogonal=1",
    "observed=1 l1=1",
    "loss=poisson observed=1 mean=1",
    "out=elsewhere",
    "threads=1",
};

static int shell(const char *what, const char *arguments)
{
    const char *build_dir = getenv("TOP_BUILDDIR");
    char command[10000];
    snprintf(command, sizeof command, "%s/%s %s > %s/log 2>&1", build_dir != NULL ? build_dir : ".",
             what, arguments, tmp);
    return system(command);
}

/* The state at `files` with another option is refused, by the library and by the program, in a
 * sentence that names the file. */
static void refused(ts_session *s, const char *change)
{
    char arguments[9000];
    ts_cp_conf conf = kept_run();
    snprintf(arguments, sizeof arguments, "state %s/state %s", files, change);
    ck_assert_msg(shell("tests/reseal", arguments) == 0, "%s", arguments);
    conf.resume = TS_RESUME;
    ck_assert_msg(ts_cp(s, &conf, NULL, &err) == NULL, "the library takes %s", change);
    ck_assert_msg(strstr(err.text, "/state: ") != NULL, "%s: %s", change, err.text);
    snprintf(arguments, sizeof arguments, "cp -q --cpu --resume %s", files);
    ck_assert_msg(shell("tools/tstream", arguments) != 0, "the program takes %s", change);
}

/* Of all settings: a state is not trusted to hold what nobody could have typed, or what its factors
 * were not computed with. */
START_TEST(options_of_a_state_are_checked)
{
    ts_tensor *t = open_tensor();
    ts_session *s;
    char copy[9000], change[200];
    ts_cpd_free(run_kept(t, TS_RESUME_NEVER, NULL));
    snprintf(copy, sizeof copy, "cp %s/state %s/kept", files, tmp);
    ck_assert_int_eq(system(copy), 0);
    snprintf(copy, sizeof copy, "cp %s/kept %s/state", tmp, files);
    s = open_session(t, 1, NULL);
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++)
        for (int k = 0; k < 8 && impossible[i].value[k] != NULL; k++) {
            ck_assert_int_eq(system(copy), 0);
            snprintf(change, sizeof change, "'%s=%s'", impossible[i].option,
                     impossible[i].value[k]);
            refused(s, change);
        }
    for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++) {
        ck_assert_int_eq(system(copy), 0);
        refused(s, not_here[i]);
    }
    ts_session_close(s);
    ck_assert_int_eq(system(copy), 0);
    ts_cpd_free(run_kept(t, TS_RESUME, NULL)); /* as it was */
    snprintf(copy, sizeof copy, "%s/kept", tmp);
    unlink(copy);
    snprintf(copy, sizeof copy, "%s/log", tmp);
    unlink(copy);
    ts_close(t);
    test_tsh_remove(files);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_runs");
    TCase *c = tcase_create("api_runs");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_run_goes_on);
    tcase_add_test(c, options_of_a_state_are_checked);
    tcase_add_test(c, large_factors_are_mapped);
    tcase_add_test(c, a_run_ends_in_time);
    tcase_add_test(c, a_session_knows_of_constraints);
    tcase_add_test(c, a_backend_may_lack_updates);
    tcase_add_test(c, a_run_goes_on_with_its_constraints);
    tcase_add_loop_test(c, a_run_of_observed_cells_goes_on_with_the_program, 0, 2);
    tcase_add_loop_test(c, a_start_is_saved_also_where_a_run_goes_on, 0, 3);
    tcase_add_loop_test(c, a_trace_of_a_run, 0, 2);
    suite_add_tcase(suite, c);
    return test_run_suite(suite, CK_NOFORK);
}
