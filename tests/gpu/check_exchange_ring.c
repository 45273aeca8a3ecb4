/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a ring all-gather, played with bytes in host memory: both ends of a link agree on
 * every piece, nobody sends what it does not have yet, and in the end every replica has all. */
#include <stdlib.h>
#include <string.h>

#include "gpu/exchange/exchange_ring.h"
#include "tests/gpu/exchange_parts.h"
#include "tests/support/run_suite.h"

static struct ts_exchange_span *take_round(struct ts_exchange_ring *r,
                                           struct ts_exchange_cursor *link, uint32_t *n,
                                           uint64_t *bytes)
{
    struct ts_exchange_span *list = NULL, s;
    *n = 0;
    *bytes = 0;
    while (ts_exchange_ring_next(r, link, &s)) {
        list = realloc(list, (*n + 1) * sizeof *list);
        list[(*n)++] = s;
        *bytes += s.bytes;
    }
    return list;
}

/* Sends what rank `from` sends in this round; the pieces must be those that `to` expects. */
static void play_link(const struct parts *p, struct ts_exchange_ring *from,
                      struct ts_exchange_ring *to, const unsigned char *have, unsigned char *get)
{
    uint32_t n_out, n_in;
    uint64_t out_bytes, in_bytes;
    struct ts_exchange_span *out = take_round(from, &from->out, &n_out, &out_bytes);
    struct ts_exchange_span *in = take_round(to, &to->in, &n_in, &in_bytes);
    ck_assert_uint_eq(n_out, n_in);
    ck_assert_uint_le(out_bytes, from->quantum);
    for (uint32_t i = 0; i < n_out; i++) {
        ck_assert_uint_eq(out[i].offset, in[i].offset);
        ck_assert_uint_eq(out[i].bytes, in[i].bytes);
        ck_assert(memcmp(have + out[i].offset, p->full + out[i].offset, out[i].bytes) == 0);
        memcpy(get + out[i].offset, p->full + out[i].offset, out[i].bytes);
    }
    free(out);
    free(in);
}

/* Returns how many rounds it took. */
static uint32_t play(const struct parts *p)
{
    struct ts_exchange_ring ring[PARTS_MAX_RANKS];
    uint64_t scratch[PARTS_MAX_RANKS][3 * PARTS_MAX_RANKS];
    unsigned char *before[PARTS_MAX_RANKS], *now[PARTS_MAX_RANKS];
    uint32_t rounds = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        before[i] = malloc(p->bytes + 1);
        now[i] = malloc(p->bytes + 1);
        parts_own(p, i, now[i]);
        ts_exchange_ring_start(&ring[i], p->part, p->n, i, scratch[i]);
    }
    for (;; rounds++) {
        int more = ts_exchange_ring_round(&ring[0]);
        for (uint32_t i = 1; i < p->n; i++)
            ck_assert_int_eq(ts_exchange_ring_round(&ring[i]), more);
        if (!more)
            break;
        for (uint32_t i = 0; i < p->n; i++)
            memcpy(before[i], now[i], p->bytes);
        for (uint32_t i = 0; i < p->n; i++) {
            const uint32_t to = (i + 1) % p->n;
            play_link(p, &ring[i], &ring[to], before[i], now[to]);
        }
    }
    for (uint32_t i = 0; i < p->n; i++) {
        ck_assert(memcmp(now[i], p->full, p->bytes) == 0);
        free(before[i]);
        free(now[i]);
    }
    return rounds;
}

START_TEST(every_replica_gets_all) /* loop test: _i is the seed */
{
    const uint32_t n = 2 + (uint32_t)_i % (PARTS_MAX_RANKS - 1);
    const uint32_t ranks = _i % 3 == 0 ? 1u << (_i % n) : _i % 3 == 1 ? 0xa5a5u >> (_i % 8) : ~0u;
    const uint64_t most = _i % 4 == 0 ? 3000000 : _i % 4 == 1 ? 100 : 50000;
    struct parts p = parts_random((uint64_t)_i, n, ranks, 1 + (uint32_t)_i % 5, most, 1);
    play(&p);
    parts_free(&p);
}
END_TEST

START_TEST(equal_parts_take_a_round_for_each_other_rank)
{
    const uint64_t bytes = 2000000;
    for (uint32_t n = 2; n <= PARTS_MAX_RANKS; n++) {
        struct ts_exchange_span span[PARTS_MAX_RANKS];
        struct parts p = { .n = n, .bytes = n * bytes, .full = malloc(n * bytes) };
        memset(p.full, 7, p.bytes);
        for (uint32_t i = 0; i < n; i++) {
            span[i].offset = i * bytes;
            span[i].bytes = bytes - i * 1000; /* nearly equal */
            p.part[i].span = &span[i];
            p.part[i].n = 1;
            memset(p.full + span[i].offset + span[i].bytes, 0, i * 1000);
        }
        ck_assert_uint_eq(play(&p), n - 1);
        free(p.full);
    }
}
END_TEST

/* Sent whole, it would take n - 1 rounds of all its bytes. */
START_TEST(one_part_travels_in_pieces)
{
    const uint32_t n = 8;
    struct ts_exchange_span span = { 0, 16000000 };
    struct parts p = { .n = n, .bytes = span.bytes, .full = malloc(span.bytes) };
    memset(p.full, 7, p.bytes);
    p.part[3].span = &span;
    p.part[3].n = 1;
    ck_assert_uint_le(play(&p), 2 * n); /* of an eighth each */
    free(p.full);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange_ring");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_replica_gets_all, 0, 84);
    tcase_add_test(tc, equal_parts_take_a_round_for_each_other_rank);
    tcase_add_test(tc, one_part_travels_in_pieces);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
