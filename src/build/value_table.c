/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the distinct values of a tensor, and chooses the shortest code for them. */
#include "build/value_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define SMALL 4096u /* whole numbers 0..SMALL-1 are counted in an array, not in the hash table */
#define SLOTS (4 * TS_VALUE_TABLE_MAX)

struct ts_value_table {
    uint32_t value_bytes;
    uint32_t n;    /* number of slots of the hash table in use */
    uint32_t drop; /* only values whose hash begins with this many zero bits are counted */
    int whole;     /* 1: all values so far are whole numbers */
    double min, max;
    uint64_t small[SMALL];
    uint64_t bits[SLOTS], count[SLOTS]; /* hash table; count 0: a free slot */
};

int ts_value_table_new(uint32_t value_bytes, struct ts_value_table **ret, struct ts_err *err)
{
    struct ts_value_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for counting values");
    t->value_bytes = value_bytes;
    t->whole = 1;
    t->min = INFINITY;
    t->max = -INFINITY;
    *ret = t;
    return 0;
}

void ts_value_table_free(struct ts_value_table *t)
{
    free(t);
}

uint64_t ts_value_table_bytes(void)
{
    return sizeof(struct ts_value_table) + (TS_VALUE_TABLE_MAX + 1) * 2 * sizeof(uint64_t);
}

uint64_t ts_value_table_size(void)
{
    return sizeof(struct ts_value_table);
}

static int kept(uint64_t hash, uint32_t drop)
{
    return drop == 0 || hash >> (64 - drop) == 0;
}

/* Adds to the count of a value in the hash table. Does not check whether too many slots are in
 * use. */
static void count_value(struct ts_value_table *t, uint64_t bits, uint64_t hash, uint64_t count)
{
    uint32_t s = (uint32_t)hash % SLOTS;
    while (t->count[s] != 0 && t->bits[s] != bits)
        s = (s + 1) % SLOTS;
    t->n += t->count[s] == 0;
    t->bits[s] = bits;
    t->count[s] += count;
}

/* Keeps only values in the table whose hash begins with `drop` zero bits. If memory is missing,
 * returns -1 and keeps all values, because with no values the entropy would wrongly be 0. */
static int keep_fewer(struct ts_value_table *t, uint32_t drop)
{
    uint64_t *bits = malloc(t->n * sizeof *bits + 1), *count = malloc(t->n * sizeof *count + 1);
    uint32_t n = 0;
    if (bits == NULL || count == NULL) {
        free(bits);
        free(count);
        return -1;
    }
    t->drop = drop;
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (t->count[s] == 0 || !kept(ts_mix(t->bits[s]), drop))
            continue;
        bits[n] = t->bits[s];
        count[n++] = t->count[s];
    }
    memset(t->count, 0, sizeof t->count);
    t->n = 0;
    for (uint32_t i = 0; i < n; i++)
        count_value(t, bits[i], ts_mix(bits[i]), count[i]);
    free(bits);
    free(count);
    return 0;
}

/* Drops about half of the values in the table, repeatedly, until at most TS_VALUE_TABLE_MAX are
 * left. */
static void thin_out(struct ts_value_table *t)
{
    while (t->n > TS_VALUE_TABLE_MAX && keep_fewer(t, t->drop + 1) == 0)
        ;
}

void ts_value_table_add(struct ts_value_table *t, uint64_t bits)
{
    const double x = ts_value_of_bits(bits, t->value_bytes);
    uint64_t hash;
    if (x >= 0 && x < SMALL && x == (double)(uint32_t)x) {
        t->small[(uint32_t)x]++;
        return;
    }
    t->min = x < t->min ? x : t->min;
    t->max = x > t->max ? x : t->max;
    t->whole &= x == floor(x);
    hash = ts_mix(bits);
    if (!kept(hash, t->drop))
        return;
    count_value(t, bits, hash, 1);
    if (t->n > TS_VALUE_TABLE_MAX)
        thin_out(t);
}

void ts_value_table_merge(struct ts_value_table *t, const struct ts_value_table *from)
{
    t->min = from->min < t->min ? from->min : t->min;
    t->max = from->max > t->max ? from->max : t->max;
    t->whole &= from->whole;
    for (uint32_t i = 0; i < SMALL; i++)
        t->small[i] += from->small[i];
    /* then `from` has dropped values that *t still counts: drops them here, too */
    if (from->drop > t->drop)
        (void)keep_fewer(t, from->drop);
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (from->count[s] == 0 || !kept(ts_mix(from->bits[s]), t->drop))
            continue;
        count_value(t, from->bits[s], ts_mix(from->bits[s]), from->count[s]);
        if (t->n > TS_VALUE_TABLE_MAX)
            thin_out(t);
    }
}

/* ------------------------------------------------------------------ choosing the code */

struct counted {
    double value;
    uint64_t count;
};

static int by_value(const void *pa, const void *pb)
{
    const struct counted *a = pa, *b = pb;
    return a->value < b->value ? -1 : a->value > b->value;
}

/* Compares two values for qsort: the more frequent one comes first, because early values get small
 * codes, which take few bits. */
static int by_count(const void *pa, const void *pb)
{
    const struct counted *a = pa, *b = pb;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return by_value(pa, pb);
}

/* Lists all counted values in ascending order. */
static struct counted *list_values(const struct ts_value_table *t, uint32_t *n)
{
    struct counted *list = malloc((SMALL + (size_t)t->n + 1) * sizeof *list);
    *n = 0;
    if (list == NULL)
        return NULL;
    for (uint32_t i = 0; i < SMALL; i++)
        if (t->small[i] > 0)
            list[(*n)++] = (struct counted){ i, t->small[i] };
    for (uint32_t s = 0; s < SLOTS; s++)
        if (t->count[s] > 0)
            list[(*n)++] =
                (struct counted){ ts_value_of_bits(t->bits[s], t->value_bytes), t->count[s] };
    qsort(list, *n, sizeof *list, by_value);
    return list;
}

static double entropy_of(const struct ts_value_table *t, const struct counted *list, uint32_t n,
                         uint64_t nnz)
{
    const double scale = ldexp(1.0, (int)t->drop);
    double bits = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double x = list[i].value, p = (double)list[i].count / (double)nnz;
        const int exact = x >= 0 && x < SMALL && x == floor(x);
        bits -= p * log2(p) * (exact ? 1.0 : scale);
    }
    return bits > 0 ? bits : 0;
}

static uint32_t bit_length(uint64_t x)
{
    return x == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(x);
}

/* Returns the bits per nonzero that codes of values take as the block codec packs them: all with
 * one width, and longer codes as exceptions. share[w] is the fraction of codes with w bits. */
static double packed_bits(const double share[65])
{
    double best = INFINITY, longer = 0;
    uint32_t longest = 64;
    while (longest > 0 && share[longest] == 0)
        longest--;
    for (uint32_t w = longest + 1; w-- > 0;) {
        const double bits = w + longer * (8 + longest - w);
        best = bits < best ? bits : best;
        longer += share[w];
    }
    return best;
}

static double int_bits(const struct counted *list, uint32_t n, uint64_t nnz)
{
    double share[65] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        share[bit_length((uint64_t)(list[i].value - list[0].value))] +=
            (double)list[i].count / (double)nnz;
    return packed_bits(share);
}

static double dict_bits(const struct counted *by_freq, uint32_t n, uint64_t nnz)
{
    double share[65] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        share[bit_length(i)] += (double)by_freq[i].count / (double)nnz;
    return packed_bits(share);
}

static void fill_dict(struct ts_value_code *c, const struct counted *list, uint32_t n)
{
    const uint32_t slots = 4 * TS_VALUE_DICT_MAX;
    c->kind = TS_VALUE_DICT;
    c->n_dict = n;
    c->code_bits = bit_length(n - 1);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bits = ts_value_to_bits(list[i].value, c->value_bytes);
        uint32_t s = (uint32_t)ts_mix(bits) % slots;
        while (c->slot_code[s] != 0)
            s = (s + 1) % slots;
        c->slot_bits[s] = bits;
        c->slot_code[s] = i + 1;
        c->dict[i] = list[i].value;
    }
}

static void choose_kind(const struct ts_value_table *t, struct ts_value_code *c,
                        struct counted *list, uint32_t n, uint64_t nnz, uint32_t order)
{
    const double copies = (double)nnz * order, range = c->max - c->min;
    const int whole = t->whole && range < 0x1p32 && fabs(c->min) <= 0x1p53;
    const double plain = 8.0 * c->value_bytes;
    double best = plain;
    c->kind = c->value_bytes == 4 ? TS_VALUE_F32 : TS_VALUE_F64;
    c->code_bits = 8 * c->value_bytes;
    if (c->min == c->max) {
        c->kind = TS_VALUE_CONST;
        c->code_bits = 0;
        c->base = c->min;
        return;
    }
    if (whole) {
        best = t->drop == 0 ? int_bits(list, n, nnz) : bit_length((uint64_t)range);
        c->kind = TS_VALUE_INT;
        c->base = c->min;
        c->code_bits = bit_length((uint64_t)range);
    }
    if (t->drop > 0 || n > TS_VALUE_DICT_MAX)
        return;
    qsort(list, n, sizeof *list, by_count);
    /* a reader must look up each code in the dictionary, so it must save more than 5 % of the
     * bits */
    if (1.05 * (dict_bits(list, n, nnz) + 64.0 * n / copies) < best) {
        c->base = 0;
        fill_dict(c, list, n);
    }
}

int ts_value_table_choose(const struct ts_value_table *t, uint64_t nnz, uint32_t order,
                          struct ts_value_code **ret, struct ts_err *err)
{
    struct ts_value_code *c = calloc(1, sizeof *c);
    uint32_t n = 0;
    struct counted *list = c == NULL ? NULL : list_values(t, &n);
    if (list == NULL) {
        free(c);
        return ts_fail(err, TS_ENOMEM, "out of memory for counting values");
    }
    c->value_bytes = t->value_bytes;
    c->estimated = t->drop > 0;
    c->entropy = entropy_of(t, list, n, nnz);
    c->min = n > 0 && list[0].value < t->min ? list[0].value : t->min;
    c->max = n > 0 && list[n - 1].value > t->max ? list[n - 1].value : t->max;
    choose_kind(t, c, list, n, nnz, order);
    free(list);
    *ret = c;
    return 0;
}

uint64_t ts_value_code_of(const struct ts_value_code *c, uint64_t bits)
{
    const uint32_t slots = 4 * TS_VALUE_DICT_MAX;
    uint32_t s;
    switch (c->kind) {
    case TS_VALUE_CONST:
        return 0;
    case TS_VALUE_INT:
        return (uint64_t)(ts_value_of_bits(bits, c->value_bytes) - c->base);
    case TS_VALUE_DICT:
        for (s = (uint32_t)ts_mix(bits) % slots; c->slot_bits[s] != bits || c->slot_code[s] == 0;)
            s = (s + 1) % slots;
        return c->slot_code[s] - 1;
    default:
        return bits;
    }
}

double ts_value_code_value(const struct ts_value_code *c, uint64_t code)
{
    switch (c->kind) {
    case TS_VALUE_CONST:
        return c->base;
    case TS_VALUE_INT:
        return c->base + (double)code;
    case TS_VALUE_DICT:
        return c->dict[code];
    default:
        return ts_value_of_bits(code, c->value_bytes);
    }
}
