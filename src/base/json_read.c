/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses JSON text into a tree of values. */
#include "base/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/json.h" /* TS_JSON_SEAL */

#define MAX_BYTES (64 << 20)
#define MAX_DEPTH 32

struct parser {
    const char *path;
    char *start, *at, *end;
    struct ts_json_value *value;
    uint32_t used;
    struct ts_err *err;
};

static int bad(const struct parser *p, const char *fault)
{
    return ts_fail(p->err, TS_EFORMAT, "%s: byte %zu: %s", p->path, (size_t)(p->at - p->start),
                   fault);
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && strchr(" \t\n\r", *p->at) != NULL && *p->at != '\0')
        p->at++;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* Parses \uXXXX after p->at. A NUL is rejected, since it would end the text early. */
static int parse_code(struct parser *p, uint32_t *ret)
{
    char digits[5] = "", *end;
    if (p->end - p->at < 4)
        return bad(p, "the file ends in a string");
    memcpy(digits, p->at, 4);
    *ret = (uint32_t)strtoul(digits, &end, 16);
    if (end != digits + 4 || digits[0] == '+' || digits[0] == '-' || digits[0] == ' ' || *ret == 0)
        return bad(p, "not a character behind \\u");
    p->at += 4;
    return 0;
}

/* Decodes a string in place, as an escape is longer than its character. */
static int parse_string(struct parser *p, const char **ret)
{
    static const char *const from = "\"\\/bfnrt", *const into = "\"\\/\b\f\n\r\t";
    char *to;
    if (p->at == p->end || *p->at != '"')
        return bad(p, "expected a string");
    to = ++p->at;
    *ret = to;
    while (p->at < p->end && *p->at != '"') {
        const char *which;
        uint32_t code = 0;
        if (*p->at != '\\') {
            if (*p->at == '\0')
                return bad(p, "a NUL in a string");
            *to++ = *p->at++;
            continue;
        }
        if (++p->at == p->end)
            break;
        which = *p->at == '\0' ? NULL : strchr(from, *p->at);
        if (which != NULL) {
            *to++ = into[which - from];
            p->at++;
        } else if (*p->at == 'u') {
            p->at++;
            if (parse_code(p, &code) < 0)
                return TS_EFORMAT;
            to = put_utf8(to, code);
        } else {
            return bad(p, "an escape that there is not");
        }
    }
    if (p->at == p->end)
        return bad(p, "the file ends in a string");
    p->at++;
    *to = '\0';
    return 0;
}

/* Parses a number, true, false or null. */
static int parse_word(struct parser *p, struct ts_json_value *v)
{
    const size_t n = strcspn(p->at, ",]} \t\n\r");
    char *text = malloc(n + 1), *end;
    int rc = 0;
    if (text == NULL)
        return ts_fail(p->err, TS_ENOMEM, "%s: out of memory", p->path);
    memcpy(text, p->at, n);
    text[n] = '\0';
    v->text = text;
    v->kind = TS_JSON_BOOL;
    if (strcmp(text, "null") == 0) {
        v->kind = TS_JSON_NULL;
    } else if (strcmp(text, "true") == 0) {
        v->number = 1;
    } else if (strcmp(text, "false") != 0) {
        v->kind = TS_JSON_NUMBER;
        v->number = strtod(text, &end);
        if (end == text || *end != '\0' || strchr("-0123456789", text[0]) == NULL ||
            !isfinite(v->number))
            rc = bad(p, "expected a value");
    }
    p->at += n;
    return rc;
}

static int parse_value(struct parser *p, const char *key, uint32_t depth,
                       struct ts_json_value **ret);

static int parse_members(struct parser *p, struct ts_json_value *v, char close, uint32_t depth)
{
    const struct ts_json_value **link = &v->first;
    if (depth == MAX_DEPTH)
        return bad(p, "nested too deeply");
    p->at++;
    skip_blanks(p);
    if (p->at < p->end && *p->at == close) {
        p->at++;
        return 0;
    }
    for (;;) {
        struct ts_json_value *child;
        const char *key = NULL;
        int rc = 0;
        skip_blanks(p);
        if (close == '}') {
            rc = parse_string(p, &key);
            if (rc == 0)
                skip_blanks(p);
            if (rc == 0 && (p->at == p->end || *p->at++ != ':'))
                rc = bad(p, "expected a colon");
        }
        if (rc == 0)
            rc = parse_value(p, key, depth + 1, &child);
        if (rc < 0)
            return rc;
        *link = child;
        link = &child->next;
        v->n++;
        skip_blanks(p);
        if (p->at < p->end && *p->at == close) {
            p->at++;
            return 0;
        }
        if (p->at == p->end || *p->at != ',')
            return bad(p, "expected a comma, or an end");
        p->at++;
    }
}

static int parse_value(struct parser *p, const char *key, uint32_t depth,
                       struct ts_json_value **ret)
{
    struct ts_json_value *v = &p->value[p->used++]; /* count_values has made room for all */
    v->key = key;
    *ret = v;
    skip_blanks(p);
    if (p->at == p->end)
        return bad(p, "the file ends where a value is expected");
    switch (*p->at) {
    case '{':
        v->kind = TS_JSON_OBJECT;
        return parse_members(p, v, '}', depth);
    case '[':
        v->kind = TS_JSON_ARRAY;
        return parse_members(p, v, ']', depth);
    case '"':
        v->kind = TS_JSON_STRING;
        return parse_string(p, &v->text);
    default:
        return parse_word(p, v);
    }
}

/* Returns an upper bound of the number of values: every value except the first one follows one of
 * the counted characters. */
static size_t count_values(const char *text, size_t n)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++)
        count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return count;
}

/* Reads the open file, and closes fd. */
static int read_bytes(int fd, const char *path, struct ts_json_doc *d, struct ts_err *err)
{
    struct stat st;
    size_t done = 0;
    int rc = 0;
    if (fstat(fd, &st) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be read", path);
    else if (!S_ISREG(st.st_mode) || st.st_size > MAX_BYTES)
        rc = ts_fail(err, TS_EFORMAT, "%s: not a file of at most 64 MiB", path);
    if (rc == 0) {
        d->raw = malloc((size_t)st.st_size + 1);
        d->text = malloc((size_t)st.st_size + 1);
        if (d->raw == NULL || d->text == NULL)
            rc = ts_no_memory(err, path);
    }
    while (rc == 0 && done < (size_t)st.st_size) {
        const ssize_t n = read(fd, d->raw + done, (size_t)st.st_size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = ts_fail_errno(err, TS_EIO, "%s: cannot be read", path);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    close(fd);
    if (rc < 0)
        return rc;
    d->bytes = done;
    d->raw[done] = '\0';
    memcpy(d->text, d->raw, done + 1);
    return 0;
}

/* Checks version and checksum at the end of a file. Files of 0.2.0 and before have neither. A file
 * with only one of them is damaged: one changed byte cannot hide both. */
static int check_seal(const char *path, const struct ts_json_doc *d, struct ts_err *err)
{
    const struct ts_json_value *version = ts_json_get(d->value, "file_version");
    const struct ts_json_value *sum = ts_json_get(d->value, "file_checksum");
    const size_t room = sizeof TS_JSON_SEAL - 1 + 16 + 3; /* the digits, a quote, } and a newline */
    const char *seal = d->raw + d->bytes - room;
    char found[17];
    if (version == NULL && sum == NULL)
        return 0;
    if (version == NULL || version->kind != TS_JSON_NUMBER ||
        version->number != TS_JSON_FILE_VERSION)
        return ts_fail(err, TS_EFORMAT, "%s: version %.20s, but this program reads version %u",
                       path, ts_json_text(d->value, "file_version", "is missing"),
                       TS_JSON_FILE_VERSION);
    if (d->bytes < room || memcmp(seal, TS_JSON_SEAL, sizeof TS_JSON_SEAL - 1) != 0 ||
        strcmp(d->raw + d->bytes - 3, "\"}\n") != 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: its checksum is not at its end (the file is damaged, or was changed)",
                       path);
    snprintf(found, sizeof found, "%016" PRIx64, (uint64_t)XXH3_64bits(d->raw, d->bytes - room));
    return memcmp(seal + sizeof TS_JSON_SEAL - 1, found, 16) == 0
               ? 0
               : ts_fail(err, TS_EFORMAT,
                         "%s: the checksum is %s, expected %.16s (the file is damaged, or was "
                         "changed)",
                         path, found, seal + sizeof TS_JSON_SEAL - 1);
}

/* Parses the bytes of the file. */
static int parse(const char *path, struct ts_json_doc *d, struct ts_err *err)
{
    struct parser p = { .path = path, .err = err };
    struct ts_json_value *all;
    int rc = 0;
    d->value = calloc(count_values(d->text, d->bytes), sizeof *d->value);
    if (d->value == NULL)
        rc = ts_no_memory(err, path);
    if (rc == 0) {
        p.start = p.at = d->text;
        p.end = d->text + d->bytes;
        p.value = d->value;
        rc = parse_value(&p, NULL, 0, &all);
    }
    if (rc == 0) {
        skip_blanks(&p);
        if (p.at != p.end)
            rc = bad(&p, "something stands behind the value");
        else if (d->value->kind != TS_JSON_OBJECT)
            rc = ts_fail(err, TS_EFORMAT, "%s: not an object", path);
    }
    return rc == 0 ? check_seal(path, d, err) : rc;
}

/* Reads the open file, and closes fd. */
static int read_open(int fd, const char *path, struct ts_json_doc *ret, struct ts_err *err)
{
    struct ts_json_doc d = { 0 };
    int rc = read_bytes(fd, path, &d, err);
    if (rc == 0)
        rc = parse(path, &d, err);
    if (rc == 0)
        *ret = d;
    else
        ts_json_free(&d);
    return rc;
}

int ts_json_read_in(const struct ts_open_dir *dir, const char *name, struct ts_json_doc *ret,
                    struct ts_err *err)
{
    char *path;
    int fd, rc = ts_open_dir_named(dir, name, &fd, &path, err);
    if (rc <= 0)
        return rc;
    rc = read_open(fd, path, ret, err);
    free(path);
    return rc < 0 ? rc : 1;
}

int ts_json_of(const char *path, const void *bytes, size_t n, struct ts_json_doc *ret,
               struct ts_err *err)
{
    struct ts_json_doc d = { .raw = malloc(n + 1), .text = malloc(n + 1), .bytes = n };
    int rc = d.raw == NULL || d.text == NULL ? ts_no_memory(err, path) : 0;
    if (rc == 0) {
        memcpy(d.raw, bytes, n);
        d.raw[n] = '\0';
        memcpy(d.text, d.raw, n + 1);
        rc = parse(path, &d, err);
    }
    if (rc == 0)
        *ret = d;
    else
        ts_json_free(&d);
    return rc;
}

int ts_json_check(const char *path, const void *bytes, size_t n, struct ts_err *err)
{
    struct ts_json_doc d;
    int rc = ts_json_of(path, bytes, n, &d, err);
    if (rc == 0) {
        rc = ts_json_get(d.value, "file_version") == NULL;
        ts_json_free(&d);
    }
    return rc;
}

void ts_json_free(struct ts_json_doc *d)
{
    const size_t n = d->value == NULL ? 0 : count_values(d->raw, d->bytes);
    /* the text of a number, true, false or null was allocated; that of a string is part of
     * d->text */
    for (size_t i = 0; i < n; i++)
        if (d->value[i].kind == TS_JSON_NUMBER || d->value[i].kind == TS_JSON_BOOL ||
            d->value[i].kind == TS_JSON_NULL)
            free((void *)(uintptr_t)d->value[i].text);
    free(d->value);
    free(d->text);
    free(d->raw);
    memset(d, 0, sizeof *d);
}

const struct ts_json_value *ts_json_get(const struct ts_json_value *object, const char *key)
{
    if (object == NULL || object->kind != TS_JSON_OBJECT)
        return NULL;
    for (const struct ts_json_value *v = object->first; v != NULL; v = v->next)
        if (strcmp(v->key, key) == 0)
            return v;
    return NULL;
}

const char *ts_json_text(const struct ts_json_value *object, const char *key, const char *otherwise)
{
    const struct ts_json_value *v = ts_json_get(object, key);
    return v == NULL || v->text == NULL || v->kind == TS_JSON_NULL ? otherwise : v->text;
}

uint32_t ts_json_u32(const struct ts_json_value *object, const char *key)
{
    const double x = ts_json_number(object, key);
    return x >= 0 && x <= UINT32_MAX ? (uint32_t)x : 0;
}

double ts_json_number(const struct ts_json_value *object, const char *key)
{
    const struct ts_json_value *v = ts_json_get(object, key);
    return v == NULL ? 0 : v->number;
}
