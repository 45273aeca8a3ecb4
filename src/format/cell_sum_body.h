/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_sum_body.h - the loops of cell_sum.c, with vectors of TS_LANES numbers of 64 bits. A file
 * that includes this one defines
 *
 *   TS_SUM_NAME(x)        the name of a function in this instruction set
 *   TS_LANES, TS_VECTOR   the number of lanes of a vector, and its type
 *   LOAD, STORE, SET      load a vector, store one, and set all lanes to a number
 *   WIDEN(p)              a vector loaded from 32-bit numbers
 *   ADD, XOR, RIGHT       RIGHT(x, n) shifts to the right
 *   TIMES(x, y)           the low 64 bits of products
 *   LOW_TIMES(x, y)       the products of the low 32 bits; a single lane has LOW(x) instead
 *   LEFT_32(x)            x shifted to the left by 32
 *
 * This file undefines them at its end. The loops use explicit vectors because compilers do not
 * vectorise loops of unknown length at low optimisation levels. */

#define LANES ((uint32_t)TS_LANES)

/* The key of one field of cells (an index, the value or the weight) in every lane of a vector, and
 * its high 32 bits. */
struct TS_SUM_NAME(key) {
    TS_VECTOR all, high;
};

INLINE struct TS_SUM_NAME(key) TS_SUM_NAME(set_key)(uint64_t key)
{
    return (struct TS_SUM_NAME(key)){ SET(key), SET(key >> 32) };
}

/* A sum of products of keys and 32-bit numbers, as low + high * 2^32. Vector units multiply 32
 * bits faster than 64. */
struct TS_SUM_NAME(product) {
    TS_VECTOR low, high;
};

/* Adds the product of the key and the low 32 bits of x. */
INLINE void TS_SUM_NAME(add)(struct TS_SUM_NAME(product) * t, TS_VECTOR x,
                             const struct TS_SUM_NAME(key) * k)
{
#if TS_LANES == 1
    t->low += LOW(x) * k->all;
#else
    t->low = ADD(t->low, LOW_TIMES(x, k->all));
    t->high = ADD(t->high, LOW_TIMES(x, k->high));
#endif
}

INLINE TS_VECTOR TS_SUM_NAME(close)(const struct TS_SUM_NAME(product) * t)
{
    return ADD(t->low, LEFT_32(t->high));
}

/* The two factors with which hashes are mixed, and for each lane the sums of both words of its
 * cells' hashes. */
struct TS_SUM_NAME(words) {
    TS_VECTOR first, second, word[2];
};

INLINE struct TS_SUM_NAME(words) TS_SUM_NAME(no_words)(void)
{
    return (struct TS_SUM_NAME(
        words)){ SET(ts_mix(101) | 1), SET(ts_mix(102) | 1), { SET(0), SET(0) } };
}

INLINE void TS_SUM_NAME(add_words)(struct TS_SUM_NAME(words) * w, TS_VECTOR s)
{
    const TS_VECTOR x = TIMES(XOR(s, RIGHT(s, 32)), w->first), x2 = XOR(x, RIGHT(x, 29));
    const TS_VECTOR y = TIMES(x2, w->second);
    w->word[0] = ADD(w->word[0], x2);
    w->word[1] = ADD(w->word[1], XOR(y, RIGHT(y, 32)));
}

INLINE void TS_SUM_NAME(join_words)(const struct TS_SUM_NAME(words) * w, uint32_t n,
                                    struct ts_cell_sum *sum)
{
    uint64_t lane[2][LANES];
    STORE(lane[0], w->word[0]);
    STORE(lane[1], w->word[1]);
    sum->n += n;
    for (uint32_t i = 0; i < LANES; i++) {
        sum->word[0] += lane[0][i];
        sum->word[1] += lane[1][i];
    }
}

static void TS_SUM_NAME(term)(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key)
{
    const TS_VECTOR k = SET(key);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        STORE(s + i, ADD(LOAD(s + i), TIMES(LOAD(x + i), k)));
    for (; i < n; i++)
        s[i] += x[i] * key;
}

static void TS_SUM_NAME(weighted)(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key,
                                  uint64_t weight_key)
{
    const struct TS_SUM_NAME(key) value = TS_SUM_NAME(set_key)(key);
    const struct TS_SUM_NAME(key) weight = TS_SUM_NAME(set_key)(weight_key);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const TS_VECTOR both = LOAD(x + i);
        struct TS_SUM_NAME(product) t = { LOAD(s + i), SET(0) };
        TS_SUM_NAME(add)(&t, RIGHT(both, 32), &value);
        TS_SUM_NAME(add)(&t, both, &weight);
        STORE(s + i, TS_SUM_NAME(close)(&t));
    }
    for (; i < n; i++)
        s[i] += (x[i] >> 32) * key + (x[i] & UINT32_MAX) * weight_key;
}

static void TS_SUM_NAME(mix)(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum)
{
    const TS_VECTOR v = SET(more);
    struct TS_SUM_NAME(words) w = TS_SUM_NAME(no_words)();
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        TS_SUM_NAME(add_words)(&w, ADD(LOAD(s + i), v));
    TS_SUM_NAME(join_words)(&w, i, sum);
    for (; i < n; i++)
        ts_cell_sum_add(sum, s[i] + more);
}

/* Sets s[p] to the product of the key and the row of nonzero p. Up to LANES - 1 numbers after the
 * last are written. */
INLINE void TS_SUM_NAME(spread_rows)(const struct ts_unpacked *u, uint64_t key, uint64_t *s)
{
    uint64_t row = u->row * key;
    uint32_t p = 0;
    for (uint32_t r = 0; r <= u->n_starts; r++, row += key) {
        const uint32_t end = r < u->n_starts ? u->start[r] : u->n;
        const TS_VECTOR v = SET(row);
        for (; p < end; p += LANES)
            STORE(s + p, v);
        p = end;
    }
}

/* Like spread_rows, for blocks with shared fibres: adds to s[p] the products of keys and indices
 * for all levels between the first one and the leaf. */
INLINE void TS_SUM_NAME(spread_fibres)(const struct ts_cell_sum_keys *k,
                                       const struct ts_unpacked *u, uint64_t *s)
{
    uint64_t fibre[TS_BLOCK_NNZ + LANES];
    const uint32_t leaf = k->order - 1;
    for (uint32_t f = 0; f < u->n_fibres; f += LANES) {
        struct TS_SUM_NAME(product) t = { SET(0), SET(0) };
        for (uint32_t l = 1; l < leaf; l++) {
            const struct TS_SUM_NAME(key) key = TS_SUM_NAME(set_key)(k->level[l]);
            TS_SUM_NAME(add)(&t, WIDEN(u->idx[l] + f), &key);
        }
        STORE(fibre + f, TS_SUM_NAME(close)(&t));
    }
    for (uint32_t p = 0; p < u->n; p++)
        s[p] += fibre[u->idx[0][p]];
}

/* Adds the cells of a decoded block to *sum. Its values hold the bits of the codes. */
static void TS_SUM_NAME(unpacked)(const struct ts_cell_sum_keys *k, const struct ts_unpacked *u,
                                  struct ts_cell_sum *sum)
{
    const uint32_t n = u->n, leaf = k->order - 1, first = u->shared ? leaf : 1;
    const uint32_t n_fields = k->order - first + k->n_codes;
    struct TS_SUM_NAME(words) w = TS_SUM_NAME(no_words)();
    struct TS_SUM_NAME(key) key[TS_MAX_ORDER + 2];
    const uint32_t *field[TS_MAX_ORDER + 2];
    uint64_t s[TS_BLOCK_NNZ + LANES];
    uint32_t p = 0;
    TS_SUM_NAME(spread_rows)(u, k->level[0], s);
    if (u->shared)
        TS_SUM_NAME(spread_fibres)(k, u, s);
    for (uint32_t f = 0; f < n_fields; f++) {
        const uint32_t l = first + f, c = l - k->order;
        const void *code = c == 0 ? (const void *)u->value.f : u->weight;
        field[f] = l < k->order ? u->idx[l] : code;
        key[f] = TS_SUM_NAME(set_key)(l < k->order ? k->level[l] : k->code[c]);
    }
    for (; p < n; p += LANES) {
        struct TS_SUM_NAME(product) t = { LOAD(s + p), SET(0) };
        for (uint32_t f = 0; f < n_fields; f++)
            TS_SUM_NAME(add)(&t, WIDEN(field[f] + p), &key[f]);
        if (p + LANES > n) {
            STORE(s + p, TS_SUM_NAME(close)(&t));
            break;
        }
        TS_SUM_NAME(add_words)(&w, TS_SUM_NAME(close)(&t));
    }
    TS_SUM_NAME(join_words)(&w, p, sum);
    for (; p < n; p++)
        ts_cell_sum_add(sum, s[p]);
}

#undef LANES
#undef TS_SUM_NAME
#undef TS_LANES
#undef TS_VECTOR
#undef LOAD
#undef STORE
#undef SET
#undef WIDEN
#undef ADD
#undef XOR
#undef RIGHT
#undef TIMES
#undef LOW
#undef LOW_TIMES
#undef LEFT_32
