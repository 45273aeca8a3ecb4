/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorts strings in memory by quicksort. If they do not fit, merges sorted runs of a file with a
 * heap. */
#include "source/names/string_sort.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/machine/bigmem.h"
#include "base/setting.h"
#include "base/files/sorted_runs.h"
#include "base/stop.h"
#include "base/files/tempfile.h"

/* least bytes of the buffer of a run that is merged; at least twice the longest string */
#define LEAST_BUFFER UINT64_C(512)
#define MOST_BUFFER  (UINT64_C(1) << 20)
#define OUT_BYTES    (UINT64_C(256) << 10)
#define AHEAD        16u /* number of strings ahead that are prefetched */

/* A sorted run of strings in the file. */
struct run {
    /* bytes of the file that have the run; `at` is the first byte that is not read yet */
    uint64_t at, end;
    char *buf; /* a part of the run: `have` bytes, of which `used` were returned */
    uint64_t have, used;
};

/* The next string of a run, as an entry of the heap. rank is its hash, or its first 8 bytes as a
 * number. Entries of lower rank come first. With equal ranks the strings are compared, which takes
 * longer. */
struct head {
    uint64_t rank;
    uint32_t run;
};

struct ts_string_sort {
    struct ts_sorted_runs runs;
    struct run *run; /* array of runs.n runs */
    uint64_t bytes;  /* bytes of memory at `mem` */

    /* memory for strings: they are at its start, and their offsets at its end, backwards */
    char *mem;
    uint64_t used, n;

    char *out; /* buffer for writing to the file */
    uint64_t n_out;

    uint32_t longest;  /* most bytes of a string so far, with its TS_STRING_HEAD bytes */
    struct head *heap; /* a heap with an entry for each run, the first string on top */
    uint32_t n_heap;
    int by_hash;
    char *buffers;
    uint64_t each;
    int merging;
    uint64_t next; /* number of the next string to be returned, if all are in memory */
};

/* ------------------------------------------------------------------ the order of strings */

/* Returns the byte of the string at `depth`, or -1 after its end. */
static inline int byte_at(const char *base, uint64_t place, uint32_t depth)
{
    const char *at = base + place;
    return depth < ts_string_length(at) ? (unsigned char)ts_string_key(at)[depth] : -1;
}

int ts_string_compare(const char *a, const char *b, uint32_t depth)
{
    const uint32_t na = ts_string_length(a), nb = ts_string_length(b), n = na < nb ? na : nb;
    const int c =
        n > depth ? memcmp(ts_string_key(a) + depth, ts_string_key(b) + depth, n - depth) : 0;
    return c != 0 ? c : na < nb ? -1 : na > nb;
}

static void insertion_sort(const char *base, uint64_t *place, uint64_t n, uint32_t depth)
{
    for (uint64_t i = 1; i < n; i++) {
        const uint64_t p = place[i];
        uint64_t k = i;
        for (; k > 0 && ts_string_compare(base + p, base + place[k - 1], depth) < 0; k--)
            place[k] = place[k - 1];
        place[k] = p;
    }
}

static int middle(int a, int b, int c)
{
    const int low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Sorts strings by quicksort: divides them into three parts by the byte at `depth`. The loop
 * handles the largest part, which keeps the stack small. */
static void sort_places(const char *base, uint64_t *place, uint64_t n, uint32_t depth)
{
    while (n > 16) {
        const int pivot = middle(byte_at(base, place[0], depth), byte_at(base, place[n / 2], depth),
                                 byte_at(base, place[n - 1], depth));
        uint64_t less = 0, more = n, part[3], size[3];
        uint32_t at_depth[3], largest = 0;
        for (uint64_t i = 0; i < more;) {
            const uint64_t p = place[i];
            const int c = byte_at(base, p, depth);
            if (c < pivot) {
                place[i++] = place[less];
                place[less++] = p;
            } else if (c > pivot) {
                place[i] = place[--more];
                place[more] = p;
            } else {
                i++;
            }
        }
        part[0] = 0, size[0] = less, at_depth[0] = depth;
        part[1] = less, size[1] = pivot < 0 ? 0 : more - less, at_depth[1] = depth + 1;
        part[2] = more, size[2] = n - more, at_depth[2] = depth;
        for (uint32_t i = 1; i < 3; i++)
            largest = size[i] > size[largest] ? i : largest;
        for (uint32_t i = 0; i < 3; i++)
            if (i != largest)
                sort_places(base, place + part[i], size[i], at_depth[i]);
        place += part[largest];
        n = size[largest];
        depth = at_depth[largest];
    }
    insertion_sort(base, place, n, depth);
}

void ts_string_sort_places(const char *base, uint64_t *place, uint64_t n)
{
    sort_places(base, place, n, 0);
}

/* ------------------------------------------------------------------ adding strings */

void ts_string_sort_by_hash(struct ts_string_sort *s)
{
    s->by_hash = 1;
}

int ts_string_sort_new(const char *tmp, uint64_t bytes, const volatile sig_atomic_t *stop,
                       struct ts_string_sort **ret, struct ts_err *err)
{
    struct ts_string_sort *s = calloc(1, sizeof *s);
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for sorting names");
    s->runs = (struct ts_sorted_runs){ tmp, "sorting names", stop, .fd = -1 };
    s->bytes = bytes / 8 * 8;
    *ret = s;
    return 0;
}

static void free_memory(struct ts_string_sort *s)
{
    ts_bigmem_free(s->mem, s->bytes);
    s->mem = NULL;
}

void ts_string_sort_free(struct ts_string_sort *s)
{
    if (s == NULL)
        return;
    free_memory(s);
    ts_bigmem_free(s->buffers, (uint64_t)s->runs.n * s->each);
    free(s->out);
    free(s->heap);
    ts_sorted_runs_close(&s->runs);
    free(s);
}

static int flush(struct ts_string_sort *s, struct ts_err *err)
{
    const uint64_t n = s->n_out;
    s->n_out = 0;
    return ts_sorted_runs_append(&s->runs, s->out, n, err);
}

int ts_string_sort_run(struct ts_string_sort *s, const char *base, const uint64_t *place,
                       uint64_t n, struct ts_err *err)
{
    int rc;
    if (n == 0)
        return 0;
    if (s->out == NULL)
        s->out = malloc(OUT_BYTES);
    if (s->out == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for sorting names");
    rc = ts_sorted_runs_room(&s->runs, sizeof *s->run, err);
    if (rc < 0)
        return rc;
    s->run = s->runs.list;
    s->run[s->runs.n] = (struct run){ .at = s->runs.bytes };
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        const char *at = base + place[i];
        const uint32_t bytes = TS_STRING_HEAD + ts_string_length(at);
        if (i + AHEAD < n)
            __builtin_prefetch(base + place[i + AHEAD]);
        s->longest = bytes > s->longest ? bytes : s->longest;
        if (s->n_out + bytes > OUT_BYTES)
            rc = flush(s, err);
        if (rc == 0)
            memcpy(s->out + s->n_out, at, bytes);
        s->n_out += bytes;
    }
    if (rc == 0)
        rc = flush(s, err);
    s->run[s->runs.n++].end = s->runs.bytes;
    return rc;
}

/* Returns the array of offsets of strings, which grows downwards from the end of the memory. */
static uint64_t *places(const struct ts_string_sort *s)
{
    return (uint64_t *)(void *)(s->mem + s->bytes) - s->n;
}

static int spill(struct ts_string_sort *s, struct ts_err *err)
{
    int rc;
    ts_string_sort_places(s->mem, places(s), s->n);
    rc = ts_string_sort_run(s, s->mem, places(s), s->n, err);
    s->used = s->n = 0;
    return rc;
}

int ts_string_sort_add(struct ts_string_sort *s, const char *key, uint32_t n, uint64_t number,
                       struct ts_err *err)
{
    int rc = 0;
    if (s->mem == NULL) {
        void *mem = NULL;
        rc = ts_bigmem_new(s->bytes, "sorting names, a part of " TS_SET_MEMORY, &mem, err);
        s->mem = mem;
    }
    if (rc == 0 && s->used + TS_STRING_HEAD + n + 8 * (s->n + 1) > s->bytes)
        rc = spill(s, err);
    if (rc < 0)
        return rc;
    s->n++;
    *places(s) = s->used;
    s->used = (uint64_t)(ts_string_put(s->mem + s->used, key, n, number) - s->mem);
    return 0;
}

/* ------------------------------------------------------------------ merging the sorted runs */

/* Reads the next string of a run completely into its buffer. Returns 1, 0 at the end of the run, or
 * a failure. */
static int fill(struct ts_string_sort *s, struct run *r, struct ts_err *err)
{
    const uint64_t left = r->have - r->used;
    uint64_t n = s->each - left;
    int rc;
    if (left >= TS_STRING_HEAD && left >= TS_STRING_HEAD + ts_string_length(r->buf + r->used))
        return 1;
    if (r->at == r->end)
        return left > 0;
    n = n < r->end - r->at ? n : r->end - r->at;
    memmove(r->buf, r->buf + r->used, left);
    rc = ts_tempfile_read(s->runs.fd, s->runs.tmp, r->buf + left, n, r->at, err);
    r->at += n;
    r->used = 0;
    r->have = left + n;
    return rc < 0 ? rc : 1;
}

static uint64_t rank_of(const struct ts_string_sort *s, const char *at)
{
    const uint32_t n = ts_string_length(at);
    uint64_t first = 0;
    if (s->by_hash)
        return ts_string_hash(ts_string_key(at), n);
    memcpy(&first, ts_string_key(at), n < sizeof first ? n : sizeof first);
    return __builtin_bswap64(first); /* an integer that compares as the first bytes do */
}

static inline int head_less(const struct ts_string_sort *s, struct head a, struct head b)
{
    const struct run *x = &s->run[a.run], *y = &s->run[b.run];
    int c;
    if (a.rank != b.rank)
        return a.rank < b.rank;
    c = ts_string_compare(x->buf + x->used, y->buf + y->used, 0);
    return c < 0 || (c == 0 && a.run < b.run);
}

static void sift(struct ts_string_sort *s, uint32_t i)
{
    const struct head moved = s->heap[i];
    for (uint32_t k = 2 * i + 1; k < s->n_heap; k = 2 * i + 1) {
        if (k + 1 < s->n_heap && head_less(s, s->heap[k + 1], s->heap[k]))
            k++;
        if (!head_less(s, s->heap[k], moved))
            break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = moved;
}

int ts_string_sort_end(struct ts_string_sort *s, struct ts_err *err)
{
    void *mem = NULL;
    uint64_t least;
    int rc = 0;
    if (s->runs.n == 0) {
        if (s->mem != NULL)
            ts_string_sort_places(s->mem, places(s), s->n);
        return 0;
    }
    if (s->n > 0)
        rc = spill(s, err);
    free_memory(s);
    free(s->out);
    s->out = NULL;
    s->each = s->bytes / s->runs.n;
    s->each = s->each < MOST_BUFFER ? s->each : MOST_BUFFER;
    least = 2 * (uint64_t)s->longest > LEAST_BUFFER ? 2 * (uint64_t)s->longest : LEAST_BUFFER;
    if (rc == 0 && s->each < least)
        rc = ts_fail(err, TS_ELIMIT,
                     "there are more names than this " TS_SET_MEMORY " can sort: %" PRIu32
                     " runs of them need at least %" PRIu64 " MiB of it",
                     s->runs.n, ((uint64_t)s->runs.n * least * 8 >> 20) + 1);
    if (rc == 0)
        rc = ts_bigmem_new((uint64_t)s->runs.n * s->each, "merging names, a part of " TS_SET_MEMORY,
                           &mem, err);
    s->buffers = mem;
    s->heap = calloc(s->runs.n, sizeof *s->heap);
    if (rc == 0 && s->heap == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for sorting names");
    for (uint32_t i = 0; i < s->runs.n && rc >= 0; i++) {
        s->run[i].buf = s->buffers + i * s->each;
        rc = fill(s, &s->run[i], err);
        if (rc > 0)
            s->heap[s->n_heap++] = (struct head){ rank_of(s, s->run[i].buf), i };
    }
    if (rc < 0)
        return rc;
    for (uint32_t i = s->n_heap; i-- > 0;)
        sift(s, i);
    return 0;
}

/* Removes the string that was returned last from the heap, and adds the next string of its run. */
static int advance(struct ts_string_sort *s, struct ts_err *err)
{
    struct run *r = &s->run[s->heap[0].run];
    int rc;
    r->used += TS_STRING_HEAD + ts_string_length(r->buf + r->used);
    rc = fill(s, r, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        s->heap[0] = s->heap[--s->n_heap];
    else
        s->heap[0].rank = rank_of(s, r->buf + r->used);
    if (s->n_heap > 0)
        sift(s, 0);
    return 0;
}

int ts_string_sort_next(struct ts_string_sort *s, const char **key, uint32_t *n, uint64_t *number,
                        struct ts_err *err)
{
    const char *at;
    if ((s->next++ & 65535) == 0 && ts_stop_asked(s->runs.stop))
        return ts_fail(err, TS_ESTOP, "stopped");
    if (s->runs.n == 0) {
        if (s->next > s->n)
            return 0;
        at = s->mem + places(s)[s->next - 1];
    } else {
        if (s->merging) {
            const int rc = advance(s, err);
            if (rc < 0)
                return rc;
        }
        s->merging = 1;
        if (s->n_heap == 0) {
            s->merging = 0;
            return 0;
        }
        at = s->run[s->heap[0].run].buf + s->run[s->heap[0].run].used;
    }
    *key = ts_string_key(at);
    *n = ts_string_length(at);
    *number = ts_string_number(at);
    return 1;
}
