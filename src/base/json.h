/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h - JSON, one object a line.
 *
 * An object is opened, filled and closed; the outermost close ends the line. In an array the key is
 * NULL. Doubles get all their digits; what is not finite is null. A failure to write is seen by
 * ferror.
 *
 *   owner    the stream is the caller's
 *   threads  one at a time
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
    uint64_t array; /* bit d: level d is an array */
    int comma;      /* a member came before */
};

void ts_json_open(struct ts_json *j, FILE *to);
void ts_json_str(struct ts_json *j, const char *key, const char *value); /* NULL: null */
void ts_json_u64(struct ts_json *j, const char *key, uint64_t value);
void ts_json_i64(struct ts_json *j, const char *key, int64_t value);
void ts_json_f64(struct ts_json *j, const char *key, double value);
void ts_json_bool(struct ts_json *j, const char *key, int value);
void ts_json_array(struct ts_json *j, const char *key);  /* until ts_json_close */
void ts_json_object(struct ts_json *j, const char *key); /* until ts_json_close */
void ts_json_close(struct ts_json *j);

/* Of an object that is a file of its own, as the last members: "file_version", and "file_checksum",
 * the XXH3-64 of all bytes before the comma in front of it. j writes to the open_memstream of text
 * and n. ts_json_read_in wants them right where they are there. */
#define TS_JSON_FILE_VERSION 1u
#define TS_JSON_SEAL         ",\"file_checksum\":\"" /* then 16 digits, "}" and a newline */
void ts_json_seal(struct ts_json *j, char *const *text, const size_t *n);

/* The text of a whole object with these members: n bytes, to be freed; NULL: there is no memory. */
char *ts_json_sealed(const char *object, size_t *n);

/* "2026-11-22T03:30:00+01:00", local time; null, or "", where the system cannot say. */
#define TS_JSON_TIME_CHARS 40
void ts_json_time(struct ts_json *j, const char *key, time_t t);
void ts_json_time_text(time_t t, char ret[TS_JSON_TIME_CHARS]);

/* "options":{"rank":16,...}: the record that a run makes of itself, from an option table. */
void ts_json_options(struct ts_json *j, const struct ts_opt *opts, const void *args);

/* Bytes of the UTF-8 sequence at s, or 0 when it is none (overlong ones and surrogates are
 * none). */
size_t ts_json_utf8_length(const unsigned char *s);

/* The code point of a character of n bytes, as ts_json_utf8_length has counted them. */
uint32_t ts_json_code_point(const unsigned char *s, size_t n);

/* Whether a terminal acts upon a character instead of showing it: C0 and C1 controls, DEL, what
 * changes the direction of text or breaks lines (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066
 * to U+2069), and tags (U+E0000 to U+E007F). In strings of JSON they are escaped. */
int ts_json_acts(uint32_t code_point);

#endif
