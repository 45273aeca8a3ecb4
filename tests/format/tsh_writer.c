/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the files of a tensor from its description in docs/format.md. */
#include "tests/format/tsh_writer.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <lz4.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"

/* A file in memory. */
struct bytes {
    uint8_t *byte;
    size_t n, room;
};

static void put(struct bytes *b, const void *from, size_t n)
{
    if (b->n + n >= b->room) {
        b->room = 2 * (b->n + n) + 64;
        b->byte = realloc(b->byte, b->room);
        assert(b->byte != NULL);
    }
    memcpy(b->byte + b->n, from, n);
    b->n += n;
}

static void pad(struct bytes *b, size_t unit)
{
    const uint8_t zero = 0;
    while (b->n % unit != 0)
        put(b, &zero, 1);
}

static void store(const char *dir, const char *name, struct bytes *b)
{
    char path[4096];
    FILE *out;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    out = fopen(path, "wb");
    assert(out != NULL);
    assert(b->n == 0 || fwrite(b->byte, b->n, 1, out) == 1);
    assert(fclose(out) == 0);
    free(b->byte);
    *b = (struct bytes){ 0 };
}

static int by_value(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* The distinct values, ascending. */
static uint32_t distinct(const struct test_coo *x, double *ret)
{
    uint32_t n = 0;
    memcpy(ret, x->val, x->nnz * sizeof *ret);
    qsort(ret, x->nnz, sizeof *ret, by_value);
    for (uint64_t i = 0; i < x->nnz; i++)
        if (n == 0 || ret[i] != ret[n - 1])
            ret[n++] = ret[i];
    return n;
}

static void describe_values(const struct test_coo *x, uint32_t kind, const double *dict,
                            uint32_t n_dict, struct ts_disk_header *h)
{
    double sum = 0;
    uint64_t *count = calloc(n_dict, sizeof *count);
    for (uint64_t i = 0; i < x->nnz; i++) {
        const double *at = bsearch(&x->val[i], dict, n_dict, sizeof *dict, by_value);
        count[at - dict]++;
        sum += x->val[i] * x->val[i];
    }
    for (uint32_t i = 0; i < n_dict; i++)
        h->value_bits -=
            (double)count[i] / (double)x->nnz * log2((double)count[i] / (double)x->nnz);
    if (n_dict == 1)
        h->value_bits = 0;
    free(count);
    h->norm = isfinite(sum) ? sqrt(sum)
                            : 1; /* a test may want what no builder writes: see that it is found */
    h->value_kind = kind;
    h->value_bytes = kind == TS_VALUE_F64 ? 8 : 4;
    h->value_min = dict[0];
    h->value_max = dict[n_dict - (isfinite(dict[n_dict - 1]) ? 1 : 2)];
    h->value_base = kind == TS_VALUE_CONST || kind == TS_VALUE_INT ? dict[0] : 0;
    h->n_dict = kind == TS_VALUE_DICT ? n_dict : 0;
}

static void encode_values(const struct test_coo *x, const struct ts_disk_header *h,
                          const double *dict, uint32_t *code[2])
{
    for (uint64_t i = 0; i < x->nnz; i++) {
        const float single = (float)x->val[i];
        uint64_t bits;
        memcpy(&bits, &x->val[i], 8);
        code[0][i] = (uint32_t)(bits >> 32);
        code[1][i] = (uint32_t)bits;
        if (h->value_kind == TS_VALUE_INT)
            code[0][i] = (uint32_t)(x->val[i] - h->value_base);
        else if (h->value_kind == TS_VALUE_F32)
            memcpy(&code[0][i], &single, 4);
        else if (h->value_kind == TS_VALUE_DICT)
            code[0][i] = (uint32_t)((const double *)bsearch(&x->val[i], dict, h->n_dict,
                                                            sizeof *dict, by_value) -
                                    dict);
        else if (h->value_kind == TS_VALUE_CONST)
            code[0][i] = 0;
        if (x->weight != NULL)
            memcpy(&code[1][i], &x->weight[i], 4);
    }
}

uint64_t test_tsh_index(const struct test_tsh_conf *conf, uint32_t mode, uint64_t row)
{
    const uint64_t s = conf->stretch;
    return s == 0 ? row : s * row + ts_mix(row ^ (uint64_t)mode << 32) % s;
}

static void write_rows(const char *dir, const struct test_tsh_conf *conf, uint32_t mode,
                       struct ts_disk_mode *d)
{
    struct ts_disk_rows h = {
        .version = TS_FORMAT_VERSION, .mode = mode, .n_rows = d->n_rows, .dim = d->dim
    };
    struct bytes b = { 0 };
    char name[32];
    memcpy(h.magic, TS_ROWS_MAGIC, 8);
    put(&b, &h, sizeof h);
    for (uint64_t row = 0; row < d->n_rows; row += TS_ROWS_CHUNK) {
        const uint64_t end = row + TS_ROWS_CHUNK < d->n_rows ? row + TS_ROWS_CHUNK : d->n_rows;
        uint64_t head[2] = { test_tsh_index(conf, mode, row), 0 };
        uint8_t gaps[TS_ROWS_CHUNK * 5 + 8] = { 0 };
        size_t bit = 0;
        for (uint64_t i = row + 1; i < end; i++) {
            const uint64_t gap =
                test_tsh_index(conf, mode, i) - test_tsh_index(conf, mode, i - 1) - 1;
            while (gap >> head[1] != 0)
                head[1]++;
        }
        for (uint64_t i = row + 1; i < end; i++) {
            const uint64_t gap =
                test_tsh_index(conf, mode, i) - test_tsh_index(conf, mode, i - 1) - 1;
            for (uint64_t k = 0; k < head[1]; k++, bit++)
                gaps[bit / 8] |= (uint8_t)((gap >> k & 1) << bit % 8);
        }
        put(&b, head, sizeof head);
        put(&b, gaps, (bit + 63) / 64 * 8);
    }
    d->rows_bytes = b.n;
    d->rows_hash = XXH3_64bits(b.byte, b.n);
    snprintf(name, sizeof name, "mode%" PRIu32 ".rows", mode + 1);
    store(dir, name, &b);
}

static void write_labels(const char *dir, uint32_t mode, int labels, struct ts_disk_mode *d)
{
    struct ts_disk_labels h = { .version = TS_FORMAT_VERSION, .mode = mode, .n_labels = d->dim };
    struct bytes b = { 0 };
    char name[32];
    memcpy(h.magic, TS_LABELS_MAGIC, 8);
    put(&b, &h, sizeof h);
    for (uint64_t i = 0; i < d->dim; i++) {
        char line[64];
        put(&b, line,
            (size_t)snprintf(line, sizeof line, "%" PRIu32 "/%" PRIu64 "\n", mode + 1, i));
    }
    for (int i = 1; i < labels; i++)
        put(&b, "\n", 1);
    b.n -= labels < 0;
    h.text_bytes = b.n - sizeof h;
    memcpy(b.byte, &h, sizeof h);
    d->labels_bytes = b.n;
    d->labels_hash = XXH3_64bits(b.byte, b.n);
    d->n_labels = d->dim;
    snprintf(name, sizeof name, "mode%" PRIu32 ".labels", mode + 1);
    store(dir, name, &b);
}

static uint64_t largest_slice(const struct test_coo *x, uint32_t mode)
{
    uint64_t *count = calloc(x->dim[mode], sizeof *count), largest = 0;
    for (uint64_t i = 0; i < x->nnz; i++)
        if (++count[x->idx[mode][i]] > largest)
            largest = count[x->idx[mode][i]];
    free(count);
    return largest;
}

/* Appends one shard to `file` and its entry to `table`. */
static void write_shard(const struct test_coo *x, const struct test_tsh_conf *conf,
                        const struct ts_disk_mode *d, uint32_t *const code[2], uint64_t first,
                        uint32_t nnz, struct bytes *file, struct bytes *table,
                        struct ts_disk_header *h)
{
    const uint32_t n_codes = ts_header_codes(h);
    const uint32_t *level[TS_MAX_ORDER], *codes[2] = { code[0] + first, code[1] + first };
    uint8_t *raw = malloc(ts_shard_bound(x->order, n_codes, nnz));
    struct ts_disk_shard s;
    for (uint32_t l = 0; l < x->order; l++)
        level[l] = x->idx[d->level[l]] + first;
    ts_shard_pack(x->order, n_codes, nnz, level, codes, raw, &s);
    s.offset = file->n;
    if (conf->lz4) {
        char *packed = malloc(s.raw_bytes);
        const int n =
            LZ4_compress_default((char *)raw, packed, (int)s.raw_bytes, (int)s.raw_bytes - 1);
        if (n > 0) {
            memcpy(raw, packed, (size_t)n);
            s.stored_bytes = (uint32_t)n;
            s.flags = TS_SHARD_LZ4;
        }
        free(packed);
    }
    put(file, raw, s.stored_bytes);
    pad(file, TS_PAGE);
    s.hash = XXH3_64bits(file->byte + s.offset, file->n - s.offset);
    h->max_shard_bytes = s.raw_bytes > h->max_shard_bytes ? s.raw_bytes : h->max_shard_bytes;
    put(table, &s, sizeof s);
    free(raw);
}

/* Appends the shard table of a mode to `tables`. */
static void write_mode(const char *dir, struct test_coo *x, const struct test_tsh_conf *conf,
                       uint32_t mode, const double *dict, struct ts_disk_header *h,
                       struct ts_disk_mode *d, struct bytes *tables)
{
    const uint64_t most =
        conf->shard_partitions > 0 ? conf->shard_partitions * TS_PARTITION_NNZ : x->nnz;
    uint32_t *code[2] = { malloc(4 * x->nnz), malloc(4 * x->nnz) };
    struct bytes file = { 0 };
    char name[32];
    d->n_rows = x->dim[mode];
    d->dim = conf->stretch > 0 ? conf->stretch * d->n_rows + 1 : d->n_rows;
    d->largest_slice = largest_slice(x, mode);
    for (uint32_t l = 0; l < x->order; l++)
        d->level[l] = (uint8_t)((mode + l) % x->order);
    test_coo_sort(x, d->level);
    encode_values(x, h, dict, code);
    for (uint64_t first = 0; first < x->nnz; first += most, d->n_shards++)
        write_shard(x, conf, d, code, first,
                    (uint32_t)(x->nnz - first < most ? x->nnz - first : most), &file, tables, h);
    d->shards_bytes = file.n;
    snprintf(name, sizeof name, "mode%" PRIu32 ".shards", mode + 1);
    store(dir, name, &file);
    if (d->dim != d->n_rows)
        write_rows(dir, conf, mode, d);
    if (conf->labels)
        write_labels(dir, mode, conf->labels, d);
    free(code[0]);
    free(code[1]);
}

void test_tsh_write(const char *dir, struct test_coo *x, const struct test_tsh_conf *conf)
{
    struct ts_disk_header h = { .version = TS_FORMAT_VERSION,
                                .order = x->order,
                                .nnz = x->nnz,
                                .block_nnz = TS_BLOCK_NNZ,
                                .input_nnz = x->nnz,
                                .partition_blocks = TS_PARTITION_BLOCKS };
    struct ts_disk_mode d[TS_MAX_ORDER] = { { 0 } };
    double *dict = malloc(x->nnz * sizeof *dict);
    const uint32_t n_dict = distinct(x, dict);
    struct bytes index = { 0 }, tables = { 0 };
    uint64_t hash;
    assert(mkdir(dir, 0777) == 0);
    if (x->weight != NULL) {
        h.version = TS_FORMAT_WEIGHTS;
        h.flags = TS_TENSOR_WEIGHTS;
    }
    memcpy(h.magic, TS_INDEX_MAGIC, 8);
    describe_values(x, conf->kind, dict, n_dict, &h);
    for (uint32_t m = 0; m < x->order; m++)
        write_mode(dir, x, conf, m, dict, &h, &d[m], &tables);
    h.index_bytes = sizeof h + x->order * sizeof *d + h.n_dict * sizeof *dict + tables.n + 8;
    put(&index, &h, sizeof h);
    put(&index, d, x->order * sizeof *d);
    put(&index, dict, h.n_dict * sizeof *dict);
    put(&index, tables.byte, tables.n);
    hash = XXH3_64bits(index.byte, index.n);
    put(&index, &hash, sizeof hash);
    store(dir, TS_INDEX_NAME, &index);
    free(tables.byte);
    free(dict);
}

void test_tsh_remove(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    char path[4096];
    while (d != NULL && (entry = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        unlink(path);
    }
    if (d != NULL)
        closedir(d);
    rmdir(dir);
}

char *test_tsh_tmp(void)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/tsh-test-XXXXXX", base == NULL ? "/tmp" : base);
    assert(mkdtemp(path) != NULL);
    return strdup(path);
}
