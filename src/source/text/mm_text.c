/* SPDX-License-Identifier: BSD-3-Clause */
/* mm_text.c - reads MatrixMarket coordinate files, a kind of text. A matrix is a tensor with two
 * modes.
 *
 * The banner says what a line has: real and integer have a value, pattern has none (then it is
 * 1). For symmetric and skew-symmetric matrices only one triangle is listed; the other is
 * derived. The lines themselves are parsed by tns_text.h. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "source/text/text_kind.h"

#define BANNER       "%%MatrixMarket"
#define LONGEST_LINE 1024u /* most bytes of a line: the limit of the format itself */

/* Whether a file begins with the banner. */
static int has_banner(const char *text, size_t bytes)
{
    return bytes >= sizeof BANNER - 1 && memcmp(text, BANNER, sizeof BANNER - 1) == 0;
}

/* Copies the line at p without its end; returns where the next line starts, or NULL when the line
 * is incomplete or too long. */
static const char *copy_line(const char *p, const char *end, char line[LONGEST_LINE + 1])
{
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t n = stop == NULL ? 0 : (size_t)(stop - p);
    if (stop == NULL || n > LONGEST_LINE)
        return NULL;
    memcpy(line, p, n);
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    line[n] = '\0';
    return stop + 1;
}

static int take_banner(const char *line, struct ts_tns_rules *rules, struct ts_err *err)
{
    char object[32], form[32], field[32], symmetry[32], rest[2];
    if (sscanf(line + sizeof BANNER - 1, " %31s %31s %31s %31s %1s", object, form, field, symmetry,
               rest) != 4 ||
        strcasecmp(object, "matrix") != 0)
        return ts_fail(err, TS_EFORMAT,
                       "a MatrixMarket file must begin with '%s matrix coordinate', a field and a "
                       "symmetry",
                       BANNER);
    if (strcasecmp(form, "array") == 0)
        return ts_fail(err, TS_EFORMAT,
                       "a dense matrix (array): every cell is listed; what can be built lists its "
                       "nonzeros (coordinate)");
    if (strcasecmp(form, "coordinate") != 0)
        return ts_fail(err, TS_EFORMAT, "a matrix of form '%s'; expected coordinate", form);
    rules->no_value = strcasecmp(field, "pattern") == 0;
    if (!rules->no_value && strcasecmp(field, "real") != 0 && strcasecmp(field, "integer") != 0 &&
        strcasecmp(field, "double") != 0)
        return ts_fail(err, TS_EFORMAT,
                       "values of field '%s'; real, integer and pattern are possible", field);
    rules->mirror = strcasecmp(symmetry, "symmetric") == 0        ? 1
                    : strcasecmp(symmetry, "skew-symmetric") == 0 ? -1
                                                                  : 0;
    if (rules->mirror == 0 && strcasecmp(symmetry, "general") != 0)
        return ts_fail(err, TS_EFORMAT,
                       "a matrix of symmetry '%s'; general, symmetric and skew-symmetric are "
                       "possible",
                       symmetry);
    return 0;
}

static int take_sizes(const char *line, const struct ts_tns_rules *rules, struct ts_tns_header *h,
                      struct ts_err *err)
{
    uint64_t number[3] = { 0 };
    const char *p = line;
    for (int i = 0; i < 3; i++) {
        const char *first;
        while (*p == ' ' || *p == '\t')
            p++;
        for (first = p; *p >= '0' && *p <= '9' && number[i] <= TS_MAX_DIM; p++)
            number[i] = 10 * number[i] + (uint64_t)(*p - '0');
        if (p == first || number[i] > TS_MAX_DIM || (*p != ' ' && *p != '\t' && *p != '\0') ||
            (i < 2 && number[i] == 0))
            return ts_fail(err, TS_EFORMAT,
                           "the line after the comments must be rows, columns and the number of "
                           "lines that follow, at most 2^40 each");
    }
    if (p[strspn(p, " \t")] != '\0')
        return ts_fail(err, TS_EFORMAT, "more than three numbers in the line of the sizes");
    if (rules->mirror != 0 && number[0] != number[1])
        return ts_fail(err, TS_EFORMAT, "a symmetric matrix must have as many rows as columns");
    h->order = 2;
    h->sized = 1;
    h->dim[0] = number[0];
    h->dim[1] = number[1];
    h->nnz = number[2];
    return 0;
}

/* Parses the banner, comments and sizes. All of them must be in the text. */
static int parse_header(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                        struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    const char *p = text, *end = text + bytes;
    struct ts_tns_header h = { 0 };
    char copy[LONGEST_LINE + 1];
    int rc;
    (void)form;
    *ret = h;
    *line = 1;
    if (!has_banner(text, bytes))
        return ts_fail(
            err, TS_EFORMAT,
            "the first file is a MatrixMarket file, so the others must be such files as well");
    for (h.lines = 1;; h.lines++) {
        *line = h.lines;
        p = copy_line(p, end, copy);
        if (p == NULL)
            return ts_fail(err, TS_EFORMAT,
                           "the header of this MatrixMarket file is cut short, or longer than the "
                           "%zu bytes that are read at a time",
                           bytes);
        if (h.lines == 1) {
            rc = take_banner(copy, rules, err);
            if (rc < 0)
                return rc;
        } else if (copy[0] != '%' && copy[0] != '\0') {
            break;
        }
    }
    rc = take_sizes(copy, rules, &h, err);
    if (rc < 0)
        return rc;
    h.bytes = (size_t)(p - text);
    *ret = h;
    return 1;
}

/* Returns the most nonzeros in a text of so many bytes. The shortest line is "1 2\n", and each line
 * may also stand for its mirror image. */
static uint64_t most_nonzeros(const struct ts_tns_rules *rules, size_t bytes)
{
    (void)rules;
    return 2 * (bytes / 4 + 1);
}

static int parse_lines(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                       size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err)
{
    const uint64_t first = b->n;
    const int rc = ts_tns_parse(rules, text, bytes, b, line, err);
    const uint64_t end = b->n;
    const uint64_t sign = rules->value_bytes == 4 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
    (void)form;
    (void)side;
    if (rc < 0 || rules->mirror == 0)
        return rc;
    for (uint64_t i = first; i < end; i++) {
        const uint64_t row = b->index[2 * i], column = b->index[2 * i + 1];
        if (row == column)
            continue;
        b->index[2 * b->n] = column;
        b->index[2 * b->n + 1] = row;
        b->value[b->n] = b->value[i] ^ (rules->mirror < 0 && b->value[i] != 0 ? sign : 0);
        b->n++;
        b->n_read++;
        b->n_made++;
    }
    for (uint32_t m = 0; m < 2; m++)
        b->max[m] = b->max[0] > b->max[1] ? b->max[0] : b->max[1];
    return 0;
}

const struct ts_text_kind ts_text_mm = {
    .number = TS_TEXT_IS_mm,
    .name = "MatrixMarket",
    .ending = { ".mtx" },
    .example =
        "%%MatrixMarket matrix coordinate real general\n% a comment\n2 3 2\n1 1 1\n2 3 2.5\n",
    .cost = 14,
    .recognise = has_banner,
    .header = parse_header,
    .fields = ts_tns_fields,
    .room = most_nonzeros,
    .parse = parse_lines,
};
