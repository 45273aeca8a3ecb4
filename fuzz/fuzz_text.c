/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: text as tshard build reads it, of each kind of the table in source/text/text_kind.h.
 * The first byte chooses the rules (base, precision, fixed sizes; the highest bit: one piece, of a
 * table unless the file begins like another kind), the second the length of the pieces, or the
 * separator, the rest is the file: plain text, or packed when it starts like that.
 *
 * Whatever the text, parsing must stay inside it, every nonzero taken must obey the rules, and the
 * result must not depend on where the text is cut into pieces.
 */
#include <sys/mman.h>

#include "fuzz/fuzz.h"
#include "source/text/table_text.h"
#include "source/text/text_input.h"
#include "source/text/text_kind.h"
#include "source/text/tns_text.h"
#include "build/value_table.h"

/* What a text came to. */
struct outcome {
    int rc;
    uint64_t hash, n_read, n_zeros, line; /* line of the mistake, from the start of the file */
};

static void hash_in(struct outcome *o, uint64_t x)
{
    o->hash = (o->hash ^ x) * UINT64_C(0x100000001b3);
}

/* Parses one piece, with nothing but the promised padding behind it. */
static int parse_piece(const struct ts_text_kind *kind, const struct ts_tns_rules *r,
                       const char *text, size_t bytes, struct outcome *o)
{
    char *side = calloc(1, ts_text_kind_side(kind, NULL) * bytes + TS_TEXT_PAD);
    char *copy = malloc(bytes + TS_TEXT_PAD);
    struct ts_batch b;
    struct ts_err err;
    uint64_t line = 0;
    int rc;
    memcpy(copy, text, bytes);
    memset(copy + bytes, '7', TS_TEXT_PAD); /* digits: whoever reads on is found out */
    MUST(ts_batch_new(r->order, kind->room(r, bytes), &b, &err) == 0);
    ts_batch_clear(&b);
    rc = kind->parse(NULL, side, r, copy, bytes, &b, &line, &err);
    MUST(b.n <= b.room && b.n + b.n_zeros == b.n_read);
    for (uint64_t i = 0; i < b.n; i++) {
        MUST(ts_value_of_bits(b.value[i], r->value_bytes) != 0);
        for (uint32_t m = 0; m < r->order; m++) {
            const uint64_t index = b.index[i * r->order + m];
            MUST(index < (r->fixed ? r->dim[m] : TS_MAX_DIM) && index <= b.max[m]);
            hash_in(o, index);
        }
        hash_in(o, b.value[i]);
    }
    o->n_read += b.n_read;
    o->n_zeros += b.n_zeros;
    o->line += rc < 0 ? line : b.n_lines;
    o->rc = rc;
    ts_batch_free(&b);
    free(copy);
    free(side);
    return rc;
}

static struct outcome parse_file(const char *path, const struct ts_tns_rules *fixed, size_t piece)
{
    struct ts_text_input *in;
    struct ts_tns_rules rules = *fixed;
    const struct ts_text_kind *kind = NULL;
    struct outcome o = { 0 };
    struct ts_err err;
    char *buf = calloc(1, piece + TS_TEXT_PAD);
    MUST(ts_text_input_open(&path, 1, piece, NULL, &in, &err) == 0);
    for (;;) {
        struct ts_text_piece p;
        struct ts_tns_header h = { 0 };
        uint64_t line;
        o.rc = ts_text_input_next(in, buf, &p, &err);
        if (o.rc < 0 || p.bytes == 0)
            break;
        MUST(p.bytes <= piece && buf[p.bytes - 1] == '\n');
        memset(buf + p.bytes, '7', piece + TS_TEXT_PAD - p.bytes);
        if (kind == NULL)
            kind = ts_text_kind_find(buf, p.bytes);
        if (p.first)
            o.rc = kind->header(NULL, &rules, buf, p.bytes, &h, &line, &err);
        if (o.rc > 0 && h.sized && rules.fixed &&
            memcmp(rules.dim, h.dim, h.order * sizeof *h.dim) != 0)
            o.rc = TS_EFORMAT; /* as text_source.c refuses it */
        if (o.rc < 0)
            break;
        MUST(h.bytes <= p.bytes);
        o.line += h.lines;
        if (rules.order == 0)
            rules.order =
                o.rc > 0 ? h.order : kind->fields(buf + h.bytes, p.bytes - h.bytes, NULL) - 1;
        if (rules.order == UINT32_MAX) { /* comments alone so far */
            for (size_t i = 0; i < p.bytes; i++)
                o.line += buf[i] == '\n';
            rules.order = 0;
            continue;
        }
        if (rules.order < TS_MIN_ORDER || rules.order > TS_MAX_ORDER) {
            o.rc = TS_ELIMIT;
            break;
        }
        if (parse_piece(kind, &rules, buf + h.bytes, p.bytes - h.bytes, &o) < 0)
            break;
    }
    ts_text_input_close(in);
    free(buf);
    return o;
}

/* A piece of a table, or of a kind that the text begins like, whose padding is as far as reading
 * may go. */
static void parse_one_piece(const uint8_t *data, size_t size)
{
    static const char separators[] = { ',', '\t', ' ', ';' };
    const struct ts_table_plan plan = { .separator = separators[data[1] & 3],
                                        .header = data[1] >> 2 & 3,
                                        .value = data[1] & 16 ? "none" : NULL,
                                        .n_text = data[1] >> 5 & 1,
                                        .text = { "1" },
                                        .n_bins = data[1] >> 6 & 1,
                                        .binned = { "2" },
                                        .bin = { { .seconds = 86400 } } };
    struct ts_tns_rules rules = { .base = data[0] & 1, .value_bytes = data[0] & 2 ? 4 : 8 };
    const size_t bytes = size - 2 + 1;
    char *text = malloc(bytes + TS_TEXT_PAD), *side = NULL;
    struct ts_tns_header h = { 0 };
    struct ts_table *t = NULL;
    struct ts_batch b;
    struct ts_err err;
    uint64_t line = 0, n_lines = 0;
    const struct ts_text_kind *kind;
    int rc, is_table;
    MUST(text != NULL && ts_table_new(&plan, &t, &err) == 0);
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\n';
    memset(text + bytes, '7', TS_TEXT_PAD);
    for (size_t i = 0; i < bytes; i++)
        n_lines += text[i] == '\n';
    kind = ts_text_kind_find(text, bytes);
    is_table = kind == &ts_text_tns;
    kind = is_table ? &ts_text_table : kind;
    rc = kind->header(t, &rules, text, bytes, &h, &line, &err);
    if (rc == 1) {
        MUST(h.order >= TS_MIN_ORDER && h.order <= TS_MAX_ORDER && h.bytes <= bytes);
        if (is_table && ts_table_look_on(t, text, bytes, 1))
            ts_table_look_on(t, text, 0, 0);
        side = malloc(ts_text_kind_side(kind, t) * bytes + TS_TEXT_PAD);
        MUST(side != NULL);
        rules.order = h.order;
        rules.fixed = h.sized;
        rules.fixed_by = "the header";
        memcpy(rules.dim, h.dim, sizeof rules.dim);
        MUST(ts_batch_new(h.order, kind->room(&rules, bytes), &b, &err) == 0);
        ts_batch_clear(&b);
        rc = kind->parse(t, side, &rules, text + h.bytes, bytes - h.bytes, &b, &line, &err);
        MUST(b.n <= b.room && b.n + b.n_zeros == b.n_read);
        MUST(rc == 0 ? b.n_lines + h.lines == n_lines : line >= 1 && line <= n_lines);
        for (uint64_t i = 0; i < b.n * h.order; i++) {
            const uint64_t index = b.index[i];
            if (!is_table || (index & TS_NAME_UNKNOWN) == 0)
                MUST(index < TS_MAX_DIM);
            else /* lies where it says */
                MUST(ts_name_length(index) > 0 &&
                     (size_t)(ts_name_text(index, text + h.bytes, side) -
                              (index & TS_NAME_SIDE ? side : text)) +
                             ts_name_length(index) <=
                         (index & TS_NAME_SIDE ? ts_table_side(t) : 1) * bytes);
        }
        ts_batch_free(&b);
    }
    ts_table_free(t);
    free(text);
    free(side);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ts_tns_rules rules = { 0 };
    struct outcome whole, cut;
    char path[64];
    size_t piece;
    int fd;
    if (size < 2 || size > 1 << 16)
        return 0;
    if (data[0] & 0x80) {
        parse_one_piece(data, size);
        return 0;
    }
    rules.base = data[0] & 1;
    rules.value_bytes = data[0] & 2 ? 4 : 8;
    rules.fixed = (data[0] & 4) != 0;
    rules.fixed_by = "--dims";
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        rules.dim[m] = 1 + (data[0] >> 3) * (m + 1);
    piece = 64 + data[1] * 16;
    fd = memfd_create("text", 0);
    MUST(fd >= 0 && write(fd, data + 2, size - 2) == (ssize_t)(size - 2));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    whole = parse_file(path, &rules, 1 << 21);
    cut = parse_file(path, &rules, piece);
    /* a short piece may refuse a long line or not see a header whole; else both agree */
    if (cut.rc == 0 && whole.rc == 0 && cut.n_read == whole.n_read)
        MUST(cut.hash == whole.hash && cut.n_zeros == whole.n_zeros && cut.line == whole.line);
    close(fd);
    return 0;
}
