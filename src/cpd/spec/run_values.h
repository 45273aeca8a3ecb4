/* SPDX-License-Identifier: BSD-3-Clause */
/* run_values.h - the values of the settings of a run, and which of them make up a run. Those that
 * were typed and those that a file has (run_options.h) pass the same checks here.
 *
 *   owner    texts point to what the caller owns
 *   units    modes count from 1 in texts, from 0 in a specification
 *   threads  any
 *   errors   0 or TS_EARG, with the names that tstream cp has for settings; of a file TS_EFORMAT
 *            and the name of the file
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

/* A member for each row of base/settings.def but those that other commands have as well. */
struct ts_run_values {
#define SETTING(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
#define SETTING_IN(...)
#include "base/settings.def"
};

/* Models of each rank, and all of them. */
static inline uint32_t ts_run_values_models(const struct ts_run_values *v)
{
    return v->ranks.n * (v->folds > 0 ? v->folds : v->restarts);
}

/* What they make of the run and each mode. *named: the highest mode that one names. */
int ts_run_values_spec(const struct ts_run_values *v, struct ts_spec *ret, uint32_t *named,
                       struct ts_err *err);

/* Whether they make up a run of one model or several; spec is theirs. */
int ts_run_values_check(const struct ts_run_values *v, const struct ts_spec *spec,
                        struct ts_err *err);

/* An option takes the value that a file has: of a flag 0 or 1. args: what opt->at counts from. */
int ts_run_values_set(const char *file, const struct ts_opt *opt, const char *value, void *args,
                      struct ts_err *err);

/* Whether what the options of a state say of the model is what its other sections say; named and
 * spec follow from v. */
int ts_run_values_same(const char *file, const struct ts_run_values *v, const struct ts_spec *spec,
                       uint32_t named, const struct ts_state *s, struct ts_err *err);

/* All of this of the options in s, which are of a run of t. one: s is the state of one model, not
 * the options of several. */
int ts_run_values_check_file(const char *file, const struct ts_state *s, int one,
                             const struct ts_tensor *t, struct ts_err *err);

#endif
