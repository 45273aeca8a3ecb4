/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of modes and the first index come back as they were given; a tensor without them says so,
 * and a damaged or foreign file of names is refused. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/tensor.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"

static void build_named(const char *to, const char *lines, uint32_t base, const char *last)
{
    struct ts_build_options o = options(to);
    write_text(lines);
    o.base = base;
    o.force = 1;
    if (last != NULL) {
        o.n_names = 3;
        o.mode_name[0] = "user";
        o.mode_name[1] = "";
        o.mode_name[2] = last;
    }
    ck_assert_msg(build(&o) == 0, "%s", err.text);
}

START_TEST(names_and_base_come_back)
{
    struct ts_tensor *t;
    build_named(out, "0 1 2 1\n3 2 1 2\n", 0, "week \xc3\xa9");
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    ck_assert_str_eq(ts_tensor_mode_name(t, 0), "user");
    ck_assert_ptr_null(ts_tensor_mode_name(t, 1));
    ck_assert_str_eq(ts_tensor_mode_name(t, 2), "week \xc3\xa9");
    ck_assert_ptr_null(ts_tensor_value_name(t));
    ck_assert_uint_eq(ts_tensor_base(t), 0);
    ts_tensor_close(t);
    build_named(out, "1 1 2 1\n3 2 1 2\n", 1, NULL); /* replaces it: the file of names is known */
    ck_assert(!exists(out, "/modes"));
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    ck_assert_ptr_null(ts_tensor_mode_name(t, 0));
    ck_assert_uint_eq(ts_tensor_base(t), 1);
    ts_tensor_close(t);
}
END_TEST

START_TEST(damage_is_refused)
{
    char path[4200], moved[4200];
    struct ts_tensor *t;
    struct stat st;
    int fd;
    build_named(out, "1 1 2 1\n3 2 1 2\n", 1, "week");
    snprintf(path, sizeof path, "%s/modes", out);
    fd = open(path, O_RDWR);
    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t at = 0; at < st.st_size; at++) {
        uint8_t byte, bad;
        ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
        bad = byte ^ 1;
        ck_assert_int_eq(pwrite(fd, &bad, 1, at), 1);
        ck_assert_int_eq(ts_tensor_open(out, &t, &err), TS_EFORMAT);
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    }
    for (off_t n = 0; n < st.st_size; n++) {
        char bytes[1024];
        ck_assert_int_eq(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
        ck_assert_int_eq(ftruncate(fd, n), 0);
        ck_assert_int_eq(ts_tensor_open(out, &t, &err), TS_EFORMAT);
        ck_assert_int_eq(pwrite(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    }
    close(fd);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ts_tensor_close(t);
    build_named(other, "1 1 2 1\n3 2 1 7\n", 1, "week"); /* the file of another tensor */
    snprintf(moved, sizeof moved, "%s/modes", other);
    ck_assert_int_eq(rename(moved, path), 0);
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "does not match the index"));
    unlink(path); /* without it there are no names, and that is all */
    ck_assert_int_eq(ts_tensor_open(out, &t, &err), 0);
    ck_assert_ptr_null(ts_tensor_mode_name(t, 0));
    ts_tensor_close(t);
}
END_TEST

START_TEST(names_must_fit)
{
    struct ts_build_options o = options(out);
    char name[300];
    write_text("1 1 2 1\n3 2 1 2\n");
    memset(name, 'x', sizeof name);
    name[256] = '\0';
    o.n_names = 3;
    o.mode_name[0] = o.mode_name[1] = o.mode_name[2] = name;
    ck_assert_int_eq(build(&o), TS_EARG);
    name[255] = '\0';
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    o.n_names = 2;
    o.out = other;
    ck_assert_int_eq(build(&o), TS_EARG);
    ck_assert(!exists(other, ""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mode_names");
    TCase *t = tcase_create("mode_names");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, names_and_base_come_back);
    tcase_add_test(t, damage_is_refused);
    tcase_add_test(t, names_must_fit);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
