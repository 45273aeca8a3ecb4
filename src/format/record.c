#include "format/record.h"

#include <string.h>

void ts_record_layout_set(struct ts_record_layout *l, uint32_t n_fields, const uint32_t width[])
{
    uint32_t at = 0;
    memset(l, 0, sizeof *l);
    l->n_fields = n_fields;
    for (uint32_t f = 0; f < n_fields; f++) {
        l->width[f] = width[f];
        l->start[f] = at;
        at += width[f];
    }
    l->bits = at;
    l->words = at == 0 ? 1 : (at + 63) / 64;
}

/* One word to one word: each field is a shift and a mask, and the loop over records is a vector
 * loop. Fields go one after another over a piece that stays in the first-level cache. */
static void convert_words(const struct ts_record_layout *from, const uint64_t *in,
                          const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                          uint64_t n)
{
    enum { PIECE = 512 };
    uint64_t sum[PIECE];
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        memset(sum, 0, sizeof sum);
        for (uint32_t f = 0; f < to->n_fields; f++) {
            const uint32_t width = from->width[source[f]];
            const uint32_t left = from->start[source[f]], right = 64 - width;
            /* right-aligned by two shifts, then placed so that wider fields keep low bits low */
            const uint32_t place = 64 - to->start[f] - to->width[f];
            if (width == 0)
                continue;
            for (uint32_t i = 0; i < count; i++)
                sum[i] |= in[first + i] << left >> right << place;
        }
        memcpy(out + first, sum, count * sizeof *sum);
    }
}

void ts_record_convert(const struct ts_record_layout *from, const uint64_t *in,
                       const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                       uint64_t n)
{
    if (from->words == 1 && to->words == 1) {
        convert_words(from, in, to, source, out, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rec[TS_RECORD_WORDS] = { 0 };
        for (uint32_t f = 0; f < to->n_fields; f++)
            ts_record_put(to, rec, f, ts_record_get(from, in + i * from->words, source[f]));
        memcpy(out + i * to->words, rec, to->words * sizeof *rec);
    }
}
