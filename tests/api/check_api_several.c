/* SPDX-License-Identifier: BSD-3-Clause */
/* Several models of one run of the library: their own bits, shared passes, stops and what is
 * kept. */
#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "tests/api/api_case.h"
#include "tests/support/run_suite.h"

/* ---- several models ---- */

static int count_sweeps(void *ctx, uint32_t model, const ts_sweep *s)
{
    uint32_t *sweeps = ctx;
    ck_assert_uint_lt(model, 4);
    ck_assert_uint_eq(s->sweep, ++sweeps[model]);
    return sweeps[0] + sweeps[1] == 3 && sweeps[2] == 1000; /* never, where 2 is 0 */
}

static void count_work(void *ctx, uint64_t nnz)
{
    atomic_fetch_add((atomic_uint_fast64_t *)ctx, nnz);
}

/* Plain, with a constraint, and from singular vectors. */
START_TEST(several_models_are_those_of_their_own_runs)
{
    const uint32_t ranks[2] = { 4, 2 };
    const ts_cp_conf run = {
        .size = sizeof run, .sweeps = 5, .seed = 7, .nonneg = _i == 1 ? 7 : 0, .nvecs = _i == 2
    };
    ts_session_conf sc = { .size = sizeof sc, .threads = 2, .cpu = 1, .own_rows = 7 };
    uint32_t sweeps[4] = { 0 };
    const ts_several_conf conf = { .size = sizeof conf,
                                   .n_ranks = 2,
                                   .rank = ranks,
                                   .restarts = 2,
                                   .run = &run,
                                   .sweep = count_sweeps,
                                   .ctx = sweeps };
    ts_several_result result[4] = { { .size = sizeof *result } };
    ts_tensor *t = open_tensor();
    ts_cpd *all[4], *again[4], *none[1] = { NULL };
    ck_assert_msg(ts_cp_several(t, &sc, &conf, all, result, &err) == 0, "%s", err.text);
    for (uint32_t k = 0; k < 4; k++) {
        ts_cp_conf own = run;
        ts_cp_result r = { .size = sizeof r };
        ts_session *s;
        ts_cpd *alone;
        own.seed += k % 2;
        sc.rank = ranks[k / 2];
        s = ts_session_open(t, &sc, &err);
        ck_assert_msg(s != NULL, "%s", err.text);
        alone = ts_cp(s, &own, &r, &err);
        ck_assert_msg(alone != NULL, "%s", err.text);
        ck_assert(equal(all[k], alone));
        ck_assert(result[k].rank == sc.rank && result[k].seed == own.seed && sweeps[k] == 5);
        ck_assert(result[k].fit == r.fit && result[k].sweeps == r.sweeps && result[k].seconds > 0);
        ck_assert_int_eq(result[k].best, result[k].fit > result[k ^ 1].fit);
        ck_assert(result[k].best ? result[k].score == 1 : result[k].score < 1);
        ts_cpd_free(alone);
        ts_session_close(s);
    }
    if (_i == 0) { /* and from starts that are given */
        ts_cp_conf more = { .size = sizeof more, .sweeps = 2 };
        ts_several_conf from = conf;
        from.run = &more;
        from.sweep = NULL;
        from.start = (const ts_cpd *const *)all;
        ck_assert_msg(ts_cp_several(t, &sc, &from, again, NULL, &err) == 0, "%s", err.text);
        for (uint32_t k = 0; k < 4; k++) {
            ck_assert(!equal(again[k], all[k]));
            ts_cpd_free(again[k]);
        }
        ck_assert_msg(ts_cp_several(t, &sc, &from, again, NULL, &err) == 0, "%s", err.text);
        for (uint32_t k = 0; k < 4; k++)
            ts_cpd_free(again[k]);
        from.start = (const ts_cpd *const *)none;
        from.n_ranks = from.restarts = 1;
        ck_assert_int_eq(ts_cp_several(t, &sc, &from, again, NULL, &err), TS_ERR_ARGUMENT);
    }
    for (uint32_t k = 0; k < 4; k++)
        ts_cpd_free(all[k]);
    ts_close(t);
}
END_TEST

/* Two at once take the passes of one. */
START_TEST(several_models_share_their_passes)
{
    const uint32_t rank = 3;
    const ts_cp_conf run = { .size = sizeof run, .sweeps = 6, .seed = 7 };
    uint64_t total[2];
    ts_tensor *t = open_tensor();
    for (uint32_t n = 1; n <= 2; n++) {
        atomic_uint_fast64_t nnz = 0;
        const ts_session_conf sc = {
            .size = sizeof sc, .threads = 2, .cpu = 1, .work = count_work, .ctx = &nnz
        };
        const ts_several_conf conf = {
            .size = sizeof conf, .n_ranks = 1, .rank = &rank, .restarts = n, .run = &run
        };
        ts_cpd *all[2];
        ck_assert_msg(ts_cp_several(t, &sc, &conf, all, NULL, &err) == 0, "%s", err.text);
        total[n - 1] = atomic_load(&nnz);
        for (uint32_t k = 0; k < n; k++)
            ts_cpd_free(all[k]);
    }
    ck_assert_uint_ge(total[0], 6 * 3 * ts_nnz(t));
    ck_assert_uint_lt(total[1], total[0] + total[0] / 2);
    ts_close(t);
}
END_TEST

/* None of few cells, or all of them. */
START_TEST(a_share_that_holds_out_nothing_or_all_is_refused)
{
    static const double share[] = { 1e-12, 0.999999999999 };
    ts_tensor *t = open_tensor();
    for (int i = 0; i < 2; i++) {
        ts_session *s = open_session(t, 2, NULL);
        ts_cp_conf conf = { .size = sizeof conf, .sweeps = 3, .hold_out = share[i] };
        ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
        ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(
            strstr(err.text, i == 0 ? "no nonzero is held out" : "every nonzero is held out"));
        ts_session_close(s);
    }
    ts_close(t);
}
END_TEST

/* So do those of several ranks that leave the same cells out, and starts leave out their own; on a
 * GPU, where there is one, their errors are summed one after the other. */
START_TEST(models_that_hold_out_share_their_passes)
{
    const uint32_t ranks[3] = { 3, 5, 2 };
    const ts_cp_conf run = { .size = sizeof run,
                             .sweeps = 6,
                             .seed = 7,
                             .hold_out = 0.2,
                             .hold_out_from = _i == 1 ? 0.4 : 0,
                             .patience = _i == 2 ? 2 : 0 };
    uint64_t total[2];
    ts_tensor *t = open_tensor();
    for (uint32_t n = 1; n <= 3; n += 2) {
        atomic_uint_fast64_t nnz = 0;
        ts_session_conf sc = { .size = sizeof sc,
                               .threads = 2,
                               .cpu = _i < 3,
                               .work = count_work,
                               .ctx = &nnz,
                               .patience = _i == 2,
                               .hold_out = _i == 3 };
        const ts_several_conf conf = {
            .size = sizeof conf, .n_ranks = n, .rank = ranks, .restarts = 2, .run = &run
        };
        ts_several_result result[6] = { { .size = sizeof *result } };
        ts_cpd *all[6];
        ck_assert_msg(ts_cp_several(t, &sc, &conf, all, result, &err) == 0, "%s", err.text);
        total[n / 2] = atomic_load(&nnz);
        for (uint32_t k = 0; k < 2 * n; k++) {
            ts_cp_conf own = run;
            ts_cp_result r = { .size = sizeof r };
            ts_session *s;
            ts_cpd *alone;
            own.seed += k % 2;
            sc.rank = ranks[k / 2];
            s = ts_session_open(t, &sc, &err);
            alone = ts_cp(s, &own, &r, &err);
            ck_assert_msg(alone != NULL, "%s", err.text);
            ck_assert(equal(all[k], alone));
            ck_assert(result[k].held_out_rmse == r.held_out_rmse && r.held_out_rmse > 0);
            ts_cpd_free(alone);
            ts_session_close(s);
            ts_cpd_free(all[k]);
        }
    }
    if (run.patience == 0 && _i < 3) {                      /* all make as many sweeps */
        ck_assert_uint_ge(total[0], 2 * 6 * 4 * ts_nnz(t)); /* each start alone */
        ck_assert_uint_lt(total[1], total[0] + total[0] / 2);
    }
    ts_close(t);
}
END_TEST

/* As tstream cp --rank 4,2 --restarts 2 -s 3 -i 4 has it. */
static const uint32_t kept_ranks[2] = { 4, 2 };
static ts_cp_conf several_run(void)
{
    return (ts_cp_conf){
        .size = sizeof(ts_cp_conf), .sweeps = 4, .seed = 3, .out = files, .checkpoint_seconds = -1
    };
}

static int run_several(const ts_tensor *t, const ts_cp_conf *run, ts_several_sweep_fn *sweep,
                       ts_cpd *ret[4], ts_several_result result[4])
{
    const ts_session_conf sc = {
        .size = sizeof sc, .threads = 2, .cpu = 1, .checkpoints = 1, .own_rows = run->nonneg
    };
    const ts_several_conf conf = { .size = sizeof conf,
                                   .n_ranks = 2,
                                   .rank = kept_ranks,
                                   .restarts = 2,
                                   .run = run,
                                   .sweep = sweep };
    if (result != NULL)
        result[0].size = sizeof *result;
    return ts_cp_several(t, &sc, &conf, ret, result, &err);
}

/* While the second sweep of the models is under way. */
static int stop_second(void *ctx, uint32_t model, const ts_sweep *s)
{
    (void)ctx;
    return model == 3 && s->sweep == 1;
}

static void free_all(ts_cpd *all[4])
{
    for (uint32_t k = 0; k < 4; k++)
        ts_cpd_free(all[k]);
}

/* The files hold these models. */
static void hold_files(ts_cpd *const all[4])
{
    for (uint32_t k = 0; k < 4; k++) {
        char path[4300];
        ts_cpd *c;
        snprintf(path, sizeof path, "%s/r%u.s%u", files, kept_ranks[k / 2], 3 + k % 2);
        c = ts_cpd_load(path, NULL, &err);
        ck_assert_msg(c != NULL, "%s", err.text);
        ck_assert_mem_eq(ts_cpd_weights(all[k]), ts_cpd_weights(c),
                         kept_ranks[k / 2] * sizeof(double));
        ts_cpd_free(c);
    }
}

/* What a kill leaves of a run whose last model was not done. */
static void kill_last(void)
{
    char command[20000];
    snprintf(command, sizeof command,
             "mv '%s' '%s.partial' && cd '%s.partial' && rm -r models.json models.tsv best.* r2.s4",
             files, files, files);
    ck_assert_int_eq(system(command), 0);
}

/* Stopped by the library, and gone on by it; by the command; and the other way round: always the
 * models of a run that keeps nothing. */
START_TEST(several_models_are_kept_and_go_on)
{
    ts_cp_conf run = several_run();
    ts_several_result whole_row[4], row[4];
    ts_tensor *t = open_tensor();
    ts_cpd *whole[4], *all[4];
    char arguments[9000];
    run.out = NULL;
    ck_assert_msg(run_several(t, &run, NULL, whole, whole_row) == 0, "%s", err.text);
    run = several_run();
    run.resume = TS_RESUME;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "no run of several models") != NULL, "%s", err.text);

    run.resume = TS_RESUME_IF_ANY; /* stopped, and gone on */
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "states of the others, are in") != NULL, "%s", err.text);
    run.resume = TS_RESUME_NEVER;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_BUSY);
    run.resume = TS_RESUME;
    run.seed = 4;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "the run has seed 3") != NULL, "%s", err.text);
    run.seed = 3;
    ck_assert_msg(run_several(t, &run, NULL, all, row) == 0, "%s", err.text);
    hold_files(whole);
    for (uint32_t k = 0; k < 4; k++) {
        ck_assert(equal(whole[k], all[k]));
        ck_assert(row[k].fit == whole_row[k].fit && row[k].score == whole_row[k].score);
        ck_assert(row[k].best == whole_row[k].best && row[k].sweeps == 4);
    }
    free_all(all);
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT); /* all are done */
    ck_assert_msg(strstr(err.text, "all its models are done") != NULL, "%s", err.text);

    run.resume = TS_RESUME_NEVER; /* by the command */
    run.replace = 1;
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    snprintf(arguments, sizeof arguments, "--resume %s", files);
    program(arguments);
    hold_files(whole);

    snprintf(arguments, sizeof arguments, "%s -r 4,2 --restarts 2 -s 3 -i 4 --tol 0 --force -o %s",
             tensor, files);
    program(arguments);
    hold_files(whole);
    kill_last();
    run.replace = 0;
    run.resume = TS_RESUME;
    ck_assert_msg(run_several(t, &run, NULL, all, row) == 0, "%s", err.text);
    hold_files(whole);
    for (uint32_t k = 0; k < 4; k++) {
        ck_assert(equal(whole[k], all[k]));
        ck_assert(row[k].fit == whole_row[k].fit && row[k].best == whole_row[k].best);
        ck_assert(fabs(row[k].score - whole_row[k].score) < 1e-12 && row[k].sweeps == 4);
    }
    kill_last();
    run.nonneg = 1; /* models that are done have other constraints */
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    run.nonneg = 0;
    run.save_init = 1; /* and no start beside them */
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "cannot continue with save-init 1") != NULL, "%s", err.text);
    free_all(all);
    free_all(whole);
    ts_close(t);
}
END_TEST

/* sh, in the partial directory of the models. */
static void in_partial(const char *what)
{
    char command[9000];
    snprintf(command, sizeof command, "cd '%s.partial' && %s", files, what);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static int is_there(const char *name)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s", files, name);
    return access(path, F_OK) == 0;
}

START_TEST(several_models_go_on_without_starts)
{
    ts_cp_conf run = several_run();
    ts_tensor *t = open_tensor();
    ts_cpd *all[4];
    run.nvecs = run.save_init = run.replace = 1;
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    in_partial("rm r4.s3.partial/init.ktensor");
    run.resume = TS_RESUME;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "leave save_init out") != NULL, "%s", err.text);
    run.save_init = 0;
    ck_assert_msg(run_several(t, &run, NULL, all, NULL) == 0, "%s", err.text);
    free_all(all);
    ck_assert(!is_there("r4.s3/init.ktensor") && is_there("r4.s4/init.ktensor"));

    run.resume = TS_RESUME_NEVER; /* models that are done may have none */
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    run.resume = TS_RESUME;
    run.save_init = 1;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "cannot continue with save-init 1") != NULL, "%s", err.text);

    run.resume = TS_RESUME_NEVER; /* an earlier version did not say */
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    in_partial("sed -zi '/^save-init=/d; /^version=/d; /^xxh3=/d' models.run");
    run.resume = TS_RESUME;
    ck_assert_msg(run_several(t, &run, NULL, all, NULL) == 0, "%s", err.text);
    free_all(all);
    ck_assert(is_there("r4.s3/init.ktensor") && is_there("r2.s4/init.ktensor"));
    ts_close(t);
}
END_TEST

static uint32_t stopped_at; /* a model, whose second sweep is over */
static int stop_there(void *ctx, uint32_t model, const ts_sweep *s)
{
    (void)ctx;
    return model == stopped_at && s->sweep == 2;
}

/* Where rows are solved from the old ones: models that come behind the one that stops have made the
 * pass, too. */
START_TEST(several_models_go_on_from_where_each_is)
{
    ts_cp_conf run = several_run();
    ts_tensor *t = open_tensor();
    ts_cpd *whole[4], *all[4];
    run.nonneg = 7;
    run.out = NULL;
    ck_assert_msg(run_several(t, &run, NULL, whole, NULL) == 0, "%s", err.text);
    for (stopped_at = 0; stopped_at < 4; stopped_at++) {
        run.out = files;
        run.resume = TS_RESUME_NEVER;
        run.replace = 1;
        ck_assert_int_eq(run_several(t, &run, stop_there, all, NULL), TS_ERR_STOPPED);
        run.resume = TS_RESUME;
        ck_assert_msg(run_several(t, &run, NULL, all, NULL) == 0, "%s", err.text);
        for (uint32_t k = 0; k < 4; k++)
            ck_assert_msg(equal(whole[k], all[k]), "model %u, stopped at %u", k, stopped_at);
        free_all(all);
    }
    free_all(whole);
    ts_close(t);
}
END_TEST

START_TEST(several_models_are_stopped_and_refused)
{
    const uint32_t same[2] = { 3, 3 }, one[1] = { 3 };
    uint32_t sweeps[4] = { 0, 0, 1000 };
    ts_cp_conf run = { .size = sizeof run, .sweeps = 1000000000, .out = files };
    ts_session_conf sc = { .size = sizeof sc, .threads = 2, .cpu = 1 };
    ts_several_conf conf = { .size = sizeof conf,
                             .n_ranks = 2,
                             .rank = same,
                             .restarts = 2,
                             .run = &run,
                             .sweep = count_sweeps,
                             .ctx = sweeps };
    ts_tensor *t = open_tensor();
    ts_cpd *all[4];
    ck_assert_int_eq(ts_cp_several(t, &sc, NULL, all, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "rank 3 is given twice") != NULL, "%s", err.text);
    conf.n_ranks = 1;
    conf.rank = one;
    run.out = NULL;
    run.nonneg = 1; /* which the session was not asked for */
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_ARGUMENT);
    run.nonneg = 0;
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_STOPPED);
    ck_assert_uint_eq(sweeps[0] + sweeps[1], 3); /* the callback's word holds at once */
    conf.sweep = NULL;
    run.max_seconds = 0.05;
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "the time is over") != NULL, "%s", err.text);
    ts_close(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_several");
    TCase *c = tcase_create("api_several");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, several_models_are_those_of_their_own_runs, 0, 3);
    tcase_add_test(c, several_models_share_their_passes);
    tcase_add_test(c, a_share_that_holds_out_nothing_or_all_is_refused);
    tcase_add_loop_test(c, models_that_hold_out_share_their_passes, 0, 4);
    tcase_add_test(c, several_models_are_kept_and_go_on);
    tcase_add_test(c, several_models_go_on_from_where_each_is);
    tcase_add_test(c, several_models_go_on_without_starts);
    tcase_add_test(c, several_models_are_stopped_and_refused);
    suite_add_tcase(suite, c);
    return test_run_suite(suite, CK_NOFORK);
}
