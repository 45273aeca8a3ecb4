/* SPDX-License-Identifier: BSD-3-Clause */
/* Has the names of settings, and replaces marks in messages by these names. */
#include "base/setting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTENCE_CHARS 2048u
#define WORD_CHARS     40u /* most bytes of a number or an option in a message */

/* For each mark the names by enum ts_words: a field, a keyword, an option. Words after the first
 * one are values or parts of the message. Settings that only tshard has are named with the
 * program. */
static const struct setting {
    const char *mark, *name[3];
} settings[] = {
    { TS_SET_RANK, { "rank", "rank", "--rank" } },
    { TS_SET_PRECISION, { "precision", "precision", "--precision" } },
    { TS_SET_SWEEPS, { "sweeps", "sweeps", "--iters" } },
    { TS_SET_ACCELERATE, { "accelerate", "accelerate", "--accelerate" } },
    { TS_SET_NONNEG, { "nonneg", "nonneg", "--nonneg" } },
    { TS_SET_OBSERVED, { "observed", "observed", "--observed" } },
    { TS_SET_HOST_MEMORY, { "host_memory", "host_memory", "--host-memory" } },
    { TS_SET_GPU_MEMORY, { "gpu_memory", "gpu_memory", "--gpu-memory" } },
    { TS_SET_GPUS, { "gpus", "gpus", "--gpus" } },
    { TS_SET_CPU, { "cpu", "cpu", "--cpu" } },
    { TS_SET_THREADS, { "threads", "threads", "--threads" } },
    { TS_SET_TRACE, { "trace", "trace", "--trace" } },
    { TS_SET_OUT, { "out", "out", "--output" } },
    { TS_SET_OUTPUT, { "out", "out", "--output" } },
    { TS_SET_REPLACE, { "replace", "replace=True", "--force" } },
    { TS_SET_RESUME, { "resume for", "resume=True for", "--resume" } },
    { TS_SET_NO_LABELS, { "no_labels", "no_labels", "--no-labels" } },
    { TS_SET_ROWS_USED, { "held_rows", "rows='used'", "--rows used" } },
    { TS_SET_SAVE_INIT, { "save_init", "save_init", "--save-init" } },
    { TS_SET_MEMORY, { "memory", "memory", "--memory" } },
    { TS_SET_TMP, { "tmp", "tmp", "--tmp" } },
    { TS_SET_NO_SPACE_CHECK, { "no_space_check", "space_check=False", "--no-space-check" } },
    { TS_SET_SHARD, { "shard_bytes", "shard", "--shard" } },
    { TS_SET_CELLS_CSV, { "a table", "a table", "--cells csv" } },
    { TS_SET_SIZES, { "dim", "shape", "--dims" } },
    { TS_SET_BASE, { "first_index", "base", "--base" } },
    { TS_SET_FLOAT64, { "float64", "dtype='float64'", "--values float64" } },
    { TS_SET_LABELS, { "label", "labels", "--map" } },
    { TS_SET_NAMES, { "name", "modes", "--modes" } },
    { TS_SET_NO_DUPLICATES,
      { "TS_REFUSE_DUPLICATES", "duplicates='error'", "--duplicates error" } },
    { TS_SET_TRANSFORM, { "transform", "transform", "--transform" } },
    { TS_SET_KEEP_ZEROS, { "keep_zeros", "zeros='keep'", "--zeros keep" } },
    { TS_SET_REPEAT, { "repeat", "repeat=True", "--repeat" } },
    { TS_SET_PARTIAL_MAP, { "partial_map", "partial_map=True", "--partial-map" } },
    { TS_SET_FORMAT, { "tshard build --format", "separator", "--format" } },
    { TS_SET_FORMAT_CSV, { "tshard build --format csv", "separator=','", "--format csv" } },
    { TS_SET_FORMAT_SEMICOLON,
      { "tshard build --format csv --separator ';'", "separator=';'",
        "--format csv --separator ';'" } },
    { TS_SET_SEPARATOR, { "separator", "separator", "--separator" } },
    { TS_SET_QUOTE_NONE, { "no_quotes", "quote='none'", "--quote none" } },
    { TS_SET_DECIMAL_COMMA, { "decimal_comma", "decimal=','", "--decimal ," } },
    { TS_SET_COLUMNS, { "column", "columns", "--columns" } },
    { TS_SET_VALUE, { "value", "value", "--value" } },
    { TS_SET_WEIGHTS, { "tshard build --weights", "weights", "--weights" } },
    { TS_SET_HEADER, { "header", "header", "--header" } },
    { TS_SET_TEXT, { "text", "text", "--text" } },
    { TS_SET_BIN, { "bin", "bin", "--bin" } },
    { TS_SET_TIME_UNIT, { "time_unit", "time_unit", "--time-unit" } },
    { TS_SET_SKIP_MISSING, { "skip_missing", "missing='skip'", "--missing skip" } },
};

/* ---- rows of settings.def ---- */

#define SETTING(member, option, ...) option,
static const char *const options[] = {
#include "base/settings.def"
};
#define N_OPTIONS (sizeof options / sizeof *options)

uint32_t ts_setting_row(const char *const *first, uint32_t i)
{
    uint32_t n_first = 0, n_others = 0;
    while (first[n_first] != NULL)
        n_first++;
    for (uint32_t row = 0; row < N_OPTIONS; row++) {
        uint32_t at = 0;
        while (at < n_first && strcmp(first[at], options[row]) != 0)
            at++;
        if (at == n_first)
            at += n_others++;
        if (at == i)
            return row;
    }
    return TS_NO_SETTING;
}

/* ---- replacing marks in messages ---- */

static atomic_int spoken = TS_WORDS_FIELDS;

void ts_setting_words(enum ts_words words)
{
    atomic_store_explicit(&spoken, (int)words, memory_order_relaxed);
}

static const struct setting *find(const char *mark)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strncmp(mark, settings[i].mark, strlen(settings[i].mark)) == 0)
            return &settings[i];
    return NULL;
}

/* Replaces a mark in a message that the table does not have: TS_NTH by the number as the reader
 * counts it, or TS_SET_OPTION by the option. Returns the bytes of the mark; 0: another kind of
 * mark. */
static size_t write_word(const char *mark, int words, char ret[WORD_CHARS])
{
    const char *word = mark + 2;
    const size_t n = mark[1] == '#'   ? strspn(word, "0123456789")
                     : mark[1] == '=' ? strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-")
                                      : 0;
    if (n == 0 || n > WORD_CHARS - 3 || word[n] != TS_SET_MARK)
        return 0;
    if (mark[1] == '=')
        snprintf(ret, WORD_CHARS, "--%.*s", (int)n, word);
    else
        snprintf(ret, WORD_CHARS, "%" PRIu64,
                 (uint64_t)strtoull(word, NULL, 10) - (words == TS_WORDS_KEYWORDS));
    return n + 3;
}

void ts_setting_write(const char *text, char *ret, size_t room)
{
    const int words = atomic_load_explicit(&spoken, memory_order_relaxed);
    size_t n = 0;
    while (*text != '\0' && n + 1 < room) {
        char word[WORD_CHARS];
        const size_t own = *text == TS_SET_MARK ? write_word(text, words, word) : 0;
        const struct setting *s = *text == TS_SET_MARK ? find(text) : NULL;
        const char *from = own > 0 ? word : s != NULL ? s->name[words] : text;
        const size_t length = own > 0 || s != NULL ? strlen(from) : 1;
        const size_t put = length < room - 1 - n ? length : room - 1 - n;
        memcpy(ret + n, from, put);
        n += put;
        text += own > 0 ? own : s != NULL ? strlen(s->mark) : 1;
    }
    ret[n] = '\0';
}

void ts_setting_print(char *ret, size_t room, const char *fmt, ...)
{
    char text[SENTENCE_CHARS];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ts_setting_write(text, ret, room);
}
