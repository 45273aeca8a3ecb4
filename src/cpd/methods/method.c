/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the method that a specification asks for. */
#include "cpd/methods/method.h"

#define ADDRESS(name) &ts_##name,
static const struct ts_method *const methods[] = { TS_METHODS(ADDRESS) };

const struct ts_method *ts_method_of(const struct ts_spec *spec)
{
    const struct ts_spec *s = ts_spec_of(spec);
    size_t i = 0;
    while (i + 1 < sizeof methods / sizeof methods[0] && !methods[i]->is_asked(s))
        i++;
    return methods[i];
}

struct ts_method_bytes ts_method_bytes_of(const struct ts_tensor *t, uint32_t rank,
                                          enum ts_precision precision, const struct ts_spec *spec)
{
    const struct ts_method *m = ts_method_of(spec);
    return m->bytes == NULL ? (struct ts_method_bytes){ 0 }
                            : m->bytes(t, rank, precision, ts_spec_of(spec));
}

int ts_method_lost_sign(const struct ts_tensor *t, const struct ts_spec *spec, double *mean)
{
    const struct ts_method *m = ts_method_of(spec);
    return m->lost_sign == NULL ? 0 : m->lost_sign(t, spec, mean);
}
