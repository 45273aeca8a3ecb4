/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the header of a NumPy file, a Python dictionary in text: {'descr': '<f8', 'fortran_order':
 * False, 'shape': (3, 4), }. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/arrays/dense.h"
#include "format/file_read.h"

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u
#define MOST_BYTES  65536u /* largest header; headers of arrays without fields have 118 bytes */

struct reader {
    const char *path, *text, *at; /* text: '\0'-ended, begins at byte `first` of the file */
    uint64_t first;
    struct ts_err *err;
};

static uint64_t byte_of(const struct reader *r)
{
    return r->first + (uint64_t)(r->at - r->text);
}

static int refuse(const struct reader *r, const char *sentence)
{
    return ts_fail(r->err, TS_EFORMAT, "%s: byte %" PRIu64 ": %s", r->path, byte_of(r), sentence);
}

static void skip(struct reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

/* Skips blanks, and then the next character if it is c. Returns whether it was c. */
static int take_char(struct reader *r, char c)
{
    skip(r);
    if (*r->at != c)
        return 0;
    r->at++;
    return 1;
}

/* Reads a quoted word; a longer one is cut off at `room`. */
static int word(struct reader *r, char *ret, size_t room)
{
    const char quote = (skip(r), *r->at);
    size_t n = 0;
    if (quote != '\'' && quote != '"')
        return refuse(r, "no word in quotes in the header");
    for (r->at++; *r->at != quote && *r->at != '\0'; r->at++)
        if (n + 1 < room)
            ret[n++] = *r->at;
    ret[n] = '\0';
    return take_char(r, quote) ? 0 : refuse(r, "the header ends in a word");
}

/* Returns the name, for a message, of the NumPy types of this kind, which cannot be read. */
static const char *foreign(char kind)
{
    switch (kind) {
    case 'O':
        return "Python objects";
    case 'c':
        return "complex numbers";
    case 'b':
        return "truth values";
    case 'S':
    case 'a':
    case 'U':
        return "texts";
    case 'M':
    case 'm':
        return "times";
    case 'V':
        return "records";
    default:
        return "no numbers that are known here";
    }
}

static int take_type(struct reader *r, struct ts_dense_array *ret)
{
    static const struct {
        const char *code;
        enum ts_cell_type type;
    } known[] = { { "f4", TS_CELL_F32 }, { "f8", TS_CELL_F64 }, { "i1", TS_CELL_I8 },
                  { "u1", TS_CELL_U8 },  { "i2", TS_CELL_I16 }, { "u2", TS_CELL_U16 },
                  { "i4", TS_CELL_I32 }, { "u4", TS_CELL_U32 }, { "i8", TS_CELL_I64 },
                  { "u8", TS_CELL_U64 } };
    const uint16_t one = 1;
    const char own = *(const uint8_t *)&one == 1 ? '<' : '>';
    const uint64_t byte = (skip(r), byte_of(r));
    char code[16];
    const char *name = code;
    int rc;
    if (*r->at == '[')
        return refuse(
            r, "its cells are records; write the field that is meant as an array of its own");
    rc = word(r, code, sizeof code);
    if (rc < 0)
        return rc;
    ret->swapped = 0;
    if (code[0] != '\0' && strchr("<>|=", code[0]) != NULL) {
        ret->swapped = (code[0] == '<' || code[0] == '>') && code[0] != own;
        name++;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].code, name) == 0) {
            ret->type = known[i].type;
            return 0;
        }
    return ts_fail(r->err, TS_EFORMAT,
                   "%s: byte %" PRIu64
                   ": its cells, '%s', are %s; write them as float32 or float64 "
                   "(array.astype)",
                   r->path, byte, code,
                   *name == 'f' ? "floating-point numbers of another size" : foreign(*name));
}

static int take_order(struct reader *r, struct ts_dense_array *ret)
{
    skip(r);
    ret->fortran = strncmp(r->at, "True", 4) == 0;
    if (!ret->fortran && strncmp(r->at, "False", 5) != 0)
        return refuse(r, "fortran_order is neither True nor False");
    r->at += ret->fortran ? 4 : 5;
    return 0;
}

static int take_shape(struct reader *r, struct ts_dense_array *ret)
{
    ret->order = 0;
    if (!take_char(r, '('))
        return refuse(r, "the shape is not in parentheses");
    while (!take_char(r, ')')) {
        char *end;
        skip(r);
        if (!isdigit((unsigned char)*r->at))
            return refuse(r, "no size where the shape should have one");
        if (ret->order == TS_DENSE_MAX_ORDER)
            return refuse(r, "the array has more than 8 dimensions; a dense tensor has 2 to 8");
        errno = 0;
        ret->dim[ret->order++] = strtoull(r->at, &end, 10);
        if (errno != 0)
            return refuse(r, "a size that is too large for any file");
        r->at = end;
        if (*r->at == 'L') /* a long integer, as Python 2 writes it */
            r->at++;
        if (!take_char(r, ',') && (skip(r), *r->at != ')'))
            return refuse(r, "no comma after a size");
    }
    return 0;
}

static int take_all(struct reader *r, struct ts_dense_array *ret)
{
    unsigned seen = 0;
    if (!take_char(r, '{'))
        return refuse(r, "the header does not begin with {");
    while (!take_char(r, '}')) {
        char key[32];
        int rc = word(r, key, sizeof key);
        if (rc < 0)
            return rc;
        if (!take_char(r, ':'))
            return refuse(r, "no colon after a word of the header");
        if (strcmp(key, "descr") == 0) {
            rc = take_type(r, ret);
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            rc = take_order(r, ret);
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            rc = take_shape(r, ret);
            seen |= 4;
        } else {
            rc = refuse(r, "an unknown word in the header");
        }
        if (rc < 0)
            return rc;
        if (!take_char(r, ',') && (skip(r), *r->at != '}'))
            return refuse(r, "no comma in the header");
    }
    return seen == 7 ? 0 : refuse(r, "the header lacks descr, fortran_order or shape");
}

int ts_npy_header(int fd, const char *path, struct ts_dense_array *ret, struct ts_err *err)
{
    uint8_t head[12];
    uint64_t file_bytes, bytes, at;
    struct reader r = { .path = path, .err = err };
    char *text;
    int rc = ts_file_read_size(fd, path, &file_bytes, err);
    if (rc < 0)
        return rc;
    if (file_bytes < sizeof head)
        return ts_fail(err, TS_EFORMAT, "%s: byte %" PRIu64 ": the file ends in its head", path,
                       file_bytes);
    rc = ts_file_read_at(fd, path, 0, sizeof head, head, err);
    if (rc < 0)
        return rc;
    if (memcmp(head, MAGIC, MAGIC_BYTES) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a NumPy file", path);
    if (head[6] < 1 || head[6] > 3 || head[7] != 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 6: a NumPy file of format %u.%u; 1.0, 2.0 and 3.0 are known", path,
                       head[6], head[7]);
    at = head[6] == 1 ? 10 : 12;
    bytes = head[8] + 256u * head[9];
    if (head[6] > 1)
        bytes += (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    if (bytes > MOST_BYTES)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: a header of %" PRIu64 " bytes; that of an array of numbers has "
                       "less than %u",
                       path, bytes, MOST_BYTES);
    if (at + bytes > file_bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte %" PRIu64 ": the file ends in its header, which has %" PRIu64
                       " bytes",
                       path, file_bytes, bytes);
    text = calloc(1, bytes + 1);
    if (text == NULL)
        return ts_no_memory(err, path);
    rc = ts_file_read_at(fd, path, at, bytes, text, err);
    r.text = r.at = text;
    r.first = at;
    *ret = (struct ts_dense_array){ .path = path, .offset = at + bytes };
    if (rc == 0)
        rc = take_all(&r, ret);
    free(text);
    return rc;
}
