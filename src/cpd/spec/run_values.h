/* SPDX-License-Identifier: BSD-3-Clause */
/* run_values.h - the values of all settings of a run, and their checks. Settings of a command line
 * and those of a file (run_options.h) pass the same checks.
 *
 *   owner    texts point to memory of the caller
 *   units    modes count from 1 in texts, from 0 in a specification
 *   threads  any thread
 *   errors   0 or TS_EARG, with the setting's name in tstream cp. For a file: TS_EFORMAT, with the
 *            name of the file
 */
#ifndef TS_CPD_RUN_VALUES_H
#define TS_CPD_RUN_VALUES_H

#include <stdint.h>

#include "base/err.h"
#include "base/setting_kind.h"
#include "cpd/spec/spec.h"
#include "cpd/state/state.h"

struct ts_tensor;

#define TS_RESTARTS_MOST 1000u
#define TS_FOLDS_MOST    20u

/* The values of settings: a member for each row of base/settings.def, except for settings that
 * other commands share. */
struct ts_run_values {
#define SETTING(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
#define SETTING_IN(...)
#include "base/settings.def"
};

/* Returns the number of models of a run: the number of models for each rank, times the number of
 * ranks. */
static inline uint32_t ts_run_values_models(const struct ts_run_values *v)
{
    return v->ranks.n * (v->folds > 0 ? v->folds : v->restarts);
}

/* Makes the specification of the run from the values. *named: the highest mode number, from 1, that
 * a value names. */
int ts_run_values_spec(const struct ts_run_values *v, struct ts_spec *ret, uint32_t *named,
                       struct ts_err *err);

/* Checks that the values describe a run of one model or several. spec: their specification. */
int ts_run_values_check(const struct ts_run_values *v, const struct ts_spec *spec,
                        struct ts_err *err);

/* Sets an option to `value`, its text in a file. The text of a flag is 0 or 1. args: the struct
 * that opt->at refers to. */
int ts_run_values_set(const char *file, const struct ts_opt *opt, const char *value, void *args,
                      struct ts_err *err);

/* Checks that the options in a state agree with its other sections. named and spec are results of
 * ts_run_values_spec. */
int ts_run_values_same(const char *file, const struct ts_run_values *v, const struct ts_spec *spec,
                       uint32_t named, const struct ts_state *s, struct ts_err *err);

/* Settings that need another setting, or that another one needs: whether a run has each of them,
 * and its name for messages. */
struct ts_run_needs {
    int by_count, mean, patience, observed, hold_out, least_squares; /* set, or not 0 */
    const char *by_count_is, *mean_is, *patience_is, *observed_is, *hold_out_is;
};

/* Returns TS_EARG if a setting is given without another setting that it needs. */
int ts_run_needs_check(const struct ts_run_needs *n, struct ts_err *err);

/* Makes all checks of this header for the options in s, the state of a run of tensor t. one 1: s is
 * the state of one model; 0: s has the options of a run of several models. */
int ts_run_values_check_file(const char *file, const struct ts_state *s, int one,
                             const struct ts_tensor *t, struct ts_err *err);

#endif
