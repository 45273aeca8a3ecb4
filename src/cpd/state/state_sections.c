/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the names and sizes of the sections of a state. */
#include "cpd/state/state_sections.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const ts_state_sections_name[TS_SECTIONS_NAMED] = {
    "shape",   "gram",        "lambda",     "sweep", "past",
    "options", "constraints", "accelerate", "best",  "figures"
};

void ts_state_sections_factor(enum ts_section what, uint32_t mode, char ret[16])
{
    static const char *const moment[TS_MOMENTS_MOST] = { "first", "second", "third",    "fourth",
                                                         "fifth", "sixth",  "seventh",  "eighth",
                                                         "ninth", "tenth",  "eleventh", "twelfth",
                                                         "best" };
    char text[24];
    snprintf(text, sizeof text, "%s%" PRIu32,
             what == TS_SECTION_FACTOR   ? "factor"
             : what == TS_SECTION_BEFORE ? "before"
                                         : moment[what - TS_SECTION_MOMENT],
             mode + 1);
    memset(ret, 0, 16);
    memcpy(ret, text, strnlen(text, 15));
}

uint64_t ts_state_sections_row(const struct ts_state *s)
{
    return s->rank * ts_precision_bytes(s->precision);
}

uint64_t ts_state_sections_bytes(const struct ts_state *s, enum ts_section what, uint32_t mode)
{
    switch (what) {
    case TS_SECTION_SHAPE:
        return s->order * 2 * sizeof(uint64_t);
    case TS_SECTION_GRAM:
        return (uint64_t)s->order * s->rank * s->rank * sizeof(double);
    case TS_SECTION_LAMBDA:
        return s->rank * sizeof(double);
    case TS_SECTION_SWEEP:
        return sizeof s->part;
    case TS_SECTION_PAST:
        return (uint64_t)(s->sweep - 1) * sizeof *s->past;
    case TS_SECTION_OPTIONS:
        return s->options_bytes;
    case TS_SECTION_CONSTRAINTS:
        return s->constrained ? s->order * sizeof(struct ts_disk_constraint) : 0;
    case TS_SECTION_ACCELERATE:
        return s->accelerated ? sizeof s->pace + (s->order + UINT64_C(1)) * s->rank * sizeof(double)
                              : 0;
    case TS_SECTION_BEST:
        return s->spec.best
                   ? (TS_BEST_NUMBERS + (s->order + UINT64_C(1)) * s->rank) * sizeof(double)
                   : 0;
    case TS_SECTION_FIGURES:
        return s->figured ? (uint64_t)(s->sweep - 1) * sizeof *s->figures : 0;
    case TS_SECTION_FACTOR:
    case TS_SECTION_BEFORE:
    case TS_SECTION_MOMENT: /* and all moments, up to TS_SECTION_LAST */
    case TS_SECTION_LAST:
        break;
    }
    return s->n_rows[mode] * ts_state_sections_row(s);
}
