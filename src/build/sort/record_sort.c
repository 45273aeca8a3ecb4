/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorts records by a radix sort: distributes them by their leading bits to pieces of the array, and
 * then sorts each piece in the cache. */
#include "build/sort/record_sort.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "build/sort/record.h"

/* most bits by which records are distributed at once (a digit): 2048 destinations, few enough for
 * the second-level TLB with 4K pages */
#define MAX_DIGIT 11u
/* words of the largest range of records (512 KiB) that is sorted in the cache */
#define LOCAL_WORDS 65536u
/* words of the pieces into which the first digit should divide the array */
#define TARGET_WORDS  6144u
#define INSERTION_MAX 24u
#define STOP_PIECE    65536u /* records between two checks whether to stop */

/* The parameters of a sort. */
struct sort {
    uint64_t *array[2];
    uint32_t words, key_bits, bits, threads;
    uint64_t *own; /* buffer of LOCAL_WORDS words for one thread; NULL: the other array is used */
    const volatile sig_atomic_t *stop;
    /* grows by 1 for each record that is distributed, and again when its piece is sorted; or
     * NULL */
    _Atomic uint64_t *work;
};

static inline void count_work(const struct sort *s, uint64_t n)
{
    if (s->work != NULL)
        atomic_fetch_add_explicit(s->work, n, memory_order_relaxed);
}

/* A piece of an array: records at .. at + n - 1 of array[in], which are equal in all bits before
 * `bit`. */
struct piece {
    uint64_t at, n;
    uint32_t bit;
    int in;
};

/* A digit: the `width` bits of a record, in one word and at most MAX_DIGIT, by which records are
 * distributed at once. */
struct digit {
    uint32_t word, shift, mask, width;
};

/* Returns the digit that starts at bit `first` and has `width` bits, or fewer if bit `end` or the
 * end of the word comes before. */
static struct digit digit_at(uint32_t first, uint32_t width, uint32_t end)
{
    const uint32_t at = first % 64;
    struct digit d = { .word = first / 64 };
    width = width > end - first ? end - first : width;
    width = width > 64 - at ? 64 - at : width;
    d.width = width;
    d.shift = 64 - at - width;
    d.mask = (UINT32_C(1) << width) - 1;
    return d;
}

static inline uint32_t digit_of(const uint64_t *rec, struct digit d)
{
    return (uint32_t)(rec[d.word] >> d.shift) & d.mask;
}

static inline void copy_record(uint64_t *to, const uint64_t *from, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++)
        to[w] = from[w];
}

static void insertion_sort(uint64_t *a, uint64_t n, uint32_t words)
{
    uint64_t rec[TS_RECORD_WORDS];
    for (uint64_t i = 1; i < n; i++) {
        uint64_t j = i;
        if (ts_record_compare(a + (i - 1) * words, a + i * words, words) <= 0)
            continue;
        copy_record(rec, a + i * words, words);
        for (; j > 0 && ts_record_compare(a + (j - 1) * words, rec, words) > 0; j--)
            copy_record(a + j * words, a + (j - 1) * words, words);
        copy_record(a + j * words, rec, words);
    }
}

/* Distributes n records from `in` to `out` by a digit. Before the call, count[k] is the number of
 * records with digit k. After it, count[k] is the number of the first record in `out` that comes
 * after them. */
static inline __attribute__((always_inline)) void
deal(const uint64_t *in, uint64_t *out, uint64_t n, struct digit d, uint32_t words, uint32_t *count)
{
    uint32_t sum = 0;
    for (uint32_t k = 0; k <= d.mask; k++) {
        const uint32_t c = count[k];
        count[k] = sum;
        sum += c;
    }
    for (uint64_t i = 0; i < n; i++)
        copy_record(out + (size_t)words * count[digit_of(in + i * words, d)]++, in + i * words,
                    words);
}

/* Sorts n records (n below 2^32) of array[in] by bits [first, end), least significant digit first.
 * Returns which of the two arrays has the result. */
static inline __attribute__((always_inline)) int
sort_lsd(uint64_t *const array[2], int in, uint64_t n, uint32_t words, uint32_t first, uint32_t end)
{
    enum { DIGITS = 8 };
    const uint32_t size = n < 512 ? 6 : 8;
    uint32_t count[DIGITS][256];
    while (end > first) { /* reads the records once to count up to DIGITS digits */
        struct digit digit[DIGITS];
        uint32_t n_digits = 0;
        for (; n_digits < DIGITS && end > first; n_digits++) {
            uint32_t from = end - first > size ? end - size : first;
            if (from / 64 != (end - 1) / 64)
                from = (end - 1) / 64 * 64;
            digit[n_digits] = digit_at(from, end - from, end);
            memset(count[n_digits], 0, sizeof count[0] / 256 * (digit[n_digits].mask + 1));
            end = from;
        }
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n_digits; k++)
                count[k][digit_of(array[in] + i * words, digit[k])]++;
        for (uint32_t k = 0; k < n_digits; k++) {
            if (count[k][digit_of(array[in], digit[k])] == n)
                continue; /* all records have the same digit */
            deal(array[in], array[!in], n, digit[k], words, count[k]);
            in = !in;
        }
    }
    return in;
}

static int sort_local(uint64_t *const array[2], int in, uint64_t n, uint32_t words, uint32_t first,
                      uint32_t end)
{
    switch (words) {
    case 1:
        return sort_lsd(array, in, n, 1, first, end);
    case 2:
        return sort_lsd(array, in, n, 2, first, end);
    default:
        return sort_lsd(array, in, n, words, first, end);
    }
}

static void sort_piece(const struct sort *s, struct piece p, int to);

/* Sorts records of array[to] that have equal keys by the bits after the key. */
static void sort_ties(const struct sort *s, uint64_t at, uint64_t n, int to)
{
    const uint32_t last = (s->key_bits - 1) / 64;
    const uint64_t mask = s->key_bits % 64 == 0 ? UINT64_MAX : ~(UINT64_MAX >> s->key_bits % 64);
    const uint64_t *a = s->array[to] + at * s->words;
    uint64_t first = 0;
    for (uint64_t i = 1; i <= n; i++) {
        const uint64_t *x = a + (i - 1) * s->words, *y = a + i * s->words;
        if (i < n && ts_record_compare(x, y, last) == 0 && ((x[last] ^ y[last]) & mask) == 0)
            continue;
        if (i - first > 1) {
            const struct piece tie = { at + first, i - first, s->key_bits, to };
            sort_piece(s, tie, to);
        }
        first = i;
    }
}

/* Distributes a piece of the array, too large for the cache, by one digit, and sorts the resulting
 * pieces. */
static void split_piece(const struct sort *s, struct piece p, int to)
{
    const struct digit d = digit_at(p.bit, 8, s->bits);
    uint64_t end[256] = { 0 }, sum = 0;
    const uint64_t *in = s->array[p.in] + p.at * s->words;
    uint64_t *out = s->array[!p.in] + p.at * s->words;
    for (uint64_t i = 0; i < p.n; i++)
        end[digit_of(in + i * s->words, d)]++;
    for (uint32_t k = 0; k <= d.mask; k++) {
        const uint64_t c = end[k];
        end[k] = sum;
        sum += c;
    }
    for (uint64_t i = 0; i < p.n; i++)
        copy_record(out + s->words * end[digit_of(in + i * s->words, d)]++, in + i * s->words,
                    s->words);
    for (uint32_t k = 0; k <= d.mask; k++) {
        const uint64_t first = k == 0 ? 0 : end[k - 1];
        const struct piece part = { p.at + first, end[k] - first, p.bit + d.width, !p.in };
        if (part.n > 0)
            sort_piece(s, part, to);
    }
}

/* Sorts a piece of array[p.in] with one thread. The result is in array[to]. */
static void sort_piece(const struct sort *s, struct piece p, int to)
{
    uint64_t *array[2] = { s->array[0] + p.at * s->words, s->array[1] + p.at * s->words };
    const uint32_t end = p.bit < s->key_bits ? s->key_bits : s->bits;
    int in = p.in;
    if (ts_stop_asked(s->stop))
        return;
    if (p.n > INSERTION_MAX && p.n * s->words > LOCAL_WORDS && p.bit < s->bits) {
        split_piece(s, p, to);
        return;
    }
    if (s->own != NULL && p.in == to && p.n * s->words <= LOCAL_WORDS)
        array[!to] = s->own;
    if (p.n > INSERTION_MAX && p.bit < s->bits)
        in = sort_local(array, p.in, p.n, s->words, p.bit, end);
    if (in != to)
        memcpy(array[to], array[in], p.n * s->words * sizeof(uint64_t));
    if (p.n <= INSERTION_MAX)
        insertion_sort(array[to], p.n, s->words);
    else if (end < s->bits)
        sort_ties(s, p.at, p.n, to);
}

int ts_record_is_sorted(const uint64_t *a, uint64_t n, uint32_t words, uint32_t threads)
{
    int sorted = 1;
    /* in most unsorted arrays, two of the first records are out of order */
    for (uint64_t i = 1; i < n && i < 64; i++)
        if (ts_record_compare(a + (i - 1) * words, a + i * words, words) > 0)
            return 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(&& : sorted)
    for (uint64_t part = 0; part < 256; part++) {
        const uint64_t last = n * (part + 1) / 256;
        for (uint64_t i = n * part / 256; i < last; i++)
            if (i > 0 && ts_record_compare(a + (i - 1) * words, a + i * words, words) > 0) {
                sorted = 0;
                break;
            }
    }
    return sorted;
}

/* Distributes a large piece of the array by a digit, with all threads. Records with equal digits
 * keep their order. Sets end[k] to the end of the records with digit k, for k = 0 .. d.mask. count:
 * memory for a table of d.mask + 1 entries for each thread. */
static void split_parallel(const struct sort *s, struct piece p, struct digit d, uint64_t *count,
                           uint64_t *end)
{
    const uint32_t threads = s->threads, n_digits = d.mask + 1, words = s->words;
    const uint64_t *in = s->array[p.in] + p.at * words;
    uint64_t *out = s->array[!p.in] + p.at * words, sum = 0;
    memset(count, 0, (size_t)threads * n_digits * sizeof *count);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (uint32_t t = 0; t < threads; t++) {
        uint64_t *mine = count + (size_t)t * n_digits;
        const uint64_t last = p.n * (t + 1) / threads;
        for (uint64_t i = p.n * t / threads, end_i; i < last && !ts_stop_asked(s->stop);
             i = end_i) {
            end_i = last - i < STOP_PIECE ? last : i + STOP_PIECE;
            for (; i < end_i; i++)
                mine[digit_of(in + i * words, d)]++;
        }
    }
    for (uint32_t k = 0; k < n_digits; k++) {
        for (uint32_t t = 0; t < threads; t++) {
            const uint64_t c = count[(size_t)t * n_digits + k];
            count[(size_t)t * n_digits + k] = sum;
            sum += c;
        }
        end[k] = sum;
    }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (uint32_t t = 0; t < threads; t++) {
        uint64_t *mine = count + (size_t)t * n_digits;
        const uint64_t last = p.n * (t + 1) / threads;
        for (uint64_t i = p.n * t / threads, end_i; i < last && !ts_stop_asked(s->stop);
             i = end_i) {
            end_i = last - i < STOP_PIECE ? last : i + STOP_PIECE;
            if (p.bit == 0) /* only the first distribution counts as work */
                count_work(s, end_i - i);
            if (words == 1)
                for (; i < end_i; i++)
                    out[mine[digit_of(in + i, d)]++] = in[i];
            else
                for (; i < end_i; i++)
                    copy_record(out + words * mine[digit_of(in + i * words, d)]++, in + i * words,
                                words);
        }
    }
}

/* The pieces of the array that are not sorted yet. */
struct work {
    struct piece open[64], *list; /* open: pieces that all threads distribute; list: smaller ones */
    uint64_t n_open, n_list;
    uint64_t large;
    uint64_t *count, *end; /* tables of counts and of ends of pieces, for split_parallel */
};
#define LIST_ROOM (UINT64_C(64) << MAX_DIGIT)

static void free_work(struct work *w)
{
    free(w->list);
    free(w->count);
    free(w->end);
    memset(w, 0, sizeof *w);
}

static int new_work(struct work *w, uint64_t n, uint32_t threads)
{
    memset(w, 0, sizeof *w);
    w->large = n / (4 * (uint64_t)threads) + LOCAL_WORDS;
    w->list = malloc(LIST_ROOM * sizeof *w->list);
    w->count = malloc(((size_t)threads << MAX_DIGIT) * sizeof *w->count);
    w->end = malloc(sizeof *w->end << MAX_DIGIT);
    if (w->list != NULL && w->count != NULL && w->end != NULL)
        return 0;
    free_work(w);
    return -1;
}

/* Chooses the digit by which a piece of the array is distributed, wide enough that the resulting
 * pieces fit in the cache. */
static struct digit choose_digit(const struct sort *s, struct piece p)
{
    uint32_t width = 1;
    while (width < MAX_DIGIT && p.n * s->words >> width > TARGET_WORDS)
        width++;
    return digit_at(p.bit, width, s->bits);
}

/* Adds to w the pieces into which a piece was divided. They are in array[in], and piece k ends at
 * w->end[k]. When sorted, their records must be in array[to]. */
static void add_parts(const struct sort *s, struct work *w, struct piece p, struct digit d, int in,
                      int to)
{
    for (uint32_t k = 0; k <= d.mask; k++) {
        const uint64_t first = k == 0 ? 0 : w->end[k - 1];
        const struct piece part = { p.at + first, w->end[k] - first, p.bit + d.width, in };
        if (part.n == 0)
            continue;
        if (part.n > w->large && part.bit < s->bits && w->n_open < 64)
            w->open[w->n_open++] = part;
        else if (w->n_list < LIST_ROOM)
            w->list[w->n_list++] = part;
        else
            sort_piece(s, part, to);
    }
}

/* Sorts all pieces of the array that w lists. The result is in array[to]. */
static void do_work(const struct sort *s, struct work *w, int to)
{
    while (w->n_open > 0) {
        const struct piece p = w->open[--w->n_open];
        const struct digit d = choose_digit(s, p);
        if (ts_stop_asked(s->stop))
            return;
        split_parallel(s, p, d, w->count, w->end);
        add_parts(s, w, p, d, !p.in, to);
    }
#pragma omp parallel num_threads(s->threads)
    {
        struct sort mine = *s;
        mine.own = malloc(LOCAL_WORDS * sizeof *mine.own);
#pragma omp for schedule(dynamic, 1)
        for (uint64_t i = 0; i < w->n_list; i++) {
            sort_piece(&mine, w->list[i], to);
            count_work(s, w->list[i].n);
        }
        free(mine.own);
    }
}

uint64_t *ts_record_sort(uint64_t *a, uint64_t *scratch, uint64_t n, uint32_t words,
                         uint32_t key_bits, uint32_t bits, uint32_t threads,
                         const volatile sig_atomic_t *stop, _Atomic uint64_t *work)
{
    const struct sort s = { { a, scratch }, words, key_bits, bits, threads, NULL, stop, work };
    const struct piece whole = { 0, n, 0, 0 };
    struct work w;
    if (n < 2 || bits == 0 || ts_record_is_sorted(a, n, words, threads))
        return a;
    if (n * words <= LOCAL_WORDS || new_work(&w, n, threads) < 0) {
        sort_piece(&s, whole, 0);
        return a;
    }
    w.open[w.n_open++] = whole;
    do_work(&s, &w,
            /* the first distribution moves records to array[1], and the result is there, too */
            1);
    free_work(&w);
    return ts_stop_asked(stop) ? a : scratch;
}

/* ------------------------------------------------------------------ sort and convert */

#define CONVERT_PIECE 256u

/* Converts records to another layout and distributes them by a digit. Converts them twice: first to
 * count the digits, and then to move the records. */
static void split_converting(const struct sort *s, const struct ts_record_move *v, uint64_t n,
                             struct digit d, struct work *w)
{
    const uint32_t threads = s->threads, n_digits = d.mask + 1, words = s->words;
    struct ts_record_layout leading = *v->to; /* only the fields that the digit is in */
    uint64_t sum = 0;
    while (leading.n_fields > 1 && leading.start[leading.n_fields - 1] >= d.width)
        leading.n_fields--;
    memset(w->count, 0, (size_t)threads * n_digits * sizeof *w->count);
    for (int moving = 0; moving < 2; moving++) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (uint32_t t = 0; t < threads; t++) {
            uint64_t *mine = w->count + (size_t)t * n_digits, rec[CONVERT_PIECE * TS_RECORD_WORDS];
            uint64_t moved = 0;
            const uint64_t last = n * (t + 1) / threads;
            for (uint64_t first = n * t / threads; first < last && !ts_stop_asked(s->stop);
                 first += CONVERT_PIECE) {
                const uint64_t left = last - first;
                const uint64_t count = left < CONVERT_PIECE ? left : CONVERT_PIECE;
                ts_record_convert(v->from, v->in + first * v->from->words,
                                  moving ? v->to : &leading, v->source, rec, count);
                for (uint64_t i = 0; i < count && !moving; i++)
                    mine[digit_of(rec + i * words, d)]++;
                for (uint64_t i = 0; i < count && moving; i++)
                    copy_record(s->array[0] + words * mine[digit_of(rec + i * words, d)]++,
                                rec + i * words, words);
                moved += moving ? count : 0;
                if (moved >= STOP_PIECE || (moving && count == left)) {
                    count_work(s, moved);
                    moved = 0;
                }
            }
        }
        for (uint32_t k = 0; k < n_digits && !moving; k++) {
            for (uint32_t t = 0; t < threads; t++) {
                const uint64_t c = w->count[(size_t)t * n_digits + k];
                w->count[(size_t)t * n_digits + k] = sum;
                sum += c;
            }
            w->end[k] = sum;
        }
    }
}

/* Distributes a piece of array[0] in place by a digit of up to 8 bits, with one thread. A record is
 * put in its place, and the record that was there is moved next. Sets end[k] as split_parallel
 * does. */
static void split_in_place(const struct sort *s, struct piece p, struct digit d, uint64_t *end)
{
    uint64_t *a = s->array[0] + p.at * s->words, at[256] = { 0 }, sum = 0;
    for (uint64_t i = 0; i < p.n; i++)
        at[digit_of(a + i * s->words, d)]++;
    for (uint32_t k = 0; k <= d.mask; k++) {
        const uint64_t c = at[k];
        at[k] = sum;
        sum += c;
        end[k] = sum;
    }
    for (uint32_t k = 0; k <= d.mask; k++)
        while (at[k] < end[k] && !ts_stop_asked(s->stop)) {
            uint64_t *here = a + at[k] * s->words, rec[TS_RECORD_WORDS];
            uint32_t to = digit_of(here, d);
            if (to == k) {
                at[k]++;
                continue;
            }
            copy_record(rec, here, s->words);
            while (to != k) {
                uint64_t *there = a + at[to]++ * s->words, other[TS_RECORD_WORDS];
                copy_record(other, there, s->words);
                copy_record(there, rec, s->words);
                copy_record(rec, other, s->words);
                to = digit_of(rec, d);
            }
            copy_record(here, rec, s->words);
            at[k]++;
        }
}

/* Sorts a piece of array[0] with all threads. scratch must be as large as the piece. */
static void sort_shared(const struct sort *s, struct piece p, uint64_t *scratch)
{
    const struct sort sub = { { s->array[0] + p.at * s->words, scratch },
                              s->words,
                              s->key_bits,
                              s->bits,
                              s->threads,
                              NULL,
                              s->stop,
                              s->work };
    const struct piece whole = { 0, p.n, p.bit, 0 };
    struct work w;
    if (p.n * s->words <= LOCAL_WORDS || new_work(&w, p.n, s->threads) < 0) {
        sort_piece(&sub, whole, 0);
        return;
    }
    w.open[w.n_open++] = whole;
    do_work(&sub, &w, 0);
    free_work(&w);
}

/* A sort whose scratch memory is smaller than its records. */
struct tight {
    /* words: size of the scratch memory in words; share: words of it for each thread */
    uint64_t *scratch, words, share;
    struct piece *list; /* pieces of the array of at most `share` words */
    uint64_t n_list, room;
};

/* Sorts a piece of the array with all threads. If it has at most t->share words, puts it on the
 * list instead, for one thread to sort later. */
static void add_tight(const struct sort *s, struct tight *t, struct piece p)
{
    const uint64_t words = p.n * s->words;
    if (p.n < 2 || p.bit >= s->bits || ts_stop_asked(s->stop))
        return;
    if (words <= t->share && t->n_list < t->room) {
        t->list[t->n_list++] = p;
    } else if (words <= t->words) {
        sort_shared(s, p, t->scratch);
    } else {
        const struct digit d = digit_at(p.bit, 8, s->bits);
        uint64_t end[256];
        split_in_place(s, p, d, end);
        for (uint32_t k = 0; k <= d.mask; k++) {
            const uint64_t first = k == 0 ? 0 : end[k - 1];
            const struct piece part = { p.at + first, end[k] - first, p.bit + d.width, 0 };
            add_tight(s, t, part);
        }
    }
}

/* Sorts the pieces that array[0] was distributed to by its first digit. Piece k ends at end[k]. */
static void sort_tight(const struct sort *s, struct digit d, const uint64_t *end, struct tight *t)
{
    for (uint32_t k = 0; k <= d.mask; k++) {
        const uint64_t first = k == 0 ? 0 : end[k - 1];
        const struct piece part = { first, end[k] - first, d.width, 0 };
        add_tight(s, t, part);
    }
#pragma omp parallel num_threads(s->threads)
    {
        struct sort mine = *s;
        uint64_t *share = t->scratch + t->share * (uint64_t)omp_get_thread_num();
        mine.own = malloc(LOCAL_WORDS * sizeof *mine.own);
#pragma omp for schedule(dynamic, 1)
        for (uint64_t i = 0; i < t->n_list; i++) {
            const struct piece p = t->list[i], whole = { 0, p.n, p.bit, 0 };
            mine.array[0] = s->array[0] + p.at * s->words;
            mine.array[1] = share;
            sort_piece(&mine, whole, 0);
            count_work(s, p.n);
        }
        free(mine.own);
    }
}

void ts_record_sort_moved(const struct ts_record_move *v, uint64_t n, uint64_t *out,
                          uint64_t *scratch, uint64_t scratch_words, uint32_t key_bits,
                          uint32_t bits, uint32_t threads, const volatile sig_atomic_t *stop,
                          _Atomic uint64_t *work)
{
    const uint32_t words = v->to->words;
    const struct sort s = { { out, scratch }, words, key_bits, bits, threads, NULL, stop, work };
    const struct piece whole = { 0, n, 0, 0 };
    struct tight t = { scratch, scratch_words, scratch_words / threads, NULL, 0, 0 };
    struct digit d;
    struct work w = { .n_open = 0 };
    if (n * words <= LOCAL_WORDS || bits == 0 || new_work(&w, n, threads) < 0) {
        ts_record_convert(v->from, v->in, v->to, v->source, out, n);
        add_tight(&s, &t, whole);
        free_work(&w);
        return;
    }
    d = choose_digit(&s, whole);
    split_converting(&s, v, n, d, &w);
    if (n * words <= scratch_words) {
        add_parts(&s, &w, whole, d, 0, 0);
        do_work(&s, &w, 0);
    } else {
        t.list = w.list;
        t.room = LIST_ROOM;
        sort_tight(&s, d, w.end, &t);
    }
    free_work(&w);
}
