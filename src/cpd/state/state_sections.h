/* SPDX-License-Identifier: BSD-3-Clause */
/* state_sections.h - the sections of a state (state.h): their names and sizes, for state_write.c
 * and state.c.
 *
 *   owner    plain values
 *   units    bytes
 *   threads  any
 *   errors   none
 */
#ifndef TS_CPD_STATE_SECTIONS_H
#define TS_CPD_STATE_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "cpd/state/state.h"

#define TS_STATE_PIECE    ((size_t)1 << 20)
#define TS_SECTIONS_FIXED 6u /* sections that are no factors, of which each mode has at most one */
#define TS_SECTIONS_NAMED (TS_SECTIONS_FIXED + 4) /* with those that may be missing */
#define TS_SECTIONS_MOST  (TS_SECTIONS_NAMED + (2 + TS_MOMENTS_MOST) * TS_MAX_ORDER)

/* What is not the same for all states comes by name, so that what a later program adds is refused
 * by an older one, and not overlooked. */
enum ts_section {
    TS_SECTION_SHAPE,
    TS_SECTION_GRAM,
    TS_SECTION_LAMBDA,
    TS_SECTION_SWEEP,
    TS_SECTION_PAST,
    TS_SECTION_OPTIONS,
    TS_SECTION_CONSTRAINTS,
    TS_SECTION_ACCELERATE,
    TS_SECTION_BEST,
    TS_SECTION_FIGURES,
    TS_SECTION_FACTOR,
    TS_SECTION_BEFORE,
    TS_SECTION_MOMENT, /* and those that follow */
    TS_SECTION_LAST = TS_SECTION_MOMENT + TS_MOMENTS_MOST - 1
};

/* The part of a mode's demands that is of the run, and the same in all modes. */
#define TS_DEMANDS_OF_RUN                                                                 \
    (TS_DEMAND_OBSERVED | TS_DEMAND_BY_COUNT | TS_DEMAND_POISSON | 15u * TS_DEMAND_LOSS | \
     TS_DEMAND_LBFGSB | TS_DEMAND_MEAN | TS_DEMAND_BEST | TS_DEMAND_HELD)

/* Names of the sections that must be there, and of four that may be. */
extern const char *const ts_state_sections_name[TS_SECTIONS_NAMED];

/* "factor3", "before3", "first3", "second3" or, of the moments after these two, "third3" and so on
 * to "twelfth3", and "best3" */
void ts_state_sections_factor(enum ts_section what, uint32_t mode, char ret[16]);

/* Bytes of a section as the rest of the state has them. `mode` counts for factors alone. */
uint64_t ts_state_sections_bytes(const struct ts_state *s, enum ts_section what, uint32_t mode);

/* Of a row of a factor. */
uint64_t ts_state_sections_row(const struct ts_state *s);

static inline uint64_t ts_state_sections_padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

#endif
