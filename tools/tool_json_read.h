/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_json_read.h - reads JSON that this program wrote: run.json, status.json. The file is untrusted.
 *
 *   owner    the document owns its values until tool_json_free
 *   threads  any, once it is read
 *   errors   0, TS_EIO (sys ENOENT: there is no such file), TS_ENOMEM, or TS_EFORMAT with file and byte
 */
#ifndef TS_TOOLS_TOOL_JSON_READ_H
#define TS_TOOLS_TOOL_JSON_READ_H

#include <stddef.h>
#include <stdint.h>

#include "api/tools.h"

enum tool_value_kind { TOOL_NULL, TOOL_BOOL, TOOL_NUMBER, TOOL_STRING, TOOL_ARRAY, TOOL_OBJECT };

struct tool_value {
    enum tool_value_kind kind;
    const char *key;  /* of a member of an object; NULL in an array */
    const char *text; /* of a string, decoded; of a number or bool, as it stands in the file */
    double number;    /* of a bool: 0 or 1 */
    uint32_t n;       /* members of an array or object */
    const struct tool_value *first, *next;
};

struct tool_json_doc {
    char *text;
    struct tool_value *value; /* all of them; the first is the whole */
    char *raw;                /* the file as it is */
    size_t bytes;
};

/* Reads the regular file `path`, which must hold one object. */
int tool_json_read(const char *path, struct tool_json_doc *ret, struct ts_err *err);
void tool_json_free(struct tool_json_doc *d); /* an all-zero one is fine */

/* The member of that name, or NULL; also when `of` is NULL or no object. */
const struct tool_value *tool_json_get(const struct tool_value *of, const char *key);

/* Its text, or `otherwise` where there is none; its number, or 0. */
const char *tool_json_text(const struct tool_value *of, const char *key, const char *otherwise);
double tool_json_number(const struct tool_value *of, const char *key);

#endif
