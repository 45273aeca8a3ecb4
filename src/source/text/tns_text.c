/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lines of indices and a value: simple lines fast, and all others carefully. */
#include "source/text/tns_text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/num.h"
#include "base/setting.h"
#include "source/text/number_text.h"
#include "source/text/text_kind.h"
#include "source/text/tns_number.h"

/* Most bytes of text that a message quotes. */
#define QUOTE_CHARS 40
static const char *quote(const char *word, const char *end, char buf[QUOTE_CHARS + 4])
{
    size_t n = (size_t)(end - word), kept = n < QUOTE_CHARS ? n : QUOTE_CHARS;
    for (size_t i = 0; i < kept; i++)
        buf[i] = word[i] >= ' ' && word[i] < 127 ? word[i] : '?';
    strcpy(buf + kept, kept < n ? "..." : "");
    return buf;
}

static inline int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* ------------------------------------------------------------------ parsing one line */

int ts_tns_missing(const struct ts_tns_rules *r, uint32_t column, const char *name, int mode,
                   const char *word, const char *end, struct ts_err *err)
{
    const char *noun = mode == TS_TNS_VALUE    ? "the value"
                       : mode == TS_TNS_WEIGHT ? "the weight"
                                               : "the field";
    char buf[QUOTE_CHARS + 4], what[QUOTE_CHARS + 64], out[128] = "", take[64] = "";
    if (r->skip_missing > 0)
        return 1;
    quote(word, end, buf);
    if (end == word)
        snprintf(what, sizeof what, "%s is empty", noun);
    else if (mode < 0)
        snprintf(what, sizeof what, "%s '%s' is not a finite number", noun + strlen("the "), buf);
    else
        snprintf(what, sizeof what, "'%s' stands for what is missing", buf);
    if (end > word && mode >= 0)
        snprintf(take, sizeof take, ", and " TS_SET_TEXT " " TS_NTH("%d") " takes it as a name",
                 mode + 1);
    if (r->skip_missing == 0)
        snprintf(out, sizeof out, " (" TS_SET_SKIP_MISSING " leaves such lines out%s)", take);
    return ts_fail(err, TS_EFORMAT, TS_NTH_COLUMN "%s%s%s: %s%s", column + 1,
                   name != NULL ? " (" : "", name != NULL ? name : "", name != NULL ? ")" : "",
                   what, out);
}

/* Whether a word is a whole number in any form, such as 7.0 or 7e0. */
static int is_whole(const char *word, const char *end, uint64_t *ret)
{
    struct ts_number x;
    return ts_number_read(word, (size_t)(end - word), &x) && ts_number_whole(&x, ret);
}

#define TEXT_HINT " (" TS_SET_TEXT " takes the fields of a mode as names)"

/* Returns a hint for the message about a word that is not an index. */
static const char *no_number_hint(const struct ts_tns_rules *r, uint32_t mode, const char *word,
                                  const char *end)
{
    const int comma = memchr(word, ',', (size_t)(end - word)) != NULL;
    double x;
    if (r->numbers)
        return comma ? " (fields are divided by blanks; " TS_SET_CELLS_CSV " reads commas)"
                     : " (cells are listed by numbers of their indices; " TS_SET_CELLS_CSV
                       " reads names)";
    if (!comma && mode == 0 && ts_tns_value(word, end, &x, NULL) == 0)
        return " (a fraction: if the lines are rows of a matrix, with a value in each cell, save it "
               "with numpy.save, which tstream cp reads as it is; " TS_SET_TEXT
               " takes the fields of a mode as names)";
    return comma ? " (fields are divided by blanks in a .tns; " TS_SET_FORMAT_CSV " reads commas)"
                 : TEXT_HINT;
}

int ts_tns_index(const struct ts_tns_rules *r, uint32_t mode, const char *word, const char *end,
                 uint64_t *ret, struct ts_err *err)
{
    char buf[QUOTE_CHARS + 4];
    const char *p = word + (*word == '+');
    uint64_t v = 0;
    if (*word == '-' && end > word + 1)
        return ts_fail(err, TS_EFORMAT, "index %s in " TS_NTH_MODE " is negative",
                       quote(word, end, buf), mode + 1);
    while (p < end && *p >= '0' && *p <= '9' && v <= TS_MAX_DIM)
        v = 10 * v + (uint64_t)(*p++ - '0');
    if ((p < end || p == word + (*word == '+')) && v <= TS_MAX_DIM && !is_whole(word, end, &v))
        return ts_fail(err, TS_EFORMAT, "index '%s' in " TS_NTH_MODE " is not a whole number%s",
                       quote(word, end, buf), mode + 1, no_number_hint(r, mode, word, end));
    if (v > TS_MAX_DIM)
        return ts_fail(err, TS_ELIMIT, "index %s in " TS_NTH_MODE " is beyond 2^40, the largest%s",
                       quote(word, end, buf), mode + 1, r->numbers ? "" : TEXT_HINT);
    if (v < r->base)
        return ts_fail(err, TS_EFORMAT,
                       "index 0 in " TS_NTH_MODE ", but indices start at 1 (" TS_SET_BASE
                       " 0 is for a file in which the indices of all modes start at 0; if those of "
                       "this mode alone do, add 1 to them)",
                       mode + 1);
    v -= r->base;
    if (r->fixed && v >= r->dim[mode])
        return ts_fail(err, TS_EFORMAT,
                       "index %" PRIu64 " in " TS_NTH_MODE " is beyond %" PRIu64 ", its "
                       "size by %s",
                       v + r->base, mode + 1, r->dim[mode] - 1 + r->base, r->fixed_by);
    if (v >= TS_MAX_DIM)
        return ts_fail(err, TS_ELIMIT,
                       "index %s in " TS_NTH_MODE " is beyond 2^40 - 1, the largest",
                       quote(word, end, buf), mode + 1);
    *ret = v;
    return 0;
}

int ts_tns_value(const char *word, const char *end, double *ret, struct ts_err *err)
{
    char buf[QUOTE_CHARS + 4], *stop;
    int digits = 0;
    /* refuses other characters first, because strtod would accept hexadecimal numbers, inf and
     * nan */
    for (const char *p = word; p < end; p++) {
        digits |= *p >= '0' && *p <= '9';
        if ((*p < '0' || *p > '9') && strchr("+-.eE", *p) == NULL)
            digits = -1;
        if (digits < 0)
            break;
    }
    *ret = digits > 0 ? ts_strtod(word, &stop) : 0.0;
    if (digits <= 0 || stop != end)
        return ts_fail(err, TS_EFORMAT, "value '%s' is not a finite number", quote(word, end, buf));
    if (!isfinite(*ret))
        return ts_fail(err, TS_EFORMAT, "value %s is beyond the range of float64",
                       quote(word, end, buf));
    return 0;
}

/* Splits the line at p into words, up to a comment; the first `room` words are stored. *stop is set
 * to the start of the next line. Returns the number of words. */
static uint32_t split_line(const char *p, const char *begin[], const char *end[], uint32_t room,
                           const char **stop)
{
    uint32_t n = 0;
    for (;;) {
        while (is_blank(*p))
            p++;
        if (*p == '#' || (*p == '/' && p[1] == '/'))
            while (*p != '\n')
                p++;
        if (*p == '\n')
            break;
        if (n < room)
            begin[n] = p;
        while (*p != '\n' && !is_blank(*p))
            p++;
        if (n < room)
            end[n] = p;
        n++;
    }
    *stop = p + 1;
    return n;
}

int ts_tns_add(const struct ts_tns_rules *r, const uint64_t *index, double value,
               struct ts_batch *b, struct ts_err *err)
{
    uint64_t bits;
    for (uint32_t m = 0; m < r->order; m++)
        b->max[m] = index[m] > b->max[m] ? index[m] : b->max[m];
    if (r->value_bytes == 4 && !isfinite((float)value))
        return ts_fail(err, TS_EFORMAT,
                       "value %g is beyond the range of float32 (use " TS_SET_FLOAT64 ")", value);
    bits = ts_value_keep(value, r->value_bytes, &b->n_rounded);
    b->n_read++;
    if (bits == 0 && !r->zeros) {
        b->n_zeros++;
        return 0;
    }
    memcpy(b->index + b->n * r->order, index, r->order * sizeof *index);
    b->value[b->n++] = bits;
    return 0;
}

int ts_tns_check_returns(const char *p, const char *end, struct ts_err *err)
{
    const char *cr = memchr(p, '\r', (size_t)(end - p));
    if (cr == NULL || cr + 1 == end)
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "a carriage return in the line with no line feed behind it (if the file "
                   "ends its lines so, convert it with tr '\\r' '\\n')");
}

/* Returns a hint for the message about a line that has commas and cannot be parsed. */
static const char *comma_hint(const struct ts_tns_rules *r, const char *p, const char *stop)
{
    return memchr(p, ',', (size_t)(stop - p)) == NULL ? ""
           : r->numbers ? " between blanks; there are commas in the line, and " TS_SET_CELLS_CSV
                          " reads such a file"
                        : " between blanks; there are commas in the line, and " TS_SET_FORMAT_CSV
                          " reads such a file";
}

static int parse_line(const struct ts_tns_rules *r, const char *p, const char **stop,
                      struct ts_batch *b, struct ts_err *err)
{
    const char *begin[TS_MAX_ORDER + 1], *end[TS_MAX_ORDER + 1];
    const uint32_t n = split_line(p, begin, end, r->order + 1, stop);
    uint64_t index[TS_MAX_ORDER];
    double value = 0.0;
    int rc = ts_tns_check_returns(p, *stop - 1, err);
    if (rc < 0 || n == 0)
        return rc;
    if (n != r->order + 1 - (r->no_value != 0))
        return ts_fail(err, TS_EFORMAT, "found %u field%s, expected %u%s", n, ts_num_plural(n),
                       r->order + 1 - (r->no_value != 0), comma_hint(r, p, *stop));
    for (uint32_t i = 0; i < n; i++)
        if (ts_number_missing(begin[i], (size_t)(end[i] - begin[i]))) {
            rc = ts_tns_missing(r, i, NULL, i < r->order ? (int)i : TS_TNS_VALUE, begin[i], end[i],
                                err);
            b->n_missing += rc > 0;
            return rc < 0 ? rc : 0;
        }
    for (uint32_t m = 0; m < r->order && rc == 0; m++)
        rc = ts_tns_index(r, m, begin[m], end[m], &index[m], err);
    if (rc == 0 && r->no_value)
        value = 1;
    else if (rc == 0)
        rc = ts_tns_value(begin[r->order], end[r->order], &value, err);
    return rc < 0 ? rc : ts_tns_add(r, index, value, b, err);
}

/* ------------------------------------------------------------------ all lines of a text */

/* Parses a line in its usual form: unsigned indices and a simple decimal. Returns its end, or NULL
 * if parse_line must read or refuse it. */
static inline const char *plain_line(const struct ts_tns_rules *r, uint32_t order, const char *p,
                                     const uint64_t *limit, struct ts_batch *b)
{
    uint64_t *row = b->index + b->n * order, bits8;
    double value;
    float narrow;
    uint32_t bits4;
    for (uint32_t m = 0; m < order; m++) {
        uint32_t n;
        uint64_t v;
        while (*p == ' ' || *p == '\t')
            p++;
        v = ts_tns_digits(p, &n) - r->base;
        p += n;
        if (n == 0 || n > 15 || v >= limit[m] || (*p != ' ' && *p != '\t'))
            return NULL;
        row[m] = v;
    }
    while (*p == ' ' || *p == '\t')
        p++;
    p = ts_tns_decimal(p, &value);
    if (p == NULL)
        return NULL;
    while (*p == ' ' || *p == '\t')
        p++;
    p += *p == '\r';
    if (*p != '\n')
        return NULL;
    for (uint32_t m = 0; m < order; m++)
        b->max[m] = row[m] > b->max[m] ? row[m] : b->max[m];
    /* |value| is below 1e15, and 0 or above 1e-15, so it is finite and not subnormal */
    narrow = (float)value;
    memcpy(&bits4, &narrow, 4);
    memcpy(&bits8, &value, 8);
    value = r->value_bytes == 4 ? (double)narrow : value;
    b->value[b->n] = value == 0.0 ? 0 : r->value_bytes == 4 ? bits4 : bits8;
    b->n_read++;
    b->n += value != 0.0 || r->zeros;
    b->n_zeros += value == 0.0 && !r->zeros;
    return p + 1;
}

static inline __attribute__((always_inline)) int parse_lines(const struct ts_tns_rules *r,
                                                             uint32_t order, const char *text,
                                                             size_t bytes, struct ts_batch *b,
                                                             uint64_t *line, struct ts_err *err)
{
    const char *p = text, *end = text + bytes;
    uint64_t limit[TS_MAX_ORDER], n_lines = 0;
    for (uint32_t m = 0; m < order; m++)
        /* 0 makes plain_line accept no line, because it expects a value */
        limit[m] = r->no_value ? 0 : r->fixed ? r->dim[m] : TS_MAX_DIM;
    while (p < end) {
        const char *next = plain_line(r, order, p, limit, b);
        n_lines++;
        if (next == NULL) {
            const int rc = parse_line(r, p, &next, b, err);
            if (rc < 0) {
                *line = n_lines;
                return rc;
            }
            if (b->n_rounded > 0 && b->rounded_line == 0)
                b->rounded_line = b->n_lines + n_lines;
        }
        p = next;
    }
    b->n_lines += n_lines;
    return 0;
}

int ts_tns_parse(const struct ts_tns_rules *r, const char *text, size_t bytes, struct ts_batch *b,
                 uint64_t *line, struct ts_err *err)
{
    switch (r->order) { /* with a constant order, compilers unroll the loops over modes */
    case 3:
        return parse_lines(r, 3, text, bytes, b, line, err);
    case 4:
        return parse_lines(r, 4, text, bytes, b, line, err);
    default:
        return parse_lines(r, r->order, text, bytes, b, line, err);
    }
}

uint32_t ts_tns_fields(const char *text, size_t bytes, uint64_t *n_lines)
{
    const char *p = text, *end = text + bytes;
    for (uint64_t lines = 0; p < end; lines++) {
        const uint32_t n = split_line(p, NULL, NULL, 0, &p);
        if (n > 0)
            return n;
        if (n_lines != NULL)
            *n_lines = lines + 1;
    }
    return 0;
}

/* ------------------------------------------------------------------ the header "sptensor" */

/* Finds the next line that has words. Returns their number. */
static uint32_t header_line(struct ts_tns_header *h, const char *text, size_t bytes,
                            const char *begin[], const char *end[])
{
    while (h->bytes < bytes) {
        const char *stop;
        const uint32_t n = split_line(text + h->bytes, begin, end, TS_MAX_ORDER, &stop);
        h->bytes = (size_t)(stop - text);
        h->lines++;
        if (n > 0)
            return n;
    }
    return 0;
}

static int header_number(const char *begin, const char *end, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    for (const char *p = begin; p < end; p++) {
        if (*p < '0' || *p > '9' || v > max)
            return -1;
        v = 10 * v + (uint64_t)(*p - '0');
    }
    *ret = v;
    return v > max ? -1 : 0;
}

/* Refuses a file that has another word in place of `sptensor`: it lists every cell, or is not a
 * tensor. */
static int refuse_word(const char *begin, const char *end, struct ts_err *err)
{
    static const struct {
        const char *word, *what;
    } other[] = { { "tensor", "a dense tensor (header 'tensor')" },
                  { "matrix", "a dense matrix (header 'matrix')" },
                  { "ktensor", "a decomposition (header 'ktensor')" },
                  { "facmatrix", "a factor matrix (header 'facmatrix')" } };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strlen(other[i].word) == (size_t)(end - begin) &&
            memcmp(other[i].word, begin, (size_t)(end - begin)) == 0)
            return ts_fail(err, TS_EFORMAT,
                           "this is %s; what can be built lists its nonzeros, an index for each "
                           "mode and a value to a line",
                           other[i].what);
    return 0;
}

/* Parses the word that GenTen writes after `sptensor`, which gives the first index. */
static int take_base(const char *begin, const char *end, struct ts_tns_rules *rules,
                     struct ts_err *err)
{
    const size_t n = (size_t)(end - begin);
    char buf[QUOTE_CHARS + 4];
    if (n == 21 && memcmp(begin, "indices-start-at-zero", n) == 0)
        rules->base = 0;
    else if (n == 20 && memcmp(begin, "indices-start-at-one", n) == 0)
        rules->base = 1;
    else
        return ts_fail(err, TS_EFORMAT,
                       "'%s' behind 'sptensor'; indices-start-at-zero or indices-start-at-one are "
                       "possible",
                       quote(begin, end, buf));
    return 0;
}

int ts_tns_header(struct ts_tns_rules *rules, const char *text, size_t bytes,
                  struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    const char *begin[TS_MAX_ORDER], *end[TS_MAX_ORDER];
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct ts_tns_header h = { .bytes = mark };
    uint64_t order = 0;
    uint32_t words;
    ret->bytes = mark;
    words = header_line(&h, text, bytes, begin, end);
    *line = h.lines;
    if (words == 1 || words == 2) {
        const int rc = refuse_word(begin[0], end[0], err);
        if (rc < 0)
            return rc;
    }
    if (words < 1 || words > 2 || end[0] - begin[0] != 8 || memcmp(begin[0], "sptensor", 8) != 0)
        return 0;
    if (words == 2) {
        const int rc = take_base(begin[1], end[1], rules, err);
        if (rc < 0)
            return rc;
    }
    if (header_line(&h, text, bytes, begin, end) != 1 ||
        header_number(begin[0], end[0], UINT32_MAX, &order) < 0) {
        *line = h.lines;
        return ts_fail(err, TS_EFORMAT, "the line after 'sptensor' must be the number of modes");
    }
    *line = h.lines;
    if (order < TS_MIN_ORDER || order > TS_MAX_ORDER)
        return ts_fail(err, TS_ELIMIT, "a tensor of %" PRIu64 " mode%s; %u to %u are possible",
                       order, ts_num_plural(order), TS_MIN_ORDER, TS_MAX_ORDER);
    h.order = (uint32_t)order;
    if (header_line(&h, text, bytes, begin, end) != order) {
        *line = h.lines;
        return ts_fail(err, TS_EFORMAT, "the third line of an sptensor must be its %u sizes",
                       h.order);
    }
    for (uint32_t m = 0; m < order; m++)
        if (header_number(begin[m], end[m], TS_MAX_DIM, &h.dim[m]) < 0 || h.dim[m] == 0) {
            *line = h.lines;
            return ts_fail(err, TS_EFORMAT, "the size of " TS_NTH_MODE " must be 1 to 2^40", m + 1);
        }
    if (header_line(&h, text, bytes, begin, end) != 1 ||
        header_number(begin[0], end[0], TS_MAX_NNZ, &h.nnz) < 0) {
        *line = h.lines;
        return ts_fail(err, TS_EFORMAT,
                       "the fourth line of an sptensor must be its number of "
                       "nonzeros, at most 2^40");
    }
    h.sized = 1;
    *ret = h;
    return 1;
}

/* ------------------------------------------------------------------ functions for text_kind.h */

static int takes_any_text(const char *text, size_t bytes)
{
    (void)text;
    (void)bytes;
    return 1;
}

static int kind_header(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                       struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    (void)form;
    return ts_tns_header(rules, text, bytes, ret, line, err);
}

static uint64_t kind_room(const struct ts_tns_rules *rules, size_t bytes)
{
    return bytes / (2 * (rules->order + 1)) + 1;
}

static int kind_parse(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                      size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err)
{
    (void)form;
    (void)side;
    return ts_tns_parse(rules, text, bytes, b, line, err);
}

const struct ts_text_kind ts_text_tns = {
    .number = TS_TEXT_IS_tns,
    .name = "tns",
    .ending = { ".tns", ".txt", ".coo" },
    .example = "# a comment\n1 1 1\n2 3 2.5\n",
    .cost = 5,
    .recognise = takes_any_text,
    .header = kind_header,
    .fields = ts_tns_fields,
    .room = kind_room,
    .parse = kind_parse,
};
