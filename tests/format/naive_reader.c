/* SPDX-License-Identifier: BSD-3-Clause */
/* naive_reader - a second reader of .tsh directories, written from docs/format.md alone.
 *
 *     naive_reader DIR MODE         prints the copy of mode MODE (from 1): indices from 1, value
 *     naive_reader DIR MODE FILE    reads such text from FILE (- is standard input) instead, and
 *                                   fails when it is not the same nonzeros in the same order
 *
 * It shares no code with the project: when this program and the project disagree, one of them or
 * the page is wrong. It is slow on purpose: bits are taken one at a time, files are read whole.
 * Exit: 0 done, 1 refused or different. Needs liblz4 and libxxhash.
 */
#include <lz4.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

static const char *dir;

static void refuse(const char *what)
{
    fprintf(stderr, "naive_reader: %s: %s\n", dir, what);
    exit(1);
}

static void need(int holds, const char *what)
{
    if (!holds)
        refuse(what);
}

/* ---- numbers in bytes ---- */

static u64 number(const u8 *at, int n_bytes)
{
    u64 x = 0;
    for (int i = n_bytes - 1; i >= 0; i--)
        x = x * 256 + at[i];
    return x;
}

static u32 get32(const u8 *at)
{
    return (u32)number(at, 4);
}

static u64 get64(const u8 *at)
{
    return number(at, 8);
}

static double get_double(const u8 *at)
{
    const u64 bits = get64(at);
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

/* `width` bits from bit `from` of a bit string that starts at `at`. */
static u64 bits(const u8 *at, u64 from, u32 width)
{
    u64 x = 0;
    for (u32 i = 0; i < width; i++)
        x |= (u64)(at[(from + i) / 8] >> (from + i) % 8 & 1) << i;
    return x;
}

/* ---- files ---- */

struct file {
    u8 *at;
    u64 n;
};

static struct file load(const char *format, u32 mode)
{
    char name[40], path[4200];
    struct file f = { 0 };
    FILE *in;
    snprintf(name, sizeof name, format, mode + 1);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    in = fopen(path, "rb");
    need(in != NULL, path);
    for (;;) {
        size_t got;
        f.at = realloc(f.at, f.n + 65536);
        got = fread(f.at + f.n, 1, 65536, in);
        f.n += got;
        if (got == 0)
            break;
    }
    fclose(in);
    return f;
}

/* ---- index (section 2) ---- */

struct mode {
    u64 dim, n_rows, n_shards, shards_bytes, rows_bytes, rows_hash;
    const u8 *level, *shards; /* in the index */
    u64 *row;                 /* its rows */
};

static struct file idx;
static u32 version, order, value_kind, n_dict, n_codes, max_shard_bytes;
static u64 nnz;
static double value_base;
static const u8 *dict;
static struct mode modes[16];

static void read_mode(struct mode *m, const u8 *at, u32 number_of_it)
{
    u32 seen = 0;
    m->dim = get64(at);
    m->n_rows = get64(at + 8);
    m->n_shards = get64(at + 16);
    m->shards_bytes = get64(at + 24);
    m->rows_bytes = get64(at + 32);
    m->rows_hash = get64(at + 40);
    m->level = at + 80;
    need(m->dim >= 1 && m->dim <= (u64)1 << 40, "size of a mode");
    need(m->n_rows >= 1 && m->n_rows <= m->dim && m->n_rows <= nnz, "rows of a mode");
    need((m->rows_bytes == 0) == (m->n_rows == m->dim), "rows file there or not");
    for (u32 l = 0; l < order; l++) {
        need(m->level[l] < order, "levels");
        seen |= (u32)1 << m->level[l];
    }
    need(seen == ((u32)1 << order) - 1 && m->level[0] == number_of_it, "levels");
}

static void read_index(void)
{
    u64 at;
    idx = load("index", 0);
    need(idx.n >= 256 + 2 * 128 + 8, "index is too short");
    need(memcmp(idx.at, "TSHINDEX", 8) == 0, "magic");
    version = get32(idx.at + 8);
    need(version >= 1 && version <= 3, "version");
    need(get64(idx.at + 16) == idx.n, "size of the index");
    need(XXH3_64bits(idx.at, idx.n - 8) == get64(idx.at + idx.n - 8), "checksum of the index");
    need((get32(idx.at + 120) & (version == 3 ? ~7u : ~3u)) == (version == 3   ? 8u
                                                                : version == 2 ? 4u
                                                                               : 0u),
         "flags");
    order = get32(idx.at + 12);
    nnz = get64(idx.at + 24);
    value_base = get_double(idx.at + 40);
    value_kind = get32(idx.at + 72);
    n_dict = get32(idx.at + 80);
    max_shard_bytes = get32(idx.at + 92);
    need(order >= 2 && order <= 16, "order");
    need(nnz >= 1 && nnz <= (u64)1 << 40, "nnz");
    need(value_kind <= 4, "value kind");
    need(get32(idx.at + 84) == 256 && get32(idx.at + 88) == 64, "block size");
    n_codes = version == 3 || value_kind == 4 ? 2 : value_kind == 0 ? 0 : 1;
    need(version < 3 || (value_kind < 4 && get32(idx.at + 76) == 4), "values with weights");
    at = 256 + 128 * (u64)order;
    need(at + 8 <= idx.n && n_dict <= (idx.n - at - 8) / 8, "dictionary");
    dict = idx.at + at;
    at += 8 * (u64)n_dict;
    for (u32 m = 0; m < order; m++) {
        read_mode(&modes[m], idx.at + 256 + 128 * m, m);
        need(modes[m].n_shards <= (idx.n - at - 8) / 64, "shard tables");
        modes[m].shards = idx.at + at;
        at += 64 * modes[m].n_shards;
    }
    need(at + 8 == idx.n, "tables do not fill the index");
}

/* ---- rows (section 5) ---- */

static void read_rows(u32 m)
{
    struct mode *mode = &modes[m];
    struct file f;
    u64 at = 32, least = 0;
    if (mode->rows_bytes == 0)
        return;
    f = load("mode%u.rows", m);
    need(f.n == mode->rows_bytes && XXH3_64bits(f.at, f.n) == mode->rows_hash, "a rows file");
    need(f.n >= 32 && memcmp(f.at, "TSHROWS1", 8) == 0 && get32(f.at + 8) == 1 &&
             get32(f.at + 12) == m && get64(f.at + 16) == mode->n_rows &&
             get64(f.at + 24) == mode->dim,
         "header of a rows file");
    need(mode->n_rows / 256 <= f.n / 16, "a rows file");
    mode->row = malloc(8 * mode->n_rows);
    for (u64 r = 0; r < mode->n_rows; r += 256) {
        const u64 n = mode->n_rows - r < 256 ? mode->n_rows - r : 256;
        u64 index, width, bytes;
        need(at + 16 <= f.n, "a rows file");
        index = get64(f.at + at);
        width = get64(f.at + at + 8);
        need(width <= 40, "width in a rows file");
        bytes = ((n - 1) * width + 63) / 64 * 8;
        need(at + 16 + bytes <= f.n, "a rows file");
        for (u64 i = 0; i < n; i++) {
            if (i > 0)
                index += bits(f.at + at + 16, (i - 1) * width, (u32)width) + 1;
            need(index >= least && index < mode->dim, "an index in a rows file");
            mode->row[r + i] = index;
            least = index + 1;
        }
        at += 16 + bytes;
    }
    need(at == f.n, "end of a rows file");
    free(f.at);
}

/* ---- blocks (section 4) ---- */

struct stream {
    u32 n, width, exc_width, n_exc, base_width;
    u32 entry[256];
};

struct block {
    u32 n;
    u32 index[16][256]; /* by level */
    u32 code[2][256];
};

/* Decodes the block at `at`, n_bytes long. */
static void read_block(const u8 *at, u64 n_bytes, u32 n, u32 row, struct block *out)
{
    static struct stream stream[32];
    static u8 flag[16][257];
    const u32 L = order - 1, n_streams = 2 * L + n_codes;
    u64 head = 4 * ((L + 3) / 4), word = head + 4 * n_streams, side = 0;
    const u8 *bitmap;

    need(word <= n_bytes, "a block is too short");
    memset(flag, 0, sizeof flag);
    memset(flag[L], 1, n);
    bitmap = at + word;
    for (u32 l = 0; l < L; l++) {
        need((at[l] & 7) <= 4, "kind of flags");
        word += (at[l] & 7) == 4 ? 32 : 0;
    }
    need(word <= n_bytes, "a bitmap");

    /* The lists of flags lie behind the streams, whose lengths follow from the number of flags: so
     * count first. */
    u32 count[16];
    for (u32 l = 0, k = 0; l < L; l++) {
        const u32 kind = at[l] & 7, listed = at[l] >> 3;
        need(kind == 2 || kind == 3 ? listed < n : listed == 0, "count of flags");
        count[l] = kind == 0 ? 0 : kind == 1 ? n - 1 : kind == 2 ? listed : n - 1 - listed;
        if (kind == 4) {
            count[l] = 0;
            for (u32 p = 1; p < 256; p++) {
                flag[l][p] = (u8)bits(bitmap + 32 * k, p, 1);
                need(p < n || !flag[l][p], "flags behind the block");
                count[l] += flag[l][p];
            }
            need(bits(bitmap + 32 * k, 0, 1) == (l > 0), "flag of the first nonzero");
            k++;
        }
    }
    count[L] = n - 1;
    for (u32 s = 0; s < n_streams; s++) {
        struct stream *t = &stream[s];
        const u32 d = get32(at + head + 4 * s), l = s / 2 + 1;
        const u32 n_abs = s < 2 * L ? 1 + count[l - 1] : 0;
        t->width = d & 63;
        t->exc_width = d >> 6 & 63;
        t->n_exc = d >> 12 & 255;
        t->base_width = d >> 20 & 63;
        need(d >> 26 == 0 && t->width + t->exc_width <= 32 && t->base_width <= 32, "a width");
        need(s >= 2 * L || count[l] + 1 >= n_abs, "fewer flags than above");
        t->n = s >= 2 * L ? n : s % 2 == 0 ? n_abs : count[l] + 1 - n_abs;
        need(t->n_exc <= t->n && (t->n_exc == 0) == (t->exc_width == 0), "exceptions");
        need(word + ((u64)t->n * t->width + 31) / 32 * 4 <= n_bytes, "a stream");
        for (u32 i = 0; i < t->n; i++)
            t->entry[i] = (u32)bits(at + word, (u64)i * t->width, t->width);
        word += ((u64)t->n * t->width + 31) / 32 * 4;
    }

    /* side bits */
    at += word;
    n_bytes -= word;
    for (u32 l = 0; l < L; l++) {
        const u8 d = (at - word)[l];
        u32 last = 0;
        if ((d & 7) == 1 || (d & 7) == 3)
            memset(flag[l] + 1, 1, n - 1);
        for (u32 i = 0; ((d & 7) == 2 || (d & 7) == 3) && i < (u32)d >> 3; i++, side += 8) {
            need(side + 8 <= 8 * n_bytes, "positions of flags");
            const u32 p = (u32)bits(at, side, 8);
            need(p > last && p < n, "a position of a flag");
            flag[l][p] = (d & 7) == 2;
            last = p;
        }
    }
    for (u32 s = 0; s < n_streams; s++) {
        struct stream *t = &stream[s];
        const u64 pos = side + t->base_width, high = pos + 8 * t->n_exc;
        need(high + (u64)t->n_exc * t->exc_width <= 8 * n_bytes, "exceptions");
        const u32 base = (u32)bits(at, side, t->base_width);
        for (u32 i = 0; i < t->n; i++)
            t->entry[i] += base;
        for (u32 i = 0; i < t->n_exc; i++) {
            const u32 p = (u32)bits(at, pos + 8 * i, 8);
            need(p < t->n && (i == 0 || p > bits(at, pos + 8 * i - 8, 8)), "an exception");
            t->entry[p] += (u32)(bits(at, high + (u64)i * t->exc_width, t->exc_width) << t->width);
        }
        side = high + (u64)t->n_exc * t->exc_width;
    }
    need((side + 31) / 32 * 4 == n_bytes, "the parts do not fill the block");

    /* the formulas */
    out->n = n;
    for (u32 p = 0; p < n; p++)
        out->index[0][p] = row += p > 0 ? flag[0][p] : 0;
    for (u32 l = 1; l <= L; l++) {
        u32 a = 0, d = 0;
        for (u32 p = 0; p < n; p++) {
            need(p == 0 || !flag[l - 1][p] || flag[l][p], "a flag is missing");
            if (p == 0 || flag[l - 1][p])
                out->index[l][p] = stream[2 * l - 2].entry[a++];
            else if (flag[l][p])
                out->index[l][p] = out->index[l][p - 1] + stream[2 * l - 1].entry[d++];
            else
                out->index[l][p] = out->index[l][p - 1];
        }
    }
    for (u32 c = 0; c < n_codes; c++)
        memcpy(out->code[c], stream[2 * L + c].entry, 4 * n);
}

/* ---- what to do with a nonzero ---- */

static FILE *expected; /* NULL: print */

static double value_of(u32 code0, u32 code1)
{
    const u64 both = (u64)code0 << 32 | code1;
    float single;
    double x;
    switch (value_kind) {
    case 0:
        return value_base;
    case 1:
        return value_base + code0;
    case 2:
        need(code0 < n_dict, "a dictionary code");
        return get_double(dict + 8 * (u64)code0);
    case 3:
        memcpy(&single, &code0, 4);
        return single;
    default:
        memcpy(&x, &both, 8);
        return x;
    }
}

static void nonzero(const u64 *index, double value, u32 code1)
{
    float weight;
    const int is_single = get32(idx.at + 76) == 4;
    char line[1000], *at = line;
    memcpy(&weight, &code1, 4);
    need(version < 3 || (weight >= 0 && weight - weight == 0 && code1 >> 31 == 0), "a weight");
    if (expected == NULL) {
        for (u32 m = 0; m < order; m++)
            printf("%llu ", (unsigned long long)index[m] + 1);
        printf("%.*g", is_single ? 9 : 17, value);
        if (version == 3)
            printf(" %.9g", weight);
        printf("\n");
        return;
    }
    need(fgets(line, sizeof line, expected) != NULL, "the text has fewer nonzeros");
    for (u32 m = 0; m < order; m++)
        need(strtoull(at, &at, 10) == index[m] + 1, "the text has another index");
    need(is_single ? strtof(at, &at) == (float)value : strtod(at, &at) == value,
         "the text has another value");
    need(version < 3 || strtof(at, &at) == weight, "the text has another weight");
    need(*at == '\n', "the text has more on a line");
}

/* ---- shards (sections 2 and 3) ---- */

static void read_shard(const u8 *raw, u64 raw_bytes, const u8 *entry, const struct mode *mode)
{
    const u32 n = get32(entry + 24), n_blocks = get32(entry + 28);
    const u32 row_first = get32(entry + 32), row_last = get32(entry + 36);
    u32 row = row_first;
    u64 start = 8 * (u64)n_blocks + 4;
    static struct block b;
    need(start <= raw_bytes, "a shard is too short");
    for (u32 i = 0; i < n_blocks; i++) {
        const u64 end = 4 * (u64)get32(raw + 4 * i + 4);
        const u32 in_block = i + 1 < n_blocks ? 256 : n - 256 * (n_blocks - 1);
        const u32 block_row = row_first + get32(raw + 4 * ((u64)n_blocks + 1 + i));
        need(4 * (u64)get32(raw + 4 * i) == start && end >= start && end <= raw_bytes,
             "block table");
        need(block_row - row <= (i > 0), "row of a block");
        read_block(raw + start, end - start, in_block, block_row, &b);
        for (u32 p = 0; p < b.n; p++) {
            u64 index[16];
            for (u32 l = 0; l < order; l++) {
                const struct mode *of = &modes[mode->level[l]];
                need(b.index[l][p] < of->n_rows, "an index");
                index[mode->level[l]] = of->row == NULL ? b.index[l][p] : of->row[b.index[l][p]];
            }
            nonzero(index, value_of(b.code[0][p], b.code[1][p]), b.code[1][p]);
        }
        row = b.index[0][b.n - 1];
        start = end;
    }
    need(start == raw_bytes && row == row_last, "end of a shard");
}

static void read_mode_copy(u32 m)
{
    const struct mode *mode = &modes[m];
    struct file f = load("mode%u.shards", m);
    u64 at = 0, seen = 0;
    need(f.n == mode->shards_bytes, "size of a shard file");
    for (u64 s = 0; s < mode->n_shards; s++) {
        const u8 *e = mode->shards + 64 * s, *before = s > 0 ? e - 64 : NULL;
        const u64 stored = get32(e + 16), raw_bytes = get32(e + 20);
        const u64 padded = (stored + 4095) / 4096 * 4096;
        const u32 n = get32(e + 24), flags = get32(e + 40);
        u8 *raw = f.at + at;
        need(get64(e) == at && padded <= f.n - at, "place of a shard");
        need(XXH3_64bits(raw, padded) == get64(e + 8), "checksum of a shard");
        need(n >= 1 && get32(e + 28) == (n - 1) / 256 + 1, "blocks of a shard");
        need(n % 16384 == 0 || s + 1 == mode->n_shards, "a shard without whole partitions");
        need(raw_bytes % 4 == 0 && raw_bytes <= max_shard_bytes && flags <= 1, "size of a shard");
        need(before == NULL ? get32(e + 32) == 0 : get32(e + 32) - get32(before + 36) <= 1,
             "first row of a shard");
        if (flags == 1) {
            raw = malloc(raw_bytes);
            need(LZ4_decompress_safe((char *)f.at + at, (char *)raw, (int)stored, (int)raw_bytes) ==
                     (int)raw_bytes,
                 "LZ4");
        } else {
            need(stored == raw_bytes, "size of a shard");
        }
        read_shard(raw, raw_bytes, e, mode);
        if (flags == 1)
            free(raw);
        at += padded;
        seen += n;
    }
    need(at == f.n && seen == nnz, "end of a shard file");
    need(get32(mode->shards + 64 * mode->n_shards - 28) == mode->n_rows - 1, "last row");
    free(f.at);
}

int main(int argc, char **argv)
{
    char line[8];
    u32 mode;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: naive_reader DIR MODE [FILE]\n");
        return 2;
    }
    dir = argv[1];
    read_index();
    mode = (u32)atoi(argv[2]) - 1;
    need(mode < order, "no such mode");
    if (argc == 4) {
        expected = strcmp(argv[3], "-") == 0 ? stdin : fopen(argv[3], "r");
        need(expected != NULL, "no such text");
    }
    for (u32 m = 0; m < order; m++)
        read_rows(m);
    read_mode_copy(mode);
    need(expected == NULL || fgets(line, sizeof line, expected) == NULL,
         "the text has more nonzeros");
    for (u32 m = 0; m < order; m++)
        free(modes[m].row);
    free(idx.at);
    return fflush(stdout) != 0;
}
