/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes the file `options` of a tensor, which has the options of its build, and compares
 * them with the options of an append, which must not change some of them. */
#include "format/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/setting.h"
#include "format/file_read.h"

enum { SAME, MATCHED, GIVEN, FREE };
enum { TENSOR, MODE };

static const struct row {
    const char *key;
    int of, compared;
    const char *allowed, *words;
} rows[TS_N_KEPT] = {
#define KEPT(id, key, of, compared, allowed, words) \
    [TS_KEPT_##id] = { key, of, compared, allowed, words },
#include "format/kept.def"
};

static const struct {
    const char *option;
    enum ts_kept_id id;
} options[] = {
#define KEPT_BY(option, id) { option, TS_KEPT_##id },
#include "format/kept.def"
};

/* Upper bound for the text of the file: all values, their keys and a newline each. */
#define MAX_BYTES ((size_t)TS_N_KEPT * TS_MAX_ORDER * (TS_KEPT_TEXT_MAX + 32))

void ts_kept_free(struct ts_kept *k)
{
    for (uint32_t i = 0; i < TS_N_KEPT; i++)
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            free(k->text[i][m]);
    free(k->unknown);
    memset(k, 0, sizeof *k);
}

const char *ts_kept_key(enum ts_kept_id id)
{
    return rows[id].key;
}

uint32_t ts_kept_count(const struct ts_kept *k, enum ts_kept_id id)
{
    return rows[id].of == MODE ? k->order : 1;
}

int ts_kept_of_mode(enum ts_kept_id id)
{
    return rows[id].of == MODE;
}

int ts_kept_by_option(const char *option)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(option, options[i].option) == 0)
            return (int)options[i].id;
    return -1;
}

/* Whether a text is one of the words of `list`, or fits one of its patterns: the values that
 * kept.def calls ALLOWED. */
static int is_allowed(const char *list, const char *text)
{
    if (*list == '\0')
        return 1;
    for (const char *word = list; word != NULL; word = strchr(word, '|')) {
        size_t n;
        word += *word == '|';
        n = strcspn(word, "|");
        if (n == 1 && *word == '#') {
            if (*text >= '0' && *text <= '9' && text[strspn(text, "0123456789")] == '\0' &&
                strlen(text) < 20)
                return 1;
        } else if (strncmp(text, word, n) == 0 && (text[n] == '\0' || word[n - 1] == '=')) {
            return 1;
        }
    }
    return 0;
}

/* Returns NULL, or a phrase that says what is wrong with the value `text` of an option. */
static const char *fault(enum ts_kept_id id, const char *text)
{
    if (*text == '\0' || strlen(text) > TS_KEPT_TEXT_MAX)
        return "has 1 to 4095 bytes";
    if (strchr(text, '\n') != NULL)
        return "is one line";
    return is_allowed(rows[id].allowed, text) ? NULL : "has no such value";
}

int ts_kept_set(struct ts_kept *k, enum ts_kept_id id, uint32_t mode, const char *text,
                struct ts_err *err)
{
    const char *wrong = text == NULL ? NULL : fault(id, text);
    char *copy;
    if (wrong != NULL)
        return ts_fail(err, TS_EARG, "%s %s: '%.200s'", rows[id].key, wrong, text);
    copy = text == NULL ? NULL : strdup(text);
    if (text != NULL && copy == NULL)
        return ts_no_memory(err, rows[id].key);
    free(k->text[id][mode]);
    k->text[id][mode] = copy;
    return 0;
}

int ts_kept_copy(const struct ts_kept *from, uint32_t order, const uint32_t mode[],
                 struct ts_kept *ret, struct ts_err *err)
{
    int rc = 0;
    memset(ret, 0, sizeof *ret);
    ret->order = order;
    for (uint32_t i = 0; i < TS_N_KEPT; i++)
        for (uint32_t m = 0; m < ts_kept_count(ret, (enum ts_kept_id)i) && rc == 0; m++)
            rc = ts_kept_set(ret, (enum ts_kept_id)i, m,
                             from->text[i][rows[i].of == MODE ? mode[m] : 0], err);
    if (rc == 0 && from->unknown != NULL && (ret->unknown = strdup(from->unknown)) == NULL)
        rc = ts_no_memory(err, "options");
    if (rc < 0)
        ts_kept_free(ret);
    return rc;
}

/* ---- reading and writing the file `options` ---- */

int ts_kept_make(const struct ts_kept *k, uint64_t index_hash, void **ret, size_t *bytes,
                 struct ts_err *err)
{
    struct ts_disk_kept h = { .version = TS_FORMAT_VERSION,
                              .order = k->order,
                              .index_hash = index_hash };
    char *text = NULL;
    size_t n = 0;
    uint64_t hash;
    FILE *f = open_memstream(&text, &n);
    memcpy(h.magic, TS_KEPT_MAGIC, sizeof h.magic);
    if (f == NULL)
        return ts_no_memory(err, "options");
    fwrite(&h, sizeof h, 1, f);
    for (uint32_t i = 0; i < TS_N_KEPT; i++)
        for (uint32_t m = 0; m < ts_kept_count(k, (enum ts_kept_id)i); m++)
            if (k->text[i][m] != NULL && rows[i].of == MODE)
                fprintf(f, "%s.%" PRIu32 "=%s\n", rows[i].key, m + 1, k->text[i][m]);
            else if (k->text[i][m] != NULL)
                fprintf(f, "%s=%s\n", rows[i].key, k->text[i][m]);
    if (fflush(f) != 0) {
        fclose(f);
        free(text);
        return ts_no_memory(err, "options");
    }
    h.text_bytes = n - sizeof h;
    memcpy(text, &h, sizeof h);
    hash = XXH3_64bits(text, n);
    fwrite(&hash, sizeof hash, 1, f);
    if (fclose(f) != 0) {
        free(text);
        return ts_no_memory(err, "options");
    }
    *ret = text;
    *bytes = n;
    return 0;
}

static int check_head(const struct ts_tensor *t, const char *bytes, uint64_t n, const char *path,
                      struct ts_err *err)
{
    struct ts_disk_kept h;
    uint64_t stored, found;
    if (n < sizeof h + sizeof stored || n > MAX_BYTES)
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes cannot be the options of a build",
                       path, n);
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, TS_KEPT_MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a file of options", path);
    if (h.version != TS_FORMAT_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       path, h.version, TS_FORMAT_VERSION);
    memcpy(&stored, bytes + n - sizeof stored, sizeof stored);
    found = XXH3_64bits(bytes, n - sizeof stored);
    if (found != stored)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the checksum is %016" PRIx64 ", expected %016" PRIx64
                       " (the file is damaged)",
                       path, found, stored);
    if (h.order != t->order || h.index_hash != t->hash ||
        h.text_bytes != n - sizeof h - sizeof stored)
        return ts_fail(err, TS_EFORMAT, "%s: it does not match the index", path);
    return 0;
}

/* Parses a line, whose newline was replaced by '\0': "key=value" or "key.K=value". Returns 1 if it
 * was stored, 0 if it has no such form, or a negative code. */
static int take_line(struct ts_kept *k, char *line, struct ts_err *err)
{
    char *const equals = strchr(line, '='), *const dot = strchr(line, '.');
    uint32_t mode = 0, i = 0;
    if (equals == NULL || equals == line || equals[1] == '\0')
        return 0;
    *equals = '\0';
    if (dot != NULL && dot < equals) {
        char *end;
        const unsigned long n = strtoul(dot + 1, &end, 10);
        if (dot[1] < '1' || dot[1] > '9' || *end != '\0' || n > k->order)
            return 0;
        *dot = '\0';
        mode = (uint32_t)n - 1;
    }
    while (i < TS_N_KEPT && strcmp(line, rows[i].key) != 0)
        i++;
    if (i == TS_N_KEPT) {
        if (k->unknown == NULL && (k->unknown = strdup(line)) == NULL)
            return ts_no_memory(err, line);
        return 1;
    }
    if ((rows[i].of == MODE) != (dot != NULL && dot < equals) || k->text[i][mode] != NULL ||
        fault((enum ts_kept_id)i, equals + 1) != NULL)
        return 0;
    return ts_kept_set(k, (enum ts_kept_id)i, mode, equals + 1, err) == 0 ? 1 : err->code;
}

static int take_text(struct ts_kept *k, char *text, size_t bytes, const char *path,
                     struct ts_err *err)
{
    const char *const end = text + bytes;
    uint32_t n = 0;
    while (text < end) {
        char *const stop = memchr(text, '\n', (size_t)(end - text));
        struct ts_err none = { 0 };
        int rc = 0;
        n++;
        if (stop != NULL && memchr(text, '\0', (size_t)(stop - text)) == NULL) {
            *stop = '\0';
            rc = take_line(k, text, &none);
        }
        if (rc == TS_ENOMEM)
            return ts_no_memory(err, path);
        if (rc <= 0)
            return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu32 " is no option of a build", path,
                           n);
        text = stop + 1;
    }
    return 0;
}

/* Reads the file `options` if it exists. *ret is malloc'ed. */
static int read_all(const struct ts_tensor *t, char **ret, uint64_t *n, struct ts_err *err)
{
    int rc = ts_file_read_small_in(t->dir, TS_KEPT_NAME, 0, NULL, n, err);
    if (rc <= 0)
        return rc;
    *ret = calloc(1, (size_t)(*n < MAX_BYTES ? *n : MAX_BYTES) + 1);
    if (*ret == NULL)
        return ts_no_memory(err, t->path);
    return *n <= MAX_BYTES ? ts_file_read_small_in(t->dir, TS_KEPT_NAME, *n, *ret, n, err) : 1;
}

int ts_kept_read(const struct ts_tensor *t, struct ts_kept *ret, struct ts_err *err)
{
    char *path = NULL, *bytes = NULL;
    uint64_t n = 0;
    int rc;
    memset(ret, 0, sizeof *ret);
    ret->order = t->order;
    if (asprintf(&path, "%s/" TS_KEPT_NAME, t->path) < 0)
        return ts_no_memory(err, t->path);
    rc = read_all(t, &bytes, &n, err);
    if (rc > 0) {
        rc = check_head(t, bytes, n, path, err);
        if (rc == 0)
            rc = take_text(ret, bytes + sizeof(struct ts_disk_kept),
                           (size_t)n - sizeof(struct ts_disk_kept) - sizeof(uint64_t), path, err);
        rc = rc == 0 ? 1 : rc;
    }
    free(bytes);
    free(path);
    if (rc <= 0)
        ts_kept_free(ret);
    return rc;
}

/* ---- comparing the options of two builds ---- */

static int is_none(const char *text)
{
    return text == NULL || strcmp(text, "none") == 0;
}

int ts_kept_check_one(const char *path, const struct ts_kept *was, const struct ts_kept *is,
                      enum ts_kept_id id, uint32_t mode, struct ts_err *err)
{
    const struct row *r = &rows[id];
    const char *const a = was->text[id][mode], *const b = is->text[id][mode];
    char of[64] = "";
    if (r->compared == FREE || a == NULL || b == NULL || strcmp(a, b) == 0 ||
        (r->compared == GIVEN && (is_none(a) || is_none(b))))
        return 0;
    if (r->of == MODE)
        snprintf(of, sizeof of, " of " TS_NTH_MODE, mode + 1);
    return ts_fail(err, TS_EARG,
                   "%s: %s%s was '%.200s' in the build of the tensor, and is '%.200s' here; cells "
                   "would be mixed up",
                   path, r->words, of, a, b);
}

int ts_kept_check(const char *path, const struct ts_kept *was, const struct ts_kept *is,
                  struct ts_err *err)
{
    int rc = 0;
    if (was->unknown != NULL || is->unknown != NULL)
        return ts_fail(err, TS_EARG,
                       "%s: a newer version built it with an option that this version does not "
                       "know: %.200s",
                       path, was->unknown != NULL ? was->unknown : is->unknown);
    if (was->order != is->order)
        return ts_fail(err, TS_EARG, "%s: the tensor has %u modes, and the input %u", path,
                       was->order, is->order);
    for (uint32_t i = 0; i < TS_N_KEPT; i++)
        for (uint32_t m = 0; m < ts_kept_count(was, (enum ts_kept_id)i) && rc == 0; m++)
            rc = ts_kept_check_one(path, was, is, (enum ts_kept_id)i, m, err);
    return rc;
}
