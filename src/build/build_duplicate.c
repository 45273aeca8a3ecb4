/* SPDX-License-Identifier: BSD-3-Clause */
/* build_duplicate.c - finds the lines of two nonzeros of one cell. Records do not hold line
 * numbers, so the files are read once more. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build/build_impl.h"
#include "source/text_input.h"
#include "source/text_source.h"
#include "source/tns_text.h"

struct place {
    uint32_t file;
    uint64_t line;
};

struct search {
    const struct ts_tns_rules *rules;
    const uint64_t *index;
    struct ts_batch batch;
    uint32_t file; /* the file that is read */
    uint64_t line; /* lines of that file before the piece */
    struct place place[2];
    uint32_t n_found;
};

/* Parses each line of a piece by itself. */
static void search_piece(struct search *s, const char *text, const struct ts_text_piece *piece)
{
    const char *const end = text + piece->bytes;
    if (piece->file != s->file || piece->first)
        s->line = 0;
    s->file = piece->file;
    for (const char *p = text, *next; p < end && s->n_found < 2; p = next) {
        uint64_t line;
        next = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
        s->line++;
        ts_batch_clear(&s->batch);
        /* a header, or another line without a nonzero, is passed over */
        if (ts_tns_parse(s->rules, p, (size_t)(next - p), &s->batch, &line, NULL) == 0 &&
            s->batch.n == 1 &&
            memcmp(s->batch.index, s->index, s->rules->order * sizeof *s->index) == 0)
            s->place[s->n_found++] = (struct place){ piece->file, s->line };
    }
}

int ts_build_name_duplicate(const struct ts_build *b, const struct ts_tns_rules *rules,
                            const char *const paths[], uint32_t n_paths, struct ts_err *err)
{
    struct search s = { .rules = rules, .index = b->merge.refused_index };
    struct ts_text_input *in = NULL;
    struct ts_text_piece piece;
    char cell[24 * TS_MAX_ORDER] = "", *text;
    size_t n = 0;
    int rc = 0;
    for (uint32_t i = 0; i < n_paths; i++)
        if (strcmp(paths[i], "-") == 0)
            return TS_EFORMAT; /* it cannot be read again; the cell is named */
    text = calloc(1, TS_TEXT_MAX_PIECE + TS_TEXT_PAD);
    if (text == NULL || ts_batch_new(rules->order, TS_TEXT_MAX_PIECE / (2 * (rules->order + 1)) + 1,
                                     &s.batch, NULL) < 0) {
        free(text);
        return TS_EFORMAT;
    }
    rc = ts_text_input_open(paths, n_paths, TS_TEXT_MAX_PIECE, b->o->stop, &in, NULL);
    while (rc == 0 && s.n_found < 2) {
        rc = ts_text_input_next(in, text, &piece, NULL);
        if (rc < 0 || piece.bytes == 0)
            break;
        search_piece(&s, text, &piece);
    }
    ts_text_input_close(in);
    ts_batch_free(&s.batch);
    free(text);
    if (rc == TS_ESTOP)
        return rc;
    for (uint32_t m = 0; m < rules->order; m++)
        n += (size_t)snprintf(cell + n, sizeof cell - n, "%s%" PRIu64, m > 0 ? " " : "",
                              b->merge.refused_index[m] + rules->base);
    if (s.n_found == 2)
        ts_fail(err, TS_EFORMAT,
                "%s:%" PRIu64 ": a second nonzero at %s, which --duplicates error forbids; "
                "the first is at %s:%" PRIu64,
                paths[s.place[1].file], s.place[1].line, cell, paths[s.place[0].file],
                s.place[0].line);
    return TS_EFORMAT;
}
