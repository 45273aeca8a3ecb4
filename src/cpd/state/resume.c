/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the latest state of an unfinished run, or else the state of its result. */
#include "cpd/state/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/state/checkpoint.h"
#include "cpd/state/run_dirs.h"
#include "cpd/methods/method.h"
#include "cpd/state/run_options.h"
#include "model/model_write.h"

/* bytes of rows of starting factors that are read at a time */
#define CHUNK_BYTES (UINT64_C(1) << 20)

/* Returns TS_EFORMAT if the options in a state have another rank or precision than the state. */
static int check_options(const char *path, const struct ts_state *s, struct ts_err *err)
{
    const char *rank = ts_state_option(s, "rank"), *precision = ts_state_option(s, "precision");
    char own[16];
    int rc = ts_run_options_check(path, s->options, s->options_bytes, 0, err);
    snprintf(own, sizeof own, "%u", s->rank);
    if (rc == 0 && rank != NULL && strcmp(rank, own) != 0)
        rc = ts_fail(err, TS_EFORMAT, "%s: its options have rank %.40s, its factors rank %s", path,
                     rank, own);
    if (rc == 0 && precision != NULL &&
        strcmp(precision, s->precision == TS_FLOAT64 ? "float64" : "float32") != 0)
        rc = ts_fail(err, TS_EFORMAT, "%s: its options have precision %.40s, its factors another",
                     path, precision);
    return rc;
}

/* Opens the state DIR/NAME, and keeps it open if it is later than the state found so far. */
static int consider(struct ts_resume *r, const struct ts_open_dir *dir, int of_result,
                    const char *name, struct ts_err *err)
{
    struct ts_state_file *f = NULL;
    struct ts_err why;
    int rc = ts_state_open_in(dir, name, &f, &why);
    if (rc == 0)
        return 0;
    if (rc > 0) {
        rc = check_options(ts_state_path(f), ts_state_get(f), &why);
        if (rc < 0)
            ts_state_close(f);
    }
    if (rc == TS_ENOMEM || (rc < 0 && ts_open_dir_stale(rc, &why))) {
        *err = why;
        return rc;
    }
    if (rc < 0) {
        r->damaged = why;
        return 0;
    }
    if (r->file == NULL || ts_state_get(f)->serial > ts_state_get(r->file)->serial) {
        ts_state_close(r->file);
        r->file = f;
        r->of_result = of_result;
    } else {
        ts_state_close(f);
    }
    return 0;
}

/* Finds the latest state (a ts_run_dirs_fn). A directory that cannot be opened counts as a damaged
 * state. */
static int find_state(void *ctx, const struct ts_run_dirs *d, struct ts_err *err)
{
    static const char *const generation[] = { TS_STATE_NAME_0, TS_STATE_NAME_1, TS_STATE_NAME };
    struct ts_resume *r = ctx;
    struct stat st;
    int rc = 0;
    ts_state_close(r->file);
    *r = (struct ts_resume){ .damaged = d->no_partial };
    for (int i = 0; i < 3 && rc == 0 && d->partial != NULL && !d->is_left; i++)
        rc = consider(r, d->partial, 0, generation[i], err);
    if (rc == 0 && r->file == NULL && r->damaged.code == 0 && d->result != NULL)
        rc = consider(r, d->result, 1, TS_STATE_NAME, err);
    if (rc < 0 || r->file != NULL)
        return rc;
    if (r->damaged.code == 0)
        r->damaged = d->no_result;
    if (r->damaged.code != 0) {
        *err = r->damaged;
        return err->code;
    }
    return stat(d->name, &st) == 0 || errno != ENOENT
               ? ts_fail(err, TS_EARG, "%s: holds no state of a run that could go on", d->name)
               : ts_fail(err, TS_EARG, "%s: there is no run of this name to continue", d->name);
}

int ts_resume_open(const char *name, struct ts_resume *ret, struct ts_err *err)
{
    struct ts_resume r = { 0 };
    struct ts_run_dirs d;
    const int rc = ts_run_dirs_read(name, find_state, &r, &d, err);
    if (rc < 0) {
        ts_state_close(r.file);
        return rc;
    }
    r.dir = d.name;
    d.name = NULL;
    r.in = r.of_result ? d.result : d.partial;
    *(r.of_result ? &d.result : &d.partial) = NULL;
    ts_run_dirs_close(&d);
    *ret = r;
    return 0;
}

int ts_resume_check_place(const struct ts_resume *r, struct ts_err *err)
{
    return ts_open_dir_replaced(r->in) ? ts_open_dir_fail(ts_open_dir_path(r->in), err) : 0;
}

void ts_resume_close(struct ts_resume *r)
{
    ts_state_close(r->file);
    ts_open_dir_close(r->in);
    free(r->dir);
    memset(r, 0, sizeof *r);
}

/* ---- the starting factors of the run ---- */

/* Whether `row`, the first row of the saved starting factors, has the numbers that were drawn,
 * although the method scales them. Older versions saved starting factors before they were
 * scaled. */
static int is_unscaled(const struct ts_state *s, const struct ts_init_conf *c, uint64_t index,
                       const double *row)
{
    const char *init = ts_state_option(s, "init"), *seed = ts_state_option(s, "seed");
    const struct ts_method *method = ts_method_of(&s->spec);
    struct ts_init_conf then = *c;
    uint32_t r = 0;
    then.spec = &s->spec;
    if (method->start_is_drawn == NULL || init == NULL || strcmp(init, "random") != 0 ||
        seed == NULL || method->start_is_drawn(&then))
        return 0;
    while (r < c->rank && row[r] == ts_init_entry(strtoull(seed, NULL, 10), 0, index, r))
        r++;
    return r == c->rank;
}

/* *ret := the index of the model's first row in the first mode. */
static int first_index(const struct ts_tensor *t, const struct ts_model *m, uint64_t *ret,
                       struct ts_err *err)
{
    uint64_t *rows = NULL;
    const int rc = m->n_rows[0] == t->mode[0].disk.dim ? 0 : ts_tensor_rows(t, 0, &rows, err);
    *ret = rows != NULL ? rows[0] : 0;
    free(rows);
    return rc;
}

/* Reads all rows of saved starting factors. Returns TS_EFORMAT if one is missing, or if they were
 * saved before they were scaled. */
static int check_rows(const struct ts_resume *r, const struct ts_init_conf *c, struct ts_model *m,
                      struct ts_err *err)
{
    const uint64_t step = CHUNK_BYTES / (c->rank * sizeof(double));
    double *row = malloc(CHUNK_BYTES);
    uint64_t index = 0;
    int rc = row == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows of a start")
                         : first_index(c->tensor, m, &index, err);
    for (uint32_t k = 0; k < m->order && rc == 0; k++)
        for (uint64_t at = 0; at < m->n_rows[k] && rc == 0; at += step) {
            const uint64_t left = m->n_rows[k] - at;
            rc = ts_model_rows(m, k, left < step ? left : step, row, err);
            if (rc == 0 && k == 0 && at == 0 && is_unscaled(ts_state_get(r->file), c, index, row))
                rc = ts_fail(err, TS_EFORMAT,
                             "%s: an earlier version wrote it as it was drawn, not as the loss "
                             "scaled it",
                             m->path);
            if (rc == 0)
                rc = ts_stop_check(c->stop, err);
        }
    free(row);
    return rc;
}

/* Checks saved starting factors. They may be incomplete, because an earlier version ran out of disk
 * space, or belong to another tensor. */
static int check_start(const struct ts_resume *r, const struct ts_init_conf *conf,
                       struct ts_model *start, struct ts_err *err)
{
    struct ts_init_conf c = *conf;
    int rc;
    c.model = start;
    rc = start->rank == c.rank ? ts_init_check(&c, err)
                               : ts_fail(err, TS_EARG, "%s: its rank is %u, that of the run %u",
                                         start->path, start->rank, c.rank);
    return rc == 0 ? check_rows(r, &c, start, err) : rc;
}

/* Opens the starting factors that the run saved. Returns 1 and the model *ret, of which no row was
 * read. Returns 0 if no starting factors were saved. */
static int open_saved(const struct ts_resume *r, const struct ts_init_conf *conf,
                      struct ts_model **ret, struct ts_err *err)
{
    struct ts_model *m = NULL;
    size_t at;
    int rc = ts_model_open_file_in(r->in, TS_MODEL_START, &m, err);
    if (rc == 0)
        return 0;
    if (rc > 0)
        rc = check_start(r, conf, m, err);
    if (rc == 0)
        rc = ts_model_open_again(m, TS_MODEL_KTENSOR, ret, err);
    ts_model_close(m);
    if (rc == TS_EFORMAT || rc == TS_EARG) {
        at = strlen(err->text);
        snprintf(err->text + at, sizeof err->text - at,
                 "; remove it, and the run goes on without it");
    }
    return rc < 0 ? rc : 1;
}

int ts_resume_start(const struct ts_resume *r, int stays, struct ts_init_conf *conf,
                    struct ts_err *err)
{
    const struct ts_state *s = ts_state_get(r->file);
    const char *init = ts_state_option(s, "init"), *seed = ts_state_option(s, "seed");
    struct ts_model *saved = NULL;
    struct ts_init_conf then;
    const int rc = open_saved(r, conf, &saved, err);
    if (rc < 0)
        return rc;
    if (rc > 0 && stays) {
        ts_model_close(saved);
        return TS_START_KEPT;
    }
    if (rc > 0) {
        conf->model = saved;
        return TS_START_KNOWN;
    }
    if (init != NULL && strcmp(init, "nvecs") != 0 && strcmp(init, "random") != 0)
        return TS_START_GIVEN;
    then = (struct ts_init_conf){ .nvecs = init != NULL && strcmp(init, "nvecs") == 0,
                                  .spec = &s->spec };
    if (ts_init_is_computed(&then)) {
        ts_fail(err, TS_EARG,
                "%s: the run did not save its start, which was computed and cannot be "
                "written once there are sweeps; leave " TS_SET_SAVE_INIT " out",
                r->dir);
        return TS_START_LOST;
    }
    if (seed != NULL)
        conf->seed = strtoull(seed, NULL, 10);
    return TS_START_KNOWN;
}
