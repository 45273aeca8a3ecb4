/* SPDX-License-Identifier: BSD-3-Clause */
/* Specifications, by the rows of spec_pairs.def: each pair is refused with its sentence, what is in
 * no row is possible, and of several rows the first one is told. */
#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "cpd/solver/accelerate.h"
#include "cpd/spec/spec.h"
#include "stream/loss_functions.h"
#include "tests/support/run_suite.h"

#define ORDER 3u

struct pair {
    int needs;
    enum ts_spec_property one, other;
    const char *sentence;
};

static const struct pair pairs[] = {
#define EXCLUDES(a, b, text) { 0, TS_HAS_##a, TS_HAS_##b, text },
#define NEEDS(a, b, text)    { 1, TS_HAS_##a, TS_HAS_##b, text },
#define CHECKED(function)
#include "cpd/spec/spec_pairs.def"
};
#define N_PAIRS (int)(sizeof pairs / sizeof pairs[0])

/* ---- specifications of properties ---- */

static uint32_t bit(enum ts_spec_property p)
{
    return UINT32_C(1) << p;
}

/* These, and what they need. */
static uint32_t with_needs(uint32_t properties)
{
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < N_PAIRS; i++)
            if (pairs[i].needs && (properties & bit(pairs[i].one)) != 0 &&
                (properties & bit(pairs[i].other)) == 0) {
                properties |= bit(pairs[i].other);
                again = 1;
            }
    }
    return properties;
}

/* Properties of a mode are those of `mode` alone. The loss takes zeros, and no number. */
static struct ts_spec spec_of(uint32_t properties, uint32_t mode)
{
    struct ts_spec spec = { 0 };
    struct ts_constraint *c = &spec.mode[mode];
#define GIVE(NAME, of, member, value)           \
    if ((properties & bit(TS_HAS_##NAME)) != 0) \
        of member = value;
#define OF_RUN(NAME, member, value)  GIVE(NAME, spec., member, value)
#define OF_MODE(NAME, member, value) GIVE(NAME, c->, member, value)
#include "cpd/spec/spec_pairs.def"
#undef GIVE
    c->upper = c->bounded;
    return spec;
}

static int is_of_mode(enum ts_spec_property p)
{
    const uint32_t of_mode = 0
#define OF_MODE(NAME, member, value) | 1u << TS_HAS_##NAME
#include "cpd/spec/spec_pairs.def"
        ;
    return (of_mode & bit(p)) != 0;
}

/* Everything that could be asked, with acceleration where that is among the properties. */
static int check(uint32_t properties, const struct ts_spec *spec, struct ts_err *err)
{
    const int rc = ts_spec_check(spec, ORDER, err);
    return rc < 0 || (properties & bit(TS_HAS_ACCELERATE)) == 0
               ? rc
               : ts_accelerate_check(spec, ORDER, err);
}

/* The first row that these break; NULL: there is none. */
static const struct pair *first_broken(uint32_t properties)
{
    for (int i = 0; i < N_PAIRS; i++) {
        const int other = (properties & bit(pairs[i].other)) != 0;
        if ((properties & bit(pairs[i].one)) != 0 && other != pairs[i].needs)
            return &pairs[i];
    }
    return NULL;
}

/* What is told of a pair that a mode breaks. */
static struct ts_err sentence_of(const struct pair *p, const struct ts_spec *spec, uint32_t mode)
{
    struct ts_err ret;
    char text[160];
    if (p->one == TS_HAS_ACCELERATE)
        ts_spec_text(spec, mode, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s",
                 spec->loss == TS_GCP_NONE ? "" : ts_loss_of(spec->loss)->name);
    ts_fail(&ret, TS_EARG, p->sentence, mode + 1, text);
    return ret;
}

/* What the rows say of properties, those of a mode being of `mode`, is what happens. */
static void ck_properties(uint32_t properties, uint32_t mode)
{
    const struct ts_spec spec = spec_of(properties, mode);
    const struct pair *broken = first_broken(properties);
    struct ts_err err, want;
    uint32_t told;
    if (broken == NULL) {
        ck_assert_msg(check(properties, &spec, &err) == 0, "%x: %s", properties, err.text);
        return;
    }
    /* a pair that is of the run alone is told of the first mode */
    told = is_of_mode(broken->one) || is_of_mode(broken->other) ? mode : 0;
    want = sentence_of(broken, &spec, told);
    ck_assert_int_eq(check(properties, &spec, &err), TS_EARG);
    ck_assert_msg(strcmp(err.text, want.text) == 0, "%x: '%s', not '%s'", properties, err.text,
                  want.text);
}

/* ---- the table ---- */

/* What is asked for beside a specification is refused whether the specification is possible or
 * not. */
static int check_pair(const struct pair *p, const struct ts_spec *spec, struct ts_err *err)
{
    return p->one == TS_HAS_ACCELERATE ? ts_accelerate_check(spec, ORDER, err)
                                       : ts_spec_check(spec, ORDER, err);
}

/* Of the smallest specification that has both, or the one without the other. A pair of the run is
 * told of the first mode. */
START_TEST(a_pair_is_refused_with_its_sentence)
{
    const struct pair *p = &pairs[_i / 2];
    const int of_mode = is_of_mode(p->one) || is_of_mode(p->other);
    const uint32_t mode = _i % 2 == 0 ? 0 : 2;
    const uint32_t properties = p->needs ? with_needs(bit(p->one)) & ~bit(p->other)
                                : p->one == TS_HAS_ACCELERATE
                                    ? bit(p->other)
                                    : with_needs(bit(p->one) | bit(p->other));
    const struct ts_spec spec = spec_of(properties, mode);
    const struct ts_err want = sentence_of(p, &spec, of_mode ? mode : 0);
    struct ts_err err;
    ck_assert_int_eq(check_pair(p, &spec, &err), TS_EARG);
    ck_assert_str_eq(err.text, want.text);
}
END_TEST

START_TEST(a_property_alone_is_possible)
{
    const uint32_t properties = with_needs(bit((enum ts_spec_property)_i));
    const struct ts_spec spec = spec_of(properties, 1);
    struct ts_err err;
    ck_assert_ptr_null(first_broken(properties));
    ck_assert_msg(check(properties, &spec, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(ts_spec_properties(&spec, 1) | (properties & bit(TS_HAS_ACCELERATE)),
                      properties);
}
END_TEST

/* Three at a time: what is in no row is possible, and of several rows the first one is told. */
START_TEST(rows_are_all_that_is_refused)
{
    const uint32_t all = bit(TS_N_PROPERTIES) - 1;
    for (uint32_t a = 0; a < TS_N_PROPERTIES; a++)
        for (uint32_t b = a; b < TS_N_PROPERTIES; b++) {
            const uint32_t properties = with_needs(1u << (uint32_t)_i | 1u << a | 1u << b) & all;
            ck_properties(properties, 0);
        }
}
END_TEST

/* A row is reached: nothing before it says of its pair alone what it says. */
START_TEST(no_pair_is_there_twice)
{
    for (int i = 0; i < N_PAIRS; i++)
        for (int k = 0; k < i; k++)
            ck_assert(pairs[i].one != pairs[k].one || pairs[i].other != pairs[k].other);
}
END_TEST

/* ---- what is no pair ---- */

START_TEST(no_specification_is_the_plain_one)
{
    char text[160];
    struct ts_err err;
    ck_assert_int_eq(ts_spec_check(NULL, ORDER, &err), 0);
    ck_assert_int_eq(ts_accelerate_check(NULL, ORDER, &err), 0);
    ck_assert(!ts_spec_any(NULL, ORDER) && !ts_spec_penalty(NULL, ORDER));
    ck_assert_uint_eq(ts_spec_updates(NULL, ORDER), UINT32_C(1) << TS_ROW_LEAST_SQUARES);
    ck_assert_uint_eq(ts_spec_stays(NULL, ORDER) | ts_spec_own(NULL, ORDER), 0);
    ck_assert(ts_spec_same_state(NULL, &ts_spec_plain, 0));
    ts_spec_text(NULL, 0, text, sizeof text);
    ck_assert_str_eq(text, "none");
}
END_TEST

START_TEST(a_loss_without_zeros_is_of_observed_cells)
{
    struct ts_spec spec = { .loss = TS_GCP_GAMMA };
    struct ts_err err;
    ck_assert_int_eq(ts_spec_check(&spec, ORDER, &err), TS_EARG);
    ck_assert_str_eq(err.text, "loss gamma is for numbers above 0, and cells that are not listed "
                               "are zeros: with observed they are unknown");
    spec.observed = 1;
    ck_assert_int_eq(ts_spec_check(&spec, ORDER, &err), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spec");
    TCase *t = tcase_create("spec");
    tcase_add_loop_test(t, a_pair_is_refused_with_its_sentence, 0, 2 * N_PAIRS);
    tcase_add_loop_test(t, a_property_alone_is_possible, 0, TS_N_PROPERTIES);
    tcase_add_loop_test(t, rows_are_all_that_is_refused, 0, TS_N_PROPERTIES);
    tcase_add_test(t, no_pair_is_there_twice);
    tcase_add_test(t, no_specification_is_the_plain_one);
    tcase_add_test(t, a_loss_without_zeros_is_of_observed_cells);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
