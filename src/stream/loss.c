/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of losses. */
#include "stream/loss.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/c_locale.h"

/* ---- values ---- */

static int is_count(double x)
{
    return x >= 0;
}

static int is_bit(double x)
{
    return x == 0 || x == 1;
}

static int is_positive(double x)
{
    return x > 0;
}

static int is_finite(double x)
{
    return isfinite(x);
}

/* ---- the m that a mean asks for ---- */

static double mean_itself(double mean)
{
    return mean;
}

static double odds_of(double mean)
{
    return mean / (1 - mean);
}

static double log_odds_of(double mean)
{
    return log(mean) - log1p(-mean);
}

/* ---- of a block ---- */

#define LOSS(KIND, name, in_x)                                                                 \
    static void name##_weigh(uint32_t n, const double *restrict x, const double *restrict m,   \
                             double at, double *restrict g)                                    \
    {                                                                                          \
        for (uint32_t i = 0; i < n; i++)                                                       \
            g[i] = ts_##name##_slope(x[i], m[i], at);                                          \
    }                                                                                          \
    static double name##_judge(uint32_t n, const double *restrict x, const double *restrict m, \
                               double at)                                                      \
    {                                                                                          \
        double sum = 0;                                                                        \
        for (uint32_t i = 0; i < n; i++)                                                       \
            sum += ts_##name##_value(x[i], m[i], at);                                          \
        return sum;                                                                            \
    }
LOSS(TS_GCP_NONE, poisson, LINEAR)
TS_GCP_LOSSES(LOSS)
#undef LOSS

const struct ts_loss ts_loss_poisson = { .name = "poisson",
                                         .values = "counts, none below 0",
                                         .allows = is_count,
                                         .zeros = 1,
                                         .weigh = poisson_weigh,
                                         .judge = poisson_judge };

static const struct ts_loss loss[TS_N_GCP] = {
    [TS_GCP_BERNOULLI] = { .kind = TS_GCP_BERNOULLI,
                           .name = "bernoulli",
                           .values = "zeros and ones",
                           .allows = is_bit,
                           .lower = 0,
                           .zeros = 1,
                           .linear = 1,
                           .constant = odds_of,
                           .weigh = bernoulli_weigh,
                           .judge = bernoulli_judge },
    [TS_GCP_BERNOULLI_LOGIT] = { .kind = TS_GCP_BERNOULLI_LOGIT,
                                 .name = "bernoulli-logit",
                                 .values = "zeros and ones",
                                 .allows = is_bit,
                                 .lower = -INFINITY,
                                 .zeros = 1,
                                 .constant = log_odds_of,
                                 .weigh = logit_weigh,
                                 .judge = logit_judge },
    [TS_GCP_GAMMA] = { .kind = TS_GCP_GAMMA,
                       .name = "gamma",
                       .values = "numbers above 0",
                       .allows = is_positive,
                       .lower = 0,
                       .constant = mean_itself,
                       .weigh = gamma_weigh,
                       .judge = gamma_judge },
    [TS_GCP_POISSON_LOG] = { .kind = TS_GCP_POISSON_LOG,
                             .name = "poisson-log",
                             .values = "counts, none below 0",
                             .allows = is_count,
                             .lower = -INFINITY,
                             .zeros = 1,
                             .sums = 1,
                             .constant = log,
                             .weigh = poisson_log_weigh,
                             .judge = poisson_log_judge },
    [TS_GCP_HUBER] = { .kind = TS_GCP_HUBER,
                       .name = "huber",
                       .values = "finite numbers",
                       .allows = is_finite,
                       .lower = -INFINITY,
                       .zeros = 1,
                       .in_x = TS_IN_X_ANY,
                       .weigh = huber_weigh,
                       .judge = huber_judge },
};

int ts_loss_parse(const char *text, enum ts_loss_kind *kind, double *at, struct ts_err *err)
{
    const size_t n = strcspn(text, ":");
    char *end = NULL;
    *at = 0;
    for (int k = TS_GCP_NONE + 1; k < TS_N_GCP; k++) {
        if (strlen(loss[k].name) != n || strncmp(loss[k].name, text, n) != 0)
            continue;
        *kind = (enum ts_loss_kind)k;
        if (k != TS_GCP_HUBER && text[n] == '\0')
            return 0;
        if (k == TS_GCP_HUBER && text[n] == ':')
            *at = ts_strtod(text + n + 1, &end);
        if (end != NULL && *end == '\0' && *at > 0 && isfinite(*at))
            return 0;
        return k == TS_GCP_HUBER
                   ? ts_fail(err, TS_EARG, "huber takes a width above 0, as huber:0.5, not '%s'",
                             text)
                   : ts_fail(err, TS_EARG, "loss %s takes no number: '%s'", loss[k].name, text);
    }
    return ts_fail(
        err, TS_EARG,
        "there is no loss '%s', only least-squares, poisson, bernoulli, bernoulli-logit, "
        "gamma, poisson-log and huber:D",
        text);
}

const struct ts_loss *ts_loss_of(enum ts_loss_kind kind)
{
    return kind > TS_GCP_NONE && kind < TS_N_GCP ? &loss[kind] : NULL;
}
