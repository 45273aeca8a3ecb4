/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: the bytes of a tensor directory, after their checksums. Those are made right here, so
 * that the fuzzer reaches what they guard.
 *
 * The first byte of an input says what the rest is:
 *   I  an index (its size and final checksum are put right)
 *   S  order, codes (u8 each), nnz (u16), first and last row, rows of each mode (u32): a raw shard
 *   B  order, codes, nonzeros (u8 each), a byte: one block
 *   R  rows (u32), size of the mode (u64): a rows file
 *   L  labels (u32): a labels file
 *   Z  raw bytes (u32): an LZ4 shard
 *   T, M, G, D  files beside an index, and names (fuzz_files.h)
 * What a check accepts is then decoded, and must lie in the bounds that the check promised.
 */
#include <sys/mman.h>

#include "base/machine/isa.h"
#include "format/blocks/unpack.h"
#include "format/shard.h"
#include "format/tensor.h"
#include "format/tensor_index.h"
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_files.h"

static void fuzz_index(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_exact(data, size);
    struct ts_tensor t;
    struct ts_err err;
    memset(&t, 0, sizeof t);
    if (size >= 32) {
        const uint64_t n = size, hash_at = size - 8;
        uint64_t hash;
        memcpy(bytes + 16, &n, 8);
        hash = XXH3_64bits(bytes, hash_at);
        memcpy(bytes + hash_at, &hash, 8);
    }
    if (ts_tensor_index_parse(bytes, size, "index", &t, &err) == 0) {
        MUST(ts_tensor_entropy_bound(&t) >= 0);
        for (uint32_t m = 0; m < t.order; m++)
            for (uint64_t s = 0; s < t.mode[m].disk.n_shards; s++)
                MUST(t.mode[m].shard[s].raw_bytes <= t.header.max_shard_bytes);
    }
    ts_tensor_index_free(&t);
    free(bytes);
}

static void decode_shard(const struct ts_disk_shard *s, const void *raw, uint32_t order,
                         uint32_t n_codes, uint64_t n_rows)
{
    static struct ts_block_parts parts;
    static struct ts_block block;
    uint64_t nnz = 0;
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        MUST(ts_shard_decode(s, raw, b, order, n_codes, &parts, &block, NULL) == 0);
        for (uint32_t l = 0; l < order; l++)
            for (uint32_t p = 0; p < block.n; p++)
                MUST(block.level[l][p] < n_rows);
        nnz += block.n;
    }
    MUST(nnz == s->nnz);
}

static void fuzz_shard(const uint8_t *data, size_t size)
{
    const uint32_t order = 2 + fuzz_take(&data, &size, 1) % 15,
                   n_codes = fuzz_take(&data, &size, 1) % 3;
    struct ts_disk_shard s = { .nnz = (uint32_t)fuzz_take(&data, &size, 2) };
    uint64_t n_rows[TS_MAX_ORDER], rows;
    struct ts_err err;
    void *raw;
    s.row_first = (uint32_t)fuzz_take(&data, &size, 4);
    s.row_last = (uint32_t)fuzz_take(&data, &size, 4);
    rows = fuzz_take(&data, &size, 4);
    for (uint32_t l = 0; l < order; l++)
        n_rows[l] = rows;
    s.n_blocks = s.nnz / TS_BLOCK_NNZ + (s.nnz % TS_BLOCK_NNZ != 0);
    s.raw_bytes = s.stored_bytes = (uint32_t)size;
    raw = fuzz_exact(data, size);
    if (ts_shard_check(&s, raw, order, n_codes, n_rows, 0, "shard", &err) == 0)
        decode_shard(&s, raw, order, n_codes, rows);
    free(raw);
}

/* Every decoder that this machine can run gives what the obvious one gives, for whatever block a
 * check accepts: encoders write few of the blocks that are possible. */
static void fuzz_unpack(const uint32_t *word, const struct ts_block_parts *parts,
                        const struct ts_block *want, uint32_t n_codes)
{
    static ts_unpack_fn *const fn[] = { ts_unpack_portable,
#ifdef __x86_64__
                                        ts_unpack_avx2, ts_unpack_avx512
#endif
    };
    static const enum ts_isa isa[] = { TS_ISA_PORTABLE, TS_ISA_AVX2, TS_ISA_AVX512 };
    static const uint32_t kind[] = { TS_VALUE_CONST, TS_VALUE_INT, TS_VALUE_F64 };
    static struct ts_unpacked got;
    const struct ts_unpack_conf conf = {
        .order = parts->n_levels, .n_codes = n_codes, .value_kind = kind[n_codes], .as_double = 1
    };
    const struct ts_tensor t = { .header = { .value_kind = kind[n_codes] } };
    const uint32_t leaf = parts->n_levels - 1, bytes = 4 * parts->n_words;
    uint8_t *copy = malloc(bytes + TS_SHARD_SLACK);
    const struct ts_block_at at = { (const uint32_t *)copy, parts->n_words, parts->n, 7 };
    memcpy(copy, word, bytes);
    memset(copy + bytes, 0xa5, TS_SHARD_SLACK);
    for (size_t i = 0; i < sizeof fn / sizeof fn[0]; i++) {
        if (!ts_isa_here(isa[i]))
            continue;
        fn[i](&conf, &at, &got);
        MUST(got.n == want->n && got.row == want->level[0][0]);
        for (uint32_t p = 0, row = got.row, start = 0; p < want->n; p++) {
            const uint32_t in_fibre = got.shared ? got.idx[0][p] : p;
            const double value = ts_tensor_value(&t, n_codes > 0 ? want->code[0][p] : 0,
                                                 n_codes > 1 ? want->code[1][p] : 0);
            if (start < got.n_starts && got.start[start] == p) {
                row++;
                start++;
            }
            MUST(row == want->level[0][p]);
            MUST(memcmp(&got.value.d[p], &value, sizeof value) == 0 || value != value);
            MUST(got.idx[leaf][p] == want->level[leaf][p]);
            for (uint32_t l = 1; l < leaf; l++)
                MUST(got.idx[l][in_fibre] == want->level[l][p]);
        }
    }
    free(copy);
}

static void fuzz_block(const uint8_t *data, size_t size)
{
    const uint32_t order = 2 + fuzz_take(&data, &size, 1) % 15,
                   n_codes = fuzz_take(&data, &size, 1) % 3;
    const uint32_t n = 1 + (uint32_t)fuzz_take(&data, &size, 1);
    static struct ts_block_parts parts;
    static struct ts_block block;
    static uint32_t again[TS_BLOCK_MAX_WORDS];
    uint32_t *word;
    (void)fuzz_take(&data, &size, 1);
    word = fuzz_exact(data, size);
    if (ts_block_parse(word, (uint32_t)(size / 4), order, n, n_codes, &parts, NULL) == 0) {
        const uint32_t *level[TS_MAX_ORDER], *code[2] = { block.code[0], block.code[1] };
        struct ts_block_parts parts2;
        static struct ts_block block2;
        uint32_t n_words;
        ts_block_decode(&parts, 7, &block);
        fuzz_unpack(word, &parts, &block, n_codes);
        for (uint32_t l = 0; l < order; l++)
            level[l] = block.level[l];
        n_words = ts_block_encode(order, n, level, n_codes, code, again);
        MUST(n_words <= TS_BLOCK_MAX_WORDS);
        MUST(ts_block_parse(again, n_words, order, n, n_codes, &parts2, NULL) == 0);
        ts_block_decode(&parts2, 7, &block2);
        for (uint32_t l = 0; l < order; l++)
            MUST(memcmp(block.level[l], block2.level[l], 4 * n) == 0);
        for (uint32_t c = 0; c < n_codes; c++)
            MUST(memcmp(block.code[c], block2.code[c], 4 * n) == 0);
    }
    free(word);
}

/* A file without a name that holds the bytes; `path` gets one to open it by. */
static int memory_file(const uint8_t *data, size_t size, char *path, size_t room)
{
    const int fd = memfd_create("fuzz", 0);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

static void fuzz_rows(const uint8_t *data, size_t size)
{
    struct ts_tensor t = { .order = 2 };
    struct ts_mode *m = &t.mode[1];
    char path[64];
    uint64_t *rows = NULL;
    struct ts_err err;
    int fd;
    m->disk.n_rows = fuzz_take(&data, &size, 4);
    m->disk.dim = fuzz_take(&data, &size, 8);
    if (m->disk.n_rows == 0 || size == 0 || m->disk.dim == 0 || m->disk.dim > TS_MAX_DIM)
        return;
    fd = memory_file(data, size, path, sizeof path);
    m->rows_path = path;
    m->rows_fd = fd;
    m->disk.rows_bytes = size;
    m->disk.rows_hash = XXH3_64bits(data, size);
    if (ts_tensor_rows(&t, 1, &rows, &err) == 0)
        for (uint64_t i = 0; i < m->disk.n_rows; i++)
            MUST(rows[i] < m->disk.dim && (i == 0 || rows[i] > rows[i - 1]));
    free(rows);
    close(fd);
}

static void fuzz_labels(const uint8_t *data, size_t size)
{
    struct ts_tensor t = { .order = 2 };
    struct ts_mode *m = &t.mode[1];
    const uint64_t index[4] = { 0, 1, 1, 5 };
    char path[64], *name[4];
    struct ts_err err;
    int fd;
    m->disk.n_labels = fuzz_take(&data, &size, 4);
    if (size < sizeof(struct ts_disk_labels)) /* opening refuses it */
        return;
    fd = memory_file(data, size, path, sizeof path);
    m->labels_path = path;
    m->labels_fd = fd;
    m->disk.labels_bytes = size;
    m->disk.labels_hash = XXH3_64bits(data, size);
    if (ts_tensor_labels(&t, 1, 4, index, name, &err) == 0)
        for (int i = 0; i < 4; i++) {
            MUST((name[i] != NULL) == (index[i] < m->disk.n_labels));
            free(name[i]);
        }
    close(fd);
}

static void fuzz_lz4(const uint8_t *data, size_t size)
{
    struct ts_disk_shard s = { .flags = TS_SHARD_LZ4 };
    struct ts_tensor t = { .order = 2 };
    struct ts_err err;
    uint8_t *stored, *raw;
    s.raw_bytes = (uint32_t)fuzz_take(&data, &size, 4) % (1u << 16) + 1;
    s.stored_bytes = (uint32_t)size;
    stored = calloc(1, (size + TS_PAGE - 1) / TS_PAGE * TS_PAGE + 1);
    raw = malloc(s.raw_bytes);
    memcpy(stored, data, size);
    s.hash = XXH3_64bits(stored, (size + TS_PAGE - 1) / TS_PAGE * TS_PAGE);
    t.mode[0].shard = &s;
    t.mode[0].shards_path = "shards";
    (void)ts_tensor_unpack_shard(&t, 0, 0, stored, raw, &err);
    free(stored);
    free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        char name;
        void (*run)(const uint8_t *data, size_t size);
    } target[] = {
        { 'I', fuzz_index },       { 'S', fuzz_shard },       { 'B', fuzz_block },
        { 'R', fuzz_rows },        { 'L', fuzz_labels },      { 'Z', fuzz_lz4 },
        { 'M', fuzz_map },         { 'T', fuzz_tensor_file }, { 'G', fuzz_name_list },
        { 'D', fuzz_array_index },
    };
    const uint64_t what = fuzz_take(&data, &size, 1);
    for (size_t i = 0; i < sizeof target / sizeof *target; i++)
        if (what == (uint64_t)target[i].name)
            target[i].run(data, size);
    return 0;
}
