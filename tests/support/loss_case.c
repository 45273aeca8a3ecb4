/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/loss_case.h"

#include <math.h>

double test_loss_number(int kind)
{
    const double like = ts_loss_some_number((enum ts_loss_kind)kind);
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)kind);
    const double less = 0.6 * like;
    return ts_loss_takes_number(loss->kind) && loss->number_allows(less) ? less : like;
}

double test_loss_value(int kind, double u)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)kind);
    return loss->allows(-0.5)                      ? (float)(3 * u - 1)
           : loss->allows(0.5) && !loss->allows(0) ? (float)(0.1 + 3 * u)
           : loss->allows(2)                       ? floor(4 * u)
                                                   : floor(2 * u);
}

int test_loss_with_zeros(int *ret)
{
    int n = 0;
    for (int k = TS_GCP_NONE + 1; k < TS_N_GCP; k++)
        if (ts_loss_of((enum ts_loss_kind)k)->zeros)
            ret[n++] = k;
    return n;
}

/* Of values 1 and models from 0.5 to 4, where third derivatives are some hundreds at most: slopes
 * at three models in line. */
int test_loss_bends(int kind, double at)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)kind);
    const double h = 1e-5, x = 1;
    for (double m = 0.5; m < 4; m += h / 2) {
        const double model[3] = { m - h, m, m + h }, value[3] = { x, x, x };
        double slope[3];
        loss->weigh(3, value, model, at, slope);
        if (fabs(slope[0] - 2 * slope[1] + slope[2]) > 0.1 * h)
            return 1;
    }
    return 0;
}

const char *test_loss_name(int kind, double at)
{
    static char name[64];
    ts_loss_text((enum ts_loss_kind)kind, at, 17, name, sizeof name);
    return name;
}
