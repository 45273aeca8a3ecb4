/* SPDX-License-Identifier: BSD-3-Clause */
/* json_read.h - reads JSON that this program wrote: run.json, models.json, status.json. Files are
 * not trusted. Their version and checksum (ts_json_seal) are checked; files of 0.2.0 and before
 * have neither.
 *
 *   owner    the document owns its values until ts_json_free
 *   threads  any thread, after reading
 *   errors   TS_EIO, TS_EBUSY (the directory was replaced), TS_ENOMEM, or TS_EFORMAT with file and
 *            byte
 */
#ifndef TS_BASE_JSON_READ_H
#define TS_BASE_JSON_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/open_dir.h"

enum ts_json_kind {
    TS_JSON_NULL,
    TS_JSON_BOOL,
    TS_JSON_NUMBER,
    TS_JSON_STRING,
    TS_JSON_ARRAY,
    TS_JSON_OBJECT
};

struct ts_json_value {
    enum ts_json_kind kind;
    const char *key;  /* key of a member of an object; NULL in an array */
    const char *text; /* a decoded string; or a number or bool as in the file */
    double number;    /* for a bool: 0 or 1 */
    uint32_t n;       /* members of an array or object */
    const struct ts_json_value *first, *next;
};

struct ts_json_doc {
    char *text;
    struct ts_json_value *value; /* all values; the first is the whole document */
    char *raw;                   /* the unchanged bytes of the file */
    size_t bytes;
};

/* Reads the regular file NAME of a directory, which must hold one object. Returns 1, 0 if it does
 * not exist, or a failure. */
int ts_json_read_in(const struct ts_open_dir *dir, const char *name, struct ts_json_doc *ret,
                    struct ts_err *err);

/* Parses n bytes in memory, which must hold one object. They are copied. `path` is for messages. */
int ts_json_of(const char *path, const void *bytes, size_t n, struct ts_json_doc *ret,
               struct ts_err *err);

/* Checks version and checksum of n bytes, without parsing them. Returns 0, 1 if they have neither,
 * or a failure. path: for messages. */
int ts_json_check(const char *path, const void *bytes, size_t n, struct ts_err *err);
void ts_json_free(struct ts_json_doc *d); /* d may be all zeros */

/* Returns the member `key`, or NULL if it does not exist, or if `object` is NULL or not an
 * object. */
const struct ts_json_value *ts_json_get(const struct ts_json_value *object, const char *key);

/* Returns the text of a member, or `otherwise` if it does not exist. ts_json_number returns its
 * number, or 0. */
const char *ts_json_text(const struct ts_json_value *object, const char *key,
                         const char *otherwise);
double ts_json_number(const struct ts_json_value *object, const char *key);

/* Returns the number of a member, without fraction, or 0 if it does not exist or is out of
 * range. */
uint32_t ts_json_u32(const struct ts_json_value *object, const char *key);

#endif
