/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds the tensors of the tests of the library. */
#include "tests/api/api_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "base/rng.h"
#include "tests/format/tsh_writer.h"

char *tmp, tensor[4200], other[4200], files[4200];
uint64_t index_of[N * 3];
double value_of[N];
ts_error err;

ts_build_conf build_conf(const char *out)
{
    ts_build_conf c = { .size = sizeof c,
                        .out = out,
                        .memory = UINT64_C(64) << 20,
                        .shard_bytes = 65536,
                        .threads = 2,
                        .order = 3 };
    return c;
}

void build(const char *out)
{
    const ts_build_conf c = build_conf(out);
    ts_build_result r = { .size = sizeof r };
    ts_builder *b = ts_builder_new(&c, &err);
    ck_assert_msg(b != NULL, "%s", err.text);
    ck_assert_msg(ts_builder_add(b, N, index_of, value_of, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_builder_finish(b, &r, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(r.read, N);
    ts_builder_free(b);
}

void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(tensor, sizeof tensor, "%s/x.tsh", tmp);
    snprintf(other, sizeof other, "%s/y.tsh", tmp);
    snprintf(files, sizeof files, "%s/x.cp", tmp);
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t key = ts_mix(i);
        index_of[3 * i] = 3 * (key % 200); /* two of three slices are empty */
        index_of[3 * i + 1] = key / 1000 % 50;
        index_of[3 * i + 2] = key / 1000000 % 20;
        value_of[i] = 0.125 * (double)(1 + (key >> 40 & 63)) + 0.1;
    }
    build(tensor);
}

void teardown(void)
{
    test_tsh_remove(tensor);
    test_tsh_remove(other);
    test_tsh_remove(files);
    test_tsh_remove(tmp);
    free(tmp);
}

ts_tensor *open_tensor(void)
{
    ts_tensor *t = ts_open(tensor, &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    return t;
}

ts_session *open_session(const ts_tensor *t, uint32_t threads, volatile int *stop)
{
    const ts_session_conf c = {
        .size = sizeof c, .rank = 4, .threads = threads, .cpu = 1, .stop = stop
    };
    ts_session *s = ts_session_open(t, &c, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    return s;
}

int equal(const ts_cpd *a, const ts_cpd *b)
{
    int same = ts_cpd_rank(a) == ts_cpd_rank(b) &&
               memcmp(ts_cpd_weights(a), ts_cpd_weights(b), ts_cpd_rank(a) * sizeof(double)) == 0;
    for (uint32_t m = 0; m < 3 && same; m++)
        same = ts_cpd_held(a, m) == ts_cpd_held(b, m) &&
               memcmp(ts_cpd_factor(a, m), ts_cpd_factor(b, m),
                      ts_cpd_held(a, m) * ts_cpd_rank(a) * sizeof(float)) == 0;
    return same;
}

int near(double a, double b, double most)
{
    return fabs(a - b) <= most * (1 + fabs(b));
}

void program(const char *what)
{
    const char *build_dir = getenv("TOP_BUILDDIR");
    char command[10000];
    snprintf(command, sizeof command, "%s/tools/tstream cp -q --cpu %s > %s/log",
             build_dir != NULL ? build_dir : ".", what, tmp);
    ck_assert_msg(system(command) == 0, "%s", command);
    snprintf(command, sizeof command, "%s/log", tmp);
    unlink(command);
}
