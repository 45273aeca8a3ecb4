/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the number of modes that the first line of a text gives, and searches later lines for
 * fields of columns that are empty at first. */
#include "source/text/text_order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "base/setting.h"
#include "source/text/table_text.h"
#include "source/text/text_input.h"
#include "source/text/tns_text.h"

/* Returns a hint for the message about a first line with only one field. */
static const char *one_field_hint(const char *line, const char *end)
{
    const char *next = memchr(line, '\n', (size_t)(end - line));
    uint32_t order = 0;
    if (next == NULL)
        return "";
    if (memchr(line, ',', (size_t)(next - line)) != NULL)
        return "; there are commas in it: " TS_SET_FORMAT_CSV " reads such a file";
    if (memchr(line, ';', (size_t)(next - line)) != NULL)
        return "; there are semicolons in it: " TS_SET_FORMAT_SEMICOLON " reads such a file";
    for (const char *p = line; *p >= '0' && *p <= '9' && order < 100; p++)
        order = 10 * order + (uint32_t)(*p - '0');
    if (order >= TS_MIN_ORDER && order <= TS_MAX_ORDER &&
        ts_tns_fields(next + 1, (size_t)(end - next - 1), NULL) == order)
        return "; if that is a header, of the order and, in the next line, the sizes, take both "
               "lines out and give " TS_SET_SIZES;
    return "";
}

int ts_text_order_check(const struct ts_files_plan *p, const struct ts_text_line *l, uint32_t order,
                        struct ts_err *err)
{
    if (order == 0)
        return ts_fail(err, TS_ELIMIT,
                       "%s:%" PRIu64 ": the first line has 1 field; each line is an index for each "
                       "mode, then a value, with blanks between%s",
                       l->name, l->number, one_field_hint(l->at, l->end));
    if (order < TS_MIN_ORDER)
        return ts_fail(err, TS_ELIMIT,
                       "%s:%" PRIu64 ": the first line has %u fields, so a tensor of %u "
                       "mode: a decomposition needs at least 2 (each line is an index for each "
                       "mode, then a value, with blanks between)",
                       l->name, l->number, order + 1, order);
    if (order > TS_MAX_ORDER)
        return ts_fail(err, TS_ELIMIT,
                       "%s:%" PRIu64 ": the first line has %u fields, so a tensor of %u "
                       "modes; at most %u are possible",
                       l->name, l->number, order + 1, order, TS_MAX_ORDER);
    if (p->n_dims > 0 && p->n_dims != order)
        return ts_fail(err, TS_EARG, TS_SET_SIZES " has %u size%s, but %s has %u modes", p->n_dims,
                       ts_num_plural(p->n_dims), l->name, order);
    return 0;
}

static int is_file(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int ts_text_look_on(const struct ts_files_plan *p, struct ts_err *err)
{
    struct ts_text_input *in = NULL;
    struct ts_text_piece piece = { .bytes = 1 };
    uint32_t n = 0;
    char *text;
    int rc;
    while (n < p->n_paths && is_file(p->paths[n]))
        n++;
    if (!ts_table_is_open(p->table) || n == 0)
        return 0;
    text = calloc(1, p->piece_bytes + TS_TEXT_PAD);
    if (text == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for reading text");
    rc = ts_text_input_open(p->paths, n, p->piece_bytes, p->stop, &in, err);
    if (rc == 0)
        ts_text_input_unpack(in, p->unpack_bytes);
    while (rc == 0 && piece.bytes > 0) {
        struct ts_err why;
        rc = ts_text_input_next(in, text, &piece, &why);
        if (rc < 0 && piece.bad_line)
            piece.bytes = 0; /* the parser will report the wrong text */
        else if (rc < 0)
            rc = ts_fail(err, rc, "%s", why.text);
        if (piece.bad_line)
            rc = 0;
        if (rc == 0 && !ts_table_look_on(p->table, text, piece.bytes, piece.first))
            break;
    }
    ts_text_input_close(in);
    free(text);
    return rc;
}
