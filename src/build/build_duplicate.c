/* SPDX-License-Identifier: BSD-3-Clause */
/* build_duplicate.c - finds where in the input two nonzeros of one cell are, for the message of a
 * build that forbids them. Records do not hold lines or positions, so the files are read again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/setting.h"
#include "build/build_steps.h"
#include "source/binary/binary_source.h"
#include "source/text/text_input.h"
#include "source/text/text_kind.h"
#include "source/text/text_source.h"

#define CELL_CHARS (48u * TS_MAX_ORDER)
#define NAME_CHARS 32u /* most characters of a name in a message */

/* A line of the input: the number of its file, and its number there. */
struct place {
    uint32_t file;
    uint64_t line;
};

/* A search for the first two nonzeros of a cell. */
struct search {
    const struct ts_build *b;
    const struct ts_text_kind *kind;
    struct ts_tns_rules rules;
    /* name of the cell's index in each mode of names; NULL: the mode has numbers */
    char *name[TS_MAX_ORDER];
    size_t name_bytes[TS_MAX_ORDER];
    struct ts_batch batch;
    char *text, *side;
    uint32_t file; /* number of the file that is read */
    uint64_t line; /* number of lines of that file that were searched */
    int at_start;  /* 1: the lines of the file so far had no fields, so a header may follow */
    struct place place[2];
    uint32_t n_found;
};

static int is_named(const struct ts_build *b, uint32_t m)
{
    return b->table != NULL && ts_table_mode_field(b->table, m) == TS_TABLE_NAME;
}

/* Whether all files can be read a second time, as a pipe cannot. */
static int can_read_again(const char *const paths[], uint32_t n_paths)
{
    for (uint32_t i = 0; i < n_paths; i++) {
        struct stat st;
        if (strcmp(paths[i], "-") == 0 || stat(paths[i], &st) < 0 || !S_ISREG(st.st_mode))
            return 0;
    }
    return 1;
}

/* ------------------------------------------------------------------ the searched cell as text */

/* Reads the name of the cell's index in each mode of names from the labels that the build has
 * written. */
static int take_names(struct search *s, struct ts_err *err)
{
    const struct ts_build *b = s->b;
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        if (!is_named(b, m) || b->label[m] == NULL)
            continue;
        s->name[m] = malloc(TS_STRING_MAX);
        if (s->name[m] == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for a name");
        rc = ts_label_writer_get(b->label[m], b->merge.refused_index[m], s->name[m], TS_STRING_MAX,
                                 &s->name_bytes[m], err);
    }
    return rc;
}

/* Writes the name, time or index of the searched cell in mode m, for a message. */
static void say_index(const struct search *s, uint32_t m, char ret[48])
{
    const struct ts_build *b = s->b;
    const uint64_t index = b->merge.refused_index[m];
    const int n = (int)(s->name_bytes[m] < NAME_CHARS ? s->name_bytes[m] : NAME_CHARS);
    if (s->name[m] != NULL) {
        snprintf(ret, 48, "'%.*s%s'", n, s->name[m], s->name_bytes[m] > NAME_CHARS ? "..." : "");
        for (char *p = ret; *p != '\0'; p++) /* replaces control characters */
            *p = (unsigned char)*p < ' ' || *p == 127 ? '?' : *p;
    } else if (b->table != NULL && ts_table_mode_field(b->table, m) == TS_TABLE_TIME) {
        char label[TS_TIME_LABEL];
        const size_t chars = ts_time_bin_label(ts_table_mode_bin(b->table, m), index, label);
        snprintf(ret, 48, "%.*s", (int)chars, label);
    } else {
        snprintf(ret, 48, "%" PRIu64, index + b->base);
    }
}

static void say_cell(const struct search *s, char cell[CELL_CHARS])
{
    size_t n = 0;
    for (uint32_t m = 0; m < s->b->order; m++) {
        char index[48];
        say_index(s, m, index);
        n += (size_t)snprintf(cell + n, CELL_CHARS - n, "%s%s", m > 0 ? " " : "", index);
    }
}

/* ------------------------------------------------------------------ search in text files */

/* Whether nonzero i of the batch, which was parsed from the line at p, is in the searched cell. */
static int is_at_cell(const struct search *s, uint64_t i, const char *p)
{
    const uint32_t order = s->b->order;
    for (uint32_t m = 0; m < order; m++) {
        const uint64_t index = s->batch.index[i * order + m];
        if (s->name[m] == NULL) {
            if (index != s->b->merge.refused_index[m])
                return 0;
        } else if (ts_name_length(index) != s->name_bytes[m] ||
                   memcmp(ts_name_text(index, p, s->side), s->name[m], s->name_bytes[m]) != 0) {
            return 0;
        }
    }
    return 1;
}

/* Searches one line for nonzeros of the cell. In a symmetric matrix, a line also stands for its
 * mirror image. */
static void search_line(struct search *s, const char *p, size_t bytes)
{
    uint64_t line;
    s->line++;
    ts_batch_clear(&s->batch);
    if (s->kind->parse(s->b->table, s->side, &s->rules, p, bytes, &s->batch, &line, NULL) < 0)
        return;
    for (uint64_t i = 0; i < s->batch.n; i++)
        if (is_at_cell(s, i, p)) {
            s->place[s->n_found++] = (struct place){ s->file, s->line };
            break;
        }
}

static int search_piece(struct search *s, const struct ts_text_piece *piece)
{
    const char *p = s->text, *const end = p + piece->bytes, *next;
    s->file = piece->file;
    if (piece->first) {
        s->line = 0;
        s->at_start = 1;
        s->rules.base = s->b->o->base;
    }
    if (s->at_start) {
        struct ts_tns_header h = { 0 };
        uint64_t line;
        const int rc = s->kind->header(s->b->table, &s->rules, p, piece->bytes, &h, &line, NULL);
        if (rc < 0)
            return rc;
        p += h.bytes;
        s->line += h.lines;
        s->at_start = rc == 0 && s->kind->fields(p, (size_t)(end - p), NULL) == 0;
    }
    for (; p < end && s->n_found < 2; p = next) {
        next = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
        search_line(s, p, (size_t)(next - p));
    }
    return 0;
}

static int search_files(struct search *s, const char *const paths[], uint32_t n_paths,
                        struct ts_err *err)
{
    struct ts_text_input *in = NULL;
    struct ts_text_piece piece;
    int rc;
    if (!can_read_again(paths, n_paths))
        return 0;
    s->text = calloc(1, TS_TEXT_MAX_PIECE + TS_TEXT_PAD);
    s->side = calloc(1, TS_TEXT_MAX_PIECE + TS_TEXT_PAD);
    if (s->text == NULL || s->side == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for reading text");
    rc = ts_batch_new(s->b->order, s->kind->room(&s->rules, TS_TEXT_MAX_PIECE), &s->batch, err);
    if (rc == 0)
        rc = ts_text_input_open(paths, n_paths, TS_TEXT_MAX_PIECE, s->b->o->stop, &in, err);
    if (rc == 0)
        ts_text_input_unpack(in, s->b->unpack_bytes);
    while (rc == 0 && s->n_found < 2) {
        rc = ts_text_input_next(in, s->text, &piece, err);
        if (rc < 0 || piece.bytes == 0)
            break;
        rc = search_piece(s, &piece);
    }
    ts_text_input_close(in);
    return rc;
}

static void search_free(struct search *s)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(s->name[m]);
    ts_batch_free(&s->batch);
    free(s->text);
    free(s->side);
}

int ts_build_name_duplicate(const struct ts_build *b, const struct ts_text_kind *kind,
                            const struct ts_tns_rules *rules, const char *const paths[],
                            uint32_t n_paths, struct ts_err *err)
{
    struct search s = { .b = b, .kind = kind, .rules = *rules };
    char cell[CELL_CHARS];
    int rc;
    if (b->table != NULL)
        /* without dictionaries, names stay text and are compared as text */
        ts_table_names(b->table, NULL);
    rc = take_names(&s, NULL);
    if (rc == 0)
        say_cell(&s, cell);
    if (rc == 0 && b->table != NULL)
        ts_fail(err, TS_EFORMAT,
                "there is more than one nonzero at %s, and " TS_SET_NO_DUPLICATES " forbids it",
                cell);
    if (rc == 0)
        rc = search_files(&s, paths, n_paths, NULL);
    if (rc == 0 && s.n_found == 2)
        ts_fail(err, TS_EFORMAT,
                "%s:%" PRIu64 ": a second nonzero at %s, which " TS_SET_NO_DUPLICATES " forbids; "
                "the first is at %s:%" PRIu64,
                paths[s.place[1].file], s.place[1].line, cell, paths[s.place[0].file],
                s.place[0].line);
    search_free(&s);
    return rc == TS_ESTOP ? rc : TS_EFORMAT;
}

/* ------------------------------------------------------------------ search in binary files */

int ts_build_name_duplicate_binary(const struct ts_build *b, const struct ts_files_plan *plan,
                                   struct ts_err *err)
{
    const struct search s = { .b = b };
    struct ts_binary_found found[2];
    char cell[CELL_CHARS];
    uint32_t n = 0;
    int rc;
    if (!can_read_again(plan->paths, plan->n_paths))
        return TS_EFORMAT; /* the message then names the cell, but no position in a file */
    rc = ts_binary_source_find(plan, b->merge.refused_index, found, &n, NULL);
    say_cell(&s, cell);
    if (rc == 0 && n == 2)
        ts_fail(err, TS_EFORMAT,
                "%s: byte %" PRIu64 ": nonzero %" PRIu64
                " is a second one at %s, which " TS_SET_NO_DUPLICATES
                " forbids; the first is nonzero "
                "%" PRIu64 ", at byte %" PRIu64 " of %s",
                plan->paths[found[1].file], found[1].byte, found[1].nonzero, cell, found[0].nonzero,
                found[0].byte, plan->paths[found[0].file]);
    return rc == TS_ESTOP ? rc : TS_EFORMAT;
}
