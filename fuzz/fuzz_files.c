/* SPDX-License-Identifier: BSD-3-Clause */
/* Files beside the index of a tensor, as commands read them, and names. */
#include "fuzz/fuzz_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>

#include "build/kept_text.h"
#include "build/write/label_write.h"
#include "format/arrays/array_index.h"
#include "format/mode_names.h"
#include "format/part.h"
#include "format/row_names.h"
#include "format/tensor_kind.h"
#include "format/tensor_sums.h"
#include "fuzz/fuzz.h"
#include "source/names/name_list.h"

/* ---- a tensor of which one file is the input ---- */

#define N_FILES 5
#define LABELS  3
static const char *const file_name[N_FILES] = { "t.tsh/modes", "t.tsh/part", "t.tsh/sums",
                                                "t.tsh/mode1.labels", "t.tsh/options" };
static uint8_t *golden_index, *golden_labels;
static size_t n_golden_index, n_golden_labels;

static void copy_tensor(void)
{
    static const char *const name[] = { "index",        "mode1.labels", "mode1.rows",
                                        "mode1.shards", "mode2.labels", "mode2.rows",
                                        "mode2.shards", "mode3.labels", "mode3.rows",
                                        "mode3.shards" };
    if (golden_index != NULL)
        return;
    fuzz_folder();
    MUST(mkdir(fuzz_at("t.tsh"), 0700) == 0);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char from[512], to[64];
        uint8_t *bytes;
        size_t n;
        snprintf(from, sizeof from, "%s/%s", FUZZ_LABELLED, name[i]);
        snprintf(to, sizeof to, "t.tsh/%s", name[i]);
        bytes = fuzz_read(from, &n);
        fuzz_write(fuzz_at(to), bytes, n);
        free(bytes);
    }
    golden_index = fuzz_read(fuzz_at("t.tsh/index"), &n_golden_index);
    golden_labels = fuzz_read(fuzz_at("t.tsh/mode1.labels"), &n_golden_labels);
}

/* What a file says of the index that it belongs to, and its own checksum. */
static void put_right(int kind, uint8_t *file, size_t size)
{
    uint64_t hash;
    memcpy(&hash, golden_index + n_golden_index - sizeof hash, sizeof hash);
    if (kind == 0 && size >= sizeof(struct ts_disk_modes) + sizeof hash) {
        struct ts_disk_modes h;
        memcpy(&h, file, sizeof h);
        h.index_hash = hash;
        h.text_bytes = size - sizeof h - sizeof hash;
        memcpy(file, &h, sizeof h);
        fuzz_seal(file, size, 0, size - sizeof hash);
    } else if (kind == 2 && size >= sizeof(struct ts_disk_sums)) {
        struct ts_disk_sums s;
        memcpy(&s, file, sizeof s);
        s.index_hash = hash;
        memcpy(file, &s, sizeof s);
        fuzz_seal(file, size, 0, offsetof(struct ts_disk_sums, hash));
    } else if (kind == 4 && size >= sizeof(struct ts_disk_kept) + sizeof hash) {
        struct ts_disk_kept h;
        memcpy(&h, file, sizeof h);
        h.index_hash = hash;
        h.text_bytes = size - sizeof h - sizeof hash;
        memcpy(file, &h, sizeof h);
        fuzz_seal(file, size, 0, size - sizeof hash);
    }
}

/* The index that a file of labels belongs to. */
static void index_of_labels(const uint8_t *file, size_t size)
{
    uint8_t *index = fuzz_exact(golden_index, n_golden_index);
    const size_t at = sizeof(struct ts_disk_header);
    struct ts_disk_mode m;
    struct ts_disk_labels h = { .n_labels = 0 };
    memcpy(&m, index + at, sizeof m);
    memcpy(&h, file, size < sizeof h ? size : sizeof h);
    m.labels_bytes = size;
    m.labels_hash = XXH3_64bits(file, size);
    m.n_labels = h.n_labels;
    memcpy(index + at, &m, sizeof m);
    fuzz_seal(index, n_golden_index, 0, n_golden_index - sizeof(uint64_t));
    fuzz_write(fuzz_at("t.tsh/index"), index, n_golden_index);
    free(index);
}

static void check_names(const struct ts_tensor *t)
{
    MUST(ts_tensor_base(t) <= 1);
    for (uint32_t m = 0; m <= t->order; m++) {
        const char *name = m < t->order ? ts_tensor_mode_name(t, m) : ts_tensor_value_name(t);
        const size_t n = name == NULL ? 1 : strlen(name);
        MUST(n > 0 && n <= TS_MODE_NAME_MAX);
        MUST(name == NULL || strchr(name, '\n') == NULL);
    }
}

/* Options that are read are one line each, become the same bytes again, and are taken over or
 * refused. */
static void check_kept(const struct ts_tensor *t)
{
    struct ts_build_options o = { .value_bytes = 4 };
    struct ts_table_plan plan = { .separator = ',' };
    struct ts_kept k, copy;
    struct ts_err err;
    const uint32_t mode[TS_MAX_ORDER] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    int rc = ts_kept_read(t, &k, &err);
    MUST(rc >= 0 || err.text[0] != '\0');
    if (rc <= 0)
        return;
    MUST(ts_kept_copy(&k, t->order, mode, &copy, &err) == 0);
    MUST(ts_kept_check(t->path, &k, &copy, &err) == 0 || k.unknown != NULL);
    rc = ts_kept_adopt(&k, 0, &o, &plan, &err);
    MUST(rc == 0 || (rc == TS_EARG && err.text[0] != '\0'));
    ts_kept_free(&copy);
    ts_kept_free(&k);
}

/* Shards that are said to be here can be read, and others are refused with a sentence. */
static void check_part(const struct ts_tensor *t)
{
    void *raw = malloc(ts_tensor_raw_bytes(t));
    struct ts_err err;
    MUST(raw != NULL && (t->part.n == 0 || (t->part.part >= 1 && t->part.part <= t->part.n)));
    for (uint32_t m = 0; m < t->order && t->part.n > 0; m++)
        for (uint64_t s = 0; s < t->mode[m].disk.n_shards; s++) {
            const int rc = ts_part_check(t, m, s, &err);
            MUST(rc == 0 || err.text[0] != '\0');
            MUST(rc < 0 || ts_tensor_read_shard(t, m, s, raw, &err) == 0);
        }
    free(raw);
}

/* Whether a string has these bytes, and U+FFFD where they are 0. */
static int is_string(const char *bytes, size_t n, const char *string)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\0' && strncmp(string, "\xef\xbf\xbd", 3) == 0)
            string += 3;
        else if (bytes[i] == '\0' || *string++ != bytes[i])
            return 0;
    }
    return *string == '\0';
}

/* The labels of all indices of mode 0 within some memory; a hash of them, 0: refused. */
static uint64_t labels_within(const struct ts_tensor *t, uint64_t n, uint64_t bytes, char **want)
{
    const struct ts_row_names_conf conf = {
        .tensor = t, .labels = 1, .threads = 1, .bytes = bytes, .tmp = fuzz_dir
    };
    struct ts_row_names *r = NULL;
    struct ts_err err;
    uint64_t hash = 1;
    int rc = ts_row_names_open(&conf, &r, &err);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        const char *label = NULL;
        size_t len = 0;
        rc = ts_row_label(r, 0, 0, i, &label, &len, &err);
        if (rc < 0)
            break;
        MUST(want == NULL || (label == NULL) == (want[i] == NULL));
        MUST(want == NULL || label == NULL || is_string(label, len, want[i]));
        hash = hash * 31 + (label == NULL ? 0 : XXH3_64bits(label, len));
    }
    MUST(rc == 0 || err.text[0] != '\0');
    ts_row_names_close(r);
    return rc < 0 ? 0 : hash;
}

/* Whatever reads labels reads the same ones. */
static void check_labels(const struct ts_tensor *t)
{
    const uint64_t n = t->mode[0].disk.dim < 64 ? t->mode[0].disk.dim : 64;
    uint64_t index[64];
    char *name[64];
    struct ts_err err;
    struct ts_row_names_conf conf = { .tensor = t, .labels = 1, .threads = 1, .tmp = fuzz_dir };
    int rc;
    for (uint64_t i = 0; i < n; i++)
        index[i] = i;
    rc = ts_tensor_labels(t, 0, n, index, name, &err);
    if (ts_tensor_labels_lines(t, 0, &err) == 0)
        MUST(rc == 0);
    else
        MUST(err.text[0] != '\0');
    const uint64_t most = labels_within(t, n, ts_row_names_most(&conf), rc == 0 ? name : NULL);
    const uint64_t least = labels_within(t, n, ts_row_names_least(&conf), rc == 0 ? name : NULL);
    MUST(most == least);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        MUST((name[i] != NULL) == (i < t->mode[0].disk.n_labels));
        free(name[i]);
    }
}

void fuzz_tensor_file(const uint8_t *data, size_t size)
{
    const uint64_t which = fuzz_take(&data, &size, 1);
    const int kind = (int)(which & 127) % N_FILES;
    uint8_t *own = fuzz_exact(data, size);
    struct ts_tensor *t = NULL;
    struct ts_tensor_sums sums;
    struct ts_err err = { 0 };
    int rc;
    copy_tensor();
    if (which & 128)
        put_right(kind, own, size);
    if (kind == LABELS)
        index_of_labels(own, size);
    fuzz_write(fuzz_at(file_name[kind]), own, size);
    free(own);
    rc = ts_tensor_open(fuzz_at("t.tsh"), &t, &err);
    MUST(rc == 0 || (err.code == rc && err.text[0] != '\0'));
    if (rc == 0) {
        check_names(t);
        check_part(t);
        check_kept(t);
        rc = ts_tensor_sums_read(t, &sums, &err);
        MUST(rc >= 0 || err.text[0] != '\0');
        MUST(rc <= 0 || sums.cells.n == t->nnz);
        if (kind == LABELS && t->mode[0].disk.labels_bytes > 0)
            check_labels(t);
    }
    ts_tensor_close(t);
    if (kind == LABELS) {
        fuzz_write(fuzz_at(file_name[LABELS]), golden_labels, n_golden_labels);
        fuzz_write(fuzz_at("t.tsh/index"), golden_index, n_golden_index);
    } else {
        MUST(unlink(fuzz_at(file_name[kind])) == 0);
    }
}

/* ---- a file of names ---- */

/* What was written are the lines of a file of labels, each ended, without a NUL byte. */
static void check_written(const char *path, uint64_t n_labels, uint64_t bytes, uint64_t hash)
{
    size_t n;
    uint8_t *file = fuzz_read(path, &n);
    struct ts_disk_labels h;
    uint64_t lines = 0;
    MUST(n == bytes && n >= sizeof h && XXH3_64bits(file, n) == hash);
    memcpy(&h, file, sizeof h);
    MUST(h.n_labels == n_labels && h.text_bytes == n - sizeof h && h.mode == 1);
    for (size_t i = sizeof h; i < n; i++) {
        MUST(file[i] != '\0');
        lines += file[i] == '\n';
    }
    MUST(lines == n_labels && (n == sizeof h || file[n - 1] == '\n'));
    free(file);
}

void fuzz_map(const uint8_t *data, size_t size)
{
    const uint64_t dim = fuzz_take(&data, &size, 1);
    const int partial = (int)fuzz_take(&data, &size, 1) & 1;
    uint64_t n_labels = 0, bytes = 0, hash = 0;
    struct ts_err err = { 0 };
    const char *from, *to;
    int rc, fit;
    fuzz_folder();
    from = fuzz_at("names");
    to = fuzz_at("labels");
    fuzz_write(from, data, size);
    fit = ts_label_check(from, 1, dim, partial, fuzz_dir, NULL, &err);
    MUST(fit == 0 || (err.code == fit && err.text[0] != '\0'));
    rc = ts_label_write(from, to, 1, NULL, &n_labels, &bytes, &hash, &err);
    MUST(rc == 0 || (err.code == rc && err.text[0] != '\0'));
    if (rc == 0) {
        check_written(to, n_labels, bytes, hash);
        MUST(fit < 0 || partial || n_labels == 0 || n_labels == dim);
    }
    MUST(unlink(from) == 0 && (unlink(to) == 0 || errno == ENOENT));
}

/* ---- names that are numbered ---- */

#define MOST_NAMES 4096

struct names {
    const uint8_t *at[MOST_NAMES]; /* different ones, in the order of their numbers */
    uint32_t n[MOST_NAMES], label;
};

/* Labels come in the order of the indices. */
static int take_label(void *arg, uint32_t mode, const char *name, uint32_t n, struct ts_err *err)
{
    struct names *s = arg;
    (void)err;
    MUST(mode == 0 && s->label < MOST_NAMES);
    s->at[s->label] = fuzz_exact((const uint8_t *)name, n);
    s->n[s->label++] = n;
    return 0;
}

static int order_of(const uint8_t *a, uint32_t n_a, const uint8_t *b, uint32_t n_b)
{
    const int c = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return c != 0 ? c : n_a < n_b ? -1 : n_a > n_b;
}

/* Each index is that of a label of these bytes; first seen, or sorted, is what the labels are. */
static void check_numbers(struct ts_name_list *l, const struct names *s, const uint8_t *data,
                          size_t size, int sorted)
{
    const uint8_t *end = data + size;
    uint64_t seen = 0, index;
    struct ts_err err;
    MUST(ts_name_list_count(l) == s->label);
    for (uint32_t i = 1; i < s->label && sorted; i++)
        MUST(order_of(s->at[i - 1], s->n[i - 1], s->at[i], s->n[i]) < 0);
    while (data < end) {
        const uint8_t *stop = memchr(data, '\n', (size_t)(end - data));
        const uint32_t n = (uint32_t)((stop == NULL ? end : stop) - data);
        if (n <= TS_STRING_MAX) {
            MUST(ts_name_list_next(l, &index, 1, &err) == 0 && index < s->label);
            MUST(n == s->n[index] && memcmp(data, s->at[index], n) == 0);
            MUST(sorted || index <= seen);
            seen += index == seen;
        }
        data += n + 1;
    }
    MUST(sorted || seen == s->label);
}

void fuzz_name_list(const uint8_t *data, size_t size)
{
    const int sorted = (int)fuzz_take(&data, &size, 1) & 1;
    const size_t piece = fuzz_take(&data, &size, 1) + 1;
    struct names s = { .label = 0 };
    const struct ts_names_conf conf = { .sorted = sorted,
                                        .bytes = UINT64_C(1) << 20,
                                        .tmp = "/tmp",
                                        .label = take_label,
                                        .label_arg = &s };
    const uint8_t *at = data, *end = data + size;
    char *text = malloc(size + (size + 1) * TS_STRING_HEAD), *to = text;
    struct ts_name_list *l = NULL;
    struct ts_err err;
    MUST(text != NULL && ts_name_list_new(&conf, &l, &err) == 0);
    while (at < end) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        const uint32_t n = (uint32_t)((stop == NULL ? end : stop) - at);
        if (n <= TS_STRING_MAX)
            to = ts_string_put(to, (const char *)at, n, 0);
        at += n + 1;
    }
    for (char *from = text; from < to; from += piece)
        MUST(ts_name_list_add(l, from, (size_t)(to - from) < piece ? (size_t)(to - from) : piece,
                              &err) == 0);
    MUST(ts_name_list_end(l, &err) == 0);
    check_numbers(l, &s, data, size, sorted);
    ts_name_list_free(l);
    for (uint32_t i = 0; i < s.label; i++)
        free((void *)(uintptr_t)s.at[i]);
    free(text);
}

/* ---- the index of a dense array ---- */

#define CELLS 24 /* float64, 2 x 3 x 4 */

static void write_array(void)
{
    char head[128];
    double cell[CELLS];
    const int n = snprintf(head + 10, sizeof head - 10, "%s",
                           "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3, 4), }");
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(head + 10 + n, ' ', sizeof head - 10 - (size_t)n);
    head[sizeof head - 1] = '\n';
    for (int i = 0; i < CELLS; i++)
        cell[i] = i == 7 ? NAN : i - 5;
    fuzz_write(fuzz_at("a.npy"), head, sizeof head);
    FILE *f = fopen(fuzz_at("a.npy"), "ab");
    MUST(f != NULL && fwrite(cell, sizeof cell, 1, f) == 1 && fclose(f) == 0);
}

void fuzz_array_index(const uint8_t *data, size_t size)
{
    const uint64_t right = fuzz_take(&data, &size, 1) & 128;
    uint8_t *own = fuzz_exact(data, size);
    struct ts_tensor *t = NULL;
    struct ts_err err = { 0 };
    int rc;
    if (fuzz_dir[0] == '\0' || access(fuzz_at("a.npy"), F_OK) != 0) {
        fuzz_folder();
        write_array();
    }
    if (right && size >= sizeof(uint64_t))
        fuzz_seal(own, size, 0, size - sizeof(uint64_t));
    fuzz_write(fuzz_at("a.npy.index"), own, size);
    free(own);
    rc = ts_tensor_open_any(fuzz_at("a.npy"), &t, &err);
    MUST(rc == 0 || (err.code == rc && err.text[0] != '\0'));
    if (rc == 0) {
        const struct ts_dense *d = t->dense;
        const struct ts_disk_header *h = &t->header;
        double cell[CELLS];
        MUST(d->scanned && d->sum != NULL && isfinite(h->norm) && h->norm >= 0);
        MUST(isfinite(h->value_min) && isfinite(h->value_max) && h->value_min <= h->value_max);
        MUST(d->n_unknown < d->cells && (d->n_unknown == 0 || d->first_unknown < d->cells));
        MUST(ts_dense_check_known(d, &err) == 0 || err.text[0] != '\0');
        MUST(d->n_slabs == 1 && ts_dense_slab_bytes(d, 0) == sizeof cell);
        MUST(pread(d->fd, cell, sizeof cell, (off_t)d->array.offset) == sizeof cell);
        MUST(ts_array_index_check(d, 0, cell, &err) == 0 || err.text[0] != '\0');
    }
    ts_tensor_close(t);
}
