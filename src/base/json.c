/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes JSON, one object on each line. */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

size_t ts_json_utf8_length(const unsigned char *s)
{
    const size_t n = s[0] < 0x80   ? 1
                     : s[0] < 0xc2 ? 0
                     : s[0] < 0xe0 ? 2
                     : s[0] < 0xf0 ? 3
                     : s[0] < 0xf5 ? 4
                                   : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

uint32_t ts_json_code_point(const unsigned char *s, size_t n)
{
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3fu);
    return c;
}

int ts_json_acts(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

/* Writes \u and the code point, or two surrogates for a code point beyond the first plane. */
static void escape(FILE *to, uint32_t c)
{
    if (c < 0x10000)
        fprintf(to, "\\u%04x", c);
    else
        fprintf(to, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

/* Writes a string. File names and labels may be any bytes: bytes that are not UTF-8 are taken as
 * Latin-1, so that the output is always valid. */
static void quote(FILE *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', to);
    while (*s != '\0') {
        const size_t n = ts_json_utf8_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s == '\n')
            fputs("\\n", to);
        else if (*s == '\t')
            fputs("\\t", to);
        else if (n == 0 || ts_json_acts(ts_json_code_point(s, n)))
            escape(to, n == 0 ? *s : ts_json_code_point(s, n));
        else
            fwrite(s, 1, n, to);
        s += n > 0 ? n : 1;
    }
    fputc('"', to);
}

static void member(struct ts_json *j, const char *key)
{
    if (j->comma)
        fputc(',', j->to);
    j->comma = 1;
    assert((key == NULL) == (int)(j->array >> j->depth & 1));
    if (key == NULL)
        return;
    quote(j->to, key);
    fputc(':', j->to);
}

static void deeper(struct ts_json *j, int array)
{
    j->depth++;
    assert(j->depth < 64);
    j->array = (j->array & ~(UINT64_C(1) << j->depth)) | (uint64_t)array << j->depth;
    j->comma = 0;
    fputc(array ? '[' : '{', j->to);
}

void ts_json_open(struct ts_json *j, FILE *to)
{
    memset(j, 0, sizeof *j);
    j->to = to;
    deeper(j, 0);
}

void ts_json_array(struct ts_json *j, const char *key)
{
    member(j, key);
    deeper(j, 1);
}

void ts_json_object(struct ts_json *j, const char *key)
{
    member(j, key);
    deeper(j, 0);
}

void ts_json_close(struct ts_json *j)
{
    assert(j->depth > 0);
    fputc(j->array >> j->depth & 1 ? ']' : '}', j->to);
    j->depth--;
    j->comma = 1;
    if (j->depth == 0)
        fputc('\n', j->to);
}

void ts_json_seal(struct ts_json *j, char *const *text, const size_t *n)
{
    char sum[17];
    ts_json_u64(j, "file_version", TS_JSON_FILE_VERSION);
    if (fflush(j->to) != 0)
        return; /* out of memory, which ferror reports */
    snprintf(sum, sizeof sum, "%016" PRIx64, (uint64_t)XXH3_64bits(*text, *n));
    ts_json_str(j, "file_checksum", sum);
}

char *ts_json_sealed(const char *object, size_t *n)
{
    const size_t inside = strrchr(object, '}') == NULL ? 0 : strrchr(object, '}') - object;
    char *begin, *ret = NULL;
    int length =
        asprintf(&begin, "%.*s,\"file_version\":%u", (int)inside, object, TS_JSON_FILE_VERSION);
    if (length < 0)
        return NULL;
    length = asprintf(&ret, "%s" TS_JSON_SEAL "%016" PRIx64 "\"}\n", begin,
                      (uint64_t)XXH3_64bits(begin, (size_t)length));
    free(begin);
    *n = length < 0 ? 0 : (size_t)length;
    return length < 0 ? NULL : ret;
}

void ts_json_time_text(time_t t, char ret[TS_JSON_TIME_CHARS])
{
    struct tm local;
    char zone[8] = "";
    size_t n;
    ret[0] = '\0';
    if (localtime_r(&t, &local) == NULL)
        return;
    n = strftime(ret, TS_JSON_TIME_CHARS, "%Y-%m-%dT%H:%M:%S", &local);
    if (n > 0 && strftime(zone, sizeof zone, "%z", &local) == 5)
        snprintf(ret + n, TS_JSON_TIME_CHARS - n, "%.3s:%s", zone, zone + 3);
}

void ts_json_time(struct ts_json *j, const char *key, time_t t)
{
    char text[TS_JSON_TIME_CHARS];
    ts_json_time_text(t, text);
    ts_json_str(j, key, text[0] != '\0' ? text : NULL);
}

void ts_json_str(struct ts_json *j, const char *key, const char *value)
{
    member(j, key);
    if (value == NULL)
        fputs("null", j->to);
    else
        quote(j->to, value);
}

void ts_json_u64(struct ts_json *j, const char *key, uint64_t value)
{
    member(j, key);
    fprintf(j->to, "%" PRIu64, value);
}

void ts_json_i64(struct ts_json *j, const char *key, int64_t value)
{
    member(j, key);
    fprintf(j->to, "%" PRId64, value);
}

void ts_json_f64(struct ts_json *j, const char *key, double value)
{
    member(j, key);
    if (isfinite(value))
        fprintf(j->to, "%.17g", value);
    else
        fputs("null", j->to);
}

void ts_json_bool(struct ts_json *j, const char *key, int value)
{
    member(j, key);
    fputs(value ? "true" : "false", j->to);
}

static int is_number(enum ts_opt_type type)
{
    return type == TS_OPT_U32 || type == TS_OPT_U64 || type == TS_OPT_SIZE || type == TS_OPT_DOUBLE;
}

void ts_json_options(struct ts_json *j, const struct ts_opt *opts, const void *args)
{
    ts_json_object(j, "options");
    for (const struct ts_opt *o = opts; o->name != NULL; o++) {
        char text[4096];
        ts_opt_text(o, args, text, sizeof text);
        if (o->type == TS_OPT_FLAG) {
            ts_json_bool(j, o->name, text[0] == '1');
        } else if (is_number(o->type)) {
            member(j, o->name);
            fputs(text, j->to);
        } else if (o->type == TS_OPT_NUMBERS) {
            const int several = strchr(text, ',') != NULL;
            member(j, o->name);
            fprintf(j->to, "%s%s%s", several ? "[" : "", text, several ? "]" : "");
        } else {
            ts_json_str(j, o->name, text[0] != '\0' ? text : NULL);
        }
    }
    ts_json_close(j);
}
