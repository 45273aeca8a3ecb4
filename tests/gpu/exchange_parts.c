/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws unequal parts and spans at random. */
#include "tests/gpu/exchange_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

struct parts parts_random(uint64_t seed, uint32_t n, uint32_t ranks, uint32_t n_spans,
                          uint64_t most, uint64_t unit)
{
    struct parts p = { .n = n, .span = calloc((size_t)n * n_spans + 1, sizeof *p.span) };
    assert(n <= PARTS_MAX_RANKS && p.span != NULL);
    for (uint32_t i = 0; i < n; i++) {
        p.part[i].span = p.span + (size_t)i * n_spans;
        p.part[i].n = ranks >> i & 1 ? (uint32_t)(ts_mix(seed + i) % (n_spans + 1)) : 0;
    }
    for (uint32_t k = 0; k < n_spans; k++)
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t draw = ts_mix(ts_mix(seed + k) + i);
            struct ts_exchange_span *s = &p.span[(size_t)i * n_spans + k];
            s->offset = p.bytes + draw / 7 % 3 * unit;
            s->bytes = draw % (most / unit + 1) * unit;
            if (k < p.part[i].n)
                p.bytes = s->offset + s->bytes;
        }
    p.full = calloc(p.bytes + 1, 1);
    assert(p.full != NULL);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < p.part[i].n; k++) {
            const struct ts_exchange_span *s = &p.part[i].span[k];
            for (uint64_t b = s->offset; b < s->offset + s->bytes; b++)
                p.full[b] = (unsigned char)(ts_mix(b) % 255 + 1);
        }
    return p;
}

void parts_free(struct parts *p)
{
    free(p->span);
    free(p->full);
}

void parts_own(const struct parts *p, uint32_t rank, unsigned char *buffer)
{
    memset(buffer, 0, p->bytes);
    for (uint32_t k = 0; k < p->part[rank].n; k++) {
        const struct ts_exchange_span *s = &p->part[rank].span[k];
        memcpy(buffer + s->offset, p->full + s->offset, s->bytes);
    }
}
