/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the table of losses, which is made from losses.def, and parses names of losses. */
#include "stream/loss.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "stream/loss_functions.h"

_Static_assert(TS_N_GCP - 1 <= 15, "a state (cpd/state/state.h) has four bits for the loss");

/* ---- functions for the nonzeros of a block ---- */

#define OF_BLOCK(name)                                                                         \
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
OF_BLOCK(poisson)
#define LOSS(KIND, name, ...) OF_BLOCK(name)
#include "stream/losses.def"

/* ---- the table of losses ---- */

const struct ts_loss ts_loss_poisson = { .name = "poisson",
                                         .number = "",
                                         .values = "counts, none below 0",
                                         .allows = ts_is_count,
                                         .zeros = 1,
                                         .weigh = poisson_weigh,
                                         .judge = poisson_judge };

static const struct ts_loss loss[TS_N_GCP] = {
#define LOSS(KIND, function, IN_X, text, letter, about, ...) \
    [TS_GCP_##KIND] = { .kind = TS_GCP_##KIND,               \
                        .name = text,                        \
                        .number = letter,                    \
                        .in_x = TS_IN_X_##IN_X,              \
                        .weigh = function##_weigh,           \
                        .judge = function##_judge,           \
                        __VA_ARGS__ },
#include "stream/losses.def"
};

const char ts_loss_names[] = "poisson"
#define LOSS(KIND, function, IN_X, text, letter, ...) "|" text letter
#include "stream/losses.def"
    ;

const char ts_loss_help[] =
    "loss function. least-squares: squared distance to the tensor. poisson: counts, the model gives Poisson means (CP-APR, "
    "multiplicative updates, no negative entries)"
#define LOSS(KIND, function, IN_X, text, letter, about, ...) ". " text letter ": " about
#include "stream/losses.def"
    ". The losses after poisson are minimised in small steps, and need a few hundred sweeps";

static const char all_names[] = "least-squares, poisson"
#define LOSS(KIND, function, IN_X, text, letter, ...) ", " text letter
#include "stream/losses.def"
    ;

/* ---- names of losses ---- */

int ts_loss_takes_number(int kind)
{
    const struct ts_loss *l = ts_loss_of(kind);
    return l != NULL && l->number[0] != '\0';
}

static int refuse_number(const struct ts_loss *l, const char *text, struct ts_err *err)
{
    return ts_fail(err, TS_EARG, "%s takes %s, as %s:%s, not '%s'", l->name, l->number_is, l->name,
                   l->number_like, text);
}

int ts_loss_parse(const char *text, int *kind, double *at, struct ts_err *err)
{
    const size_t n = strcspn(text, ":");
    char *end = NULL;
    *at = 0;
    for (int k = TS_GCP_NONE + 1; k < TS_N_GCP; k++) {
        const struct ts_loss *l = &loss[k];
        if (strlen(l->name) != n || strncmp(l->name, text, n) != 0)
            continue;
        *kind = l->kind;
        if (!ts_loss_takes_number(l->kind))
            return text[n] == '\0'
                       ? 0
                       : ts_fail(err, TS_EARG, "loss %s takes no number: '%s'", l->name, text);
        if (text[n] == ':')
            *at = ts_strtod(text + n + 1, &end);
        if (end != NULL && end != text + n + 1 && *end == '\0' && l->number_allows(*at))
            return 0;
        return refuse_number(l, text, err);
    }
    return ts_fail(err, TS_EARG, "there is no loss '%s', only %s", text, all_names);
}

void ts_loss_text(int kind, double at, int digits, char *ret, size_t room)
{
    const struct ts_loss *l = ts_loss_of(kind);
    if (ts_loss_takes_number(kind))
        snprintf(ret, room, "%s:%.*g", l->name, digits, at);
    else
        snprintf(ret, room, "%s", l->name);
}

int ts_loss_number_check(int kind, double at, struct ts_err *err)
{
    const struct ts_loss *l = ts_loss_of(kind);
    char text[64];
    if (!ts_loss_takes_number(kind) || l->number_allows(at))
        return 0;
    ts_loss_text(kind, at, 9, text, sizeof text);
    return refuse_number(l, text, err);
}

double ts_loss_some_number(int kind)
{
    char *end;
    return ts_loss_takes_number(kind) ? ts_strtod(ts_loss_of(kind)->number_like, &end) : 0;
}

const struct ts_loss *ts_loss_of(int kind)
{
    return kind > TS_GCP_NONE && kind < TS_N_GCP ? &loss[kind] : NULL;
}
