/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h - writes JSON, one object on each line.
 *
 * An object is opened, filled and closed; the outermost close ends the line. In an array the key is
 * NULL. Doubles are written with all digits, or as null if they are not finite. ferror reports
 * failures to write.
 *
 *   owner    the stream is the caller's
 *   threads  one thread at a time
 */
#ifndef TS_BASE_JSON_H
#define TS_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/opt.h"

struct ts_json {
    FILE *to;
    uint32_t depth;
    uint64_t array; /* bit d: what is open at depth d is an array, not an object */
    int comma;      /* 1: a comma is needed before the next member */
};

void ts_json_open(struct ts_json *j, FILE *to);
void ts_json_str(struct ts_json *j, const char *key, const char *value); /* NULL: writes null */
void ts_json_u64(struct ts_json *j, const char *key, uint64_t value);
void ts_json_i64(struct ts_json *j, const char *key, int64_t value);
void ts_json_f64(struct ts_json *j, const char *key, double value);
void ts_json_bool(struct ts_json *j, const char *key, int value);
void ts_json_array(struct ts_json *j, const char *key);  /* opens it until ts_json_close */
void ts_json_object(struct ts_json *j, const char *key); /* opens it until ts_json_close */
void ts_json_close(struct ts_json *j);

/* Adds the last two members of an object that is a whole file: "file_version" and "file_checksum".
 * The checksum is the XXH3-64 of all bytes before it. j must write to a stream that open_memstream
 * has made for *text and *n. ts_json_read_in checks both members if they exist. */
#define TS_JSON_FILE_VERSION 1u
#define TS_JSON_SEAL         ",\"file_checksum\":\"" /* then 16 digits, "}" and a newline */
void ts_json_seal(struct ts_json *j, char *const *text, const size_t *n);

/* Returns the text of a whole object with the two members added: *n bytes, to be freed; NULL: out
 * of memory. */
char *ts_json_sealed(const char *object, size_t *n);

/* Writes a time such as "2026-11-22T03:30:00+01:00", in local time; null, or "", if it is not
 * known. */
#define TS_JSON_TIME_CHARS 40
void ts_json_time(struct ts_json *j, const char *key, time_t t);
void ts_json_time_text(time_t t, char ret[TS_JSON_TIME_CHARS]);

/* Writes "options":{"rank":16,...}, the options of a run, from an option table. */
void ts_json_options(struct ts_json *j, const struct ts_opt *opts, const void *args);

/* Returns the bytes of the UTF-8 sequence at s, or 0 if it is not valid (overlong sequences and
 * surrogates are not). */
size_t ts_json_utf8_length(const unsigned char *s);

/* Returns the code point of a character of n bytes, where n is from ts_json_utf8_length. */
uint32_t ts_json_code_point(const unsigned char *s, size_t n);

/* Whether a terminal interprets a character instead of showing it: C0 and C1 controls, DEL,
 * characters that change the direction of text or break lines (U+061C, U+200E, U+200F, U+2028 to
 * U+202E, U+2066 to U+2069), and tags (U+E0000 to U+E007F). JSON strings escape them. */
int ts_json_acts(uint32_t code_point);

#endif
