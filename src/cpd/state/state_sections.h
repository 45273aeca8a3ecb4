/* SPDX-License-Identifier: BSD-3-Clause */
/* state_sections.h - the sections of a state (state.h): their names and sizes, for state_write.c
 * and state.c.
 *
 *   owner    plain values
 *   units    bytes
 *   threads  any thread
 *   errors   none
 */
#ifndef TS_CPD_STATE_SECTIONS_H
#define TS_CPD_STATE_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "cpd/state/state.h"

#define TS_STATE_PIECE    ((size_t)1 << 20)
#define TS_SECTIONS_FIXED 6u /* number of required sections that are not factors */
/* number of required sections that are not factors, plus four sections that may be missing */
#define TS_SECTIONS_NAMED (TS_SECTIONS_FIXED + 4)
#define TS_SECTIONS_MOST  (TS_SECTIONS_NAMED + (2 + TS_MOMENTS_MOST) * TS_MAX_ORDER)

/* Sections are found by name. A section that a later program adds is unknown to older programs,
 * which refuse the state instead of overlooking the section. */
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
    TS_SECTION_MOMENT, /* the first moment; the others follow */
    TS_SECTION_LAST = TS_SECTION_MOMENT + TS_MOMENTS_MOST - 1
};

/* The flags of enum ts_demand (settings of modes) that apply to the whole run, and are the same in
 * all modes. */
#define TS_DEMANDS_OF_RUN                                                                 \
    (TS_DEMAND_OBSERVED | TS_DEMAND_BY_COUNT | TS_DEMAND_POISSON | 15u * TS_DEMAND_LOSS | \
     TS_DEMAND_LBFGSB | TS_DEMAND_MEAN | TS_DEMAND_BEST | TS_DEMAND_HELD)

/* Names of the TS_SECTIONS_FIXED required sections, then of four that may be missing. */
extern const char *const ts_state_sections_name[TS_SECTIONS_NAMED];

/* Sets ret to the name of a factor's section. For mode 3 that is "factor3", "before3", or one of
 * the moments: "first3", "second3", and so on to "twelfth3", and "best3". */
void ts_state_sections_factor(enum ts_section what, uint32_t mode, char ret[16]);

/* Returns the bytes of a section, computed from the other members of the state. `mode` matters only
 * for factors. */
uint64_t ts_state_sections_bytes(const struct ts_state *s, enum ts_section what, uint32_t mode);

/* Returns the bytes of a row of a factor. */
uint64_t ts_state_sections_row(const struct ts_state *s);

static inline uint64_t ts_state_sections_padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

#endif
