/* SPDX-License-Identifier: BSD-3-Clause */
/* Binary files come to the bytes that their nonzeros as text come to, in all their variants; what
 * is wrong in one is told by file and byte. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "source/binary/binary_kind.h"
#include "source/binary/binary_source.h"
#include "tests/source/binary_file.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static const uint64_t wide[TS_MAX_ORDER] = { 40, 300, 1000, 3, 70, 9, 500, 2 };
static char part[2][4200]; /* binary files */

static void setup_files(void)
{
    setup();
    for (int i = 0; i < 2; i++)
        snprintf(part[i], sizeof part[i], "%s/part%d", tmp, i);
}

static void write_bytes(const char *path, const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static void write_form(const char *path, const struct binary_file *f)
{
    size_t n;
    unsigned char *bytes = binary_file_put(f, &n);
    write_bytes(path, bytes, n);
    free(bytes);
}

/* The draws as a file: of GenTen, indices as wide as they must be where index_bytes is 0. */
static struct binary_file form_of(const struct list *l, const uint64_t *dim, int genten,
                                  uint32_t index_bytes, uint32_t value_bytes)
{
    struct binary_file f = { .genten = genten,
                             .order = l->order,
                             .value_bytes = value_bytes,
                             .n = l->n,
                             .index = l->index,
                             .value = l->value };
    memcpy(f.dim, dim, l->order * sizeof *dim);
    for (uint32_t m = 0; m < l->order; m++)
        f.index_bytes[m] = index_bytes > 0 ? index_bytes : dim[m] < 256 ? 1 : 2;
    return f;
}

static int build_files(const struct ts_build_options *o, const char *const *paths, uint32_t n)
{
    return ts_build_paths(o, paths, n, &report, &err);
}

static int build_part(const struct ts_build_options *o, uint32_t i)
{
    const char *path = part[i];
    return build_files(o, &path, 1);
}

static struct ts_build_options options_dims(const char *to, uint32_t order, const uint64_t *dim)
{
    struct ts_build_options o = options(to);
    o.n_dims = order;
    memcpy(o.dim, dim, order * sizeof *dim);
    return o;
}

/* ------------------------------------------------------------------ what is built */

/* _i: the order. Base and byte order go with the variant, each with both over all orders. */
START_TEST(variants_come_to_the_bytes_of_text)
{
    static const uint32_t widths[2][4] = { { 4, 8, 4, 8 }, { 0, 2, 4, 8 } };
    const uint32_t order = (uint32_t)_i;
    struct list draws = list_draw(order, order, wide, 512);
    struct ts_build_options o = options_dims(out, order, wide);
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_int_eq(report.binary, 0);
    o = options(other);
    for (uint32_t v = 0; v < 16; v++) {
        const uint64_t key = ts_mix(order * 16 + v);
        struct binary_file f =
            form_of(&draws, wide, v & 1, widths[v & 1][v >> 1 & 3], v & 8 ? 8 : 4);
        f.big_endian = key & 1;
        f.base = key >> 1 & 1;
        if (f.index_bytes[0] == 1 && f.base == 1)
            f.base = 0; /* an index of 256 would not fit */
        o.base = 1;
        o.base_said = f.base == 1;
        o.force = v > 0;
        write_form(part[0], &f);
        ck_assert_msg(build_part(&o, 0) == 0, "order %u, variant %u: %s", order, v, err.text);
        ck_assert_int_eq(report.binary, 1);
        ck_assert_uint_eq(report.base, f.base);
        assert_same_bytes(order);
    }
    list_free(&draws);
}
END_TEST

/* Many pieces, several threads, sorted runs. _i & 1: GenTen. */
START_TEST(same_bytes_however_it_is_read)
{
    const uint64_t dim[] = { 900, 70, 5000 };
    struct list draws = list_draw(9, 3, dim, 1 << 18);
    struct binary_file f = form_of(&draws, dim, _i & 1, _i & 2 ? 8 : 4, 8);
    struct ts_build_options o = options_dims(out, 3, dim);
    for (uint64_t i = 0; i < draws.n; i++)
        draws.value[i] = (float)(draws.value[i] * ts_unit(ts_mix(i)));
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    write_form(part[0], &f);
    o.out = other;
    ck_assert_msg(build_part(&o, 0) == 0, "%s", err.text);
    assert_same_bytes(3);
    o.force = 1;
    o.threads = 3;
    o.memory = TS_BUILD_MIN_MEMORY;
    o.area_words = 60000;
    ck_assert_msg(build_part(&o, 0) == 0, "%s", err.text);
    ck_assert_uint_gt(report.n_runs, 3);
    assert_same_bytes(3);
    list_free(&draws);
}
END_TEST

/* Two files, of both kinds, are one tensor. */
START_TEST(files_are_parts)
{
    struct list draws = list_draw(5, 4, wide, 4096);
    struct binary_file f = form_of(&draws, wide, 0, 8, 8), g = f;
    const char *paths[] = { part[0], part[1] };
    struct ts_build_options o = options_dims(out, 4, wide);
    list_write(&draws, 0);
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    f.n = 1000;
    g = form_of(&draws, wide, 1, 2, 4);
    g.n -= 1000;
    g.index += 1000 * 4;
    g.value += 1000;
    write_form(part[0], &f);
    write_form(part[1], &g);
    o.out = other;
    ck_assert_msg(build_files(&o, paths, 2) == 0, "%s", err.text);
    assert_same_bytes(4);

    o.force = 1;
    g.dim[2]++;
    write_form(part[1], &g);
    ck_assert_int_eq(build_files(&o, paths, 2), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "part1: its header makes mode 3 1001 long") != NULL, "%s",
                  err.text);
    paths[1] = text;
    ck_assert_int_eq(build_files(&o, paths, 2), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "x.tns: not a binary file") != NULL, "%s", err.text);
    paths[1] = part[0];
    paths[0] = text;
    o.n_dims = 0;
    ck_assert_int_eq(build_files(&o, paths, 2), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "part0: a SPLATT binary file, but") != NULL, "%s", err.text);
    list_free(&draws);
}
END_TEST

/* ------------------------------------------------------------------ what is wrong */

static const uint64_t some_index[] = { 0, 1, 2, 1, 0, 0, 2, 2, 1 };
static const double some_value[] = { 1, -2, 0.5 };

static struct binary_file some(int genten)
{
    struct binary_file f = { .genten = genten,
                             .order = 3,
                             .index_bytes = { 4, 4, 4 },
                             .value_bytes = 8,
                             .dim = { 3, 3, 3 },
                             .n = 3,
                             .index = some_index,
                             .value = some_value };
    return f;
}

/* A pipe that holds the bytes, by name; the caller closes *fd. */
static void open_pipe(const unsigned char *bytes, size_t n, char name[32], int *fd)
{
    int end[2];
    ck_assert_int_eq(pipe(end), 0);
    ck_assert_int_eq(write(end[1], bytes, n), (ssize_t)n);
    close(end[1]);
    snprintf(name, 32, "/proc/self/fd/%d", end[0]);
    *fd = end[0];
}

/* _i: GenTen. Shorter by any number of bytes, or longer, as a file and through a pipe. */
START_TEST(every_truncation_is_refused)
{
    const struct binary_file f = some(_i);
    const struct ts_build_options o = options(out);
    const size_t known = _i == 1 ? 4 : 1,
                 header = _i == 1 ? 68 : 40; /* known: as one of its kind */
    unsigned char *bytes;
    size_t n;
    bytes = binary_file_put(&f, &n);
    bytes = realloc(bytes, n + 1);
    bytes[n] = 0;
    for (size_t cut = 0; cut <= n + 1; cut++) {
        char name[32], place[64], place_of_pipe[64];
        const char *path = name;
        int fd;
        snprintf(place, sizeof place, "part0: %s%zu",
                 cut < header ? "byte " : "the file ends at byte ", cut);
        snprintf(place_of_pipe, sizeof place_of_pipe, "%s%zu",
                 cut < header ? ": byte "
                 : cut > n    ? ": byte "
                              : ": it ends at byte ",
                 cut - (cut > n));
        write_bytes(part[0], bytes, cut);
        open_pipe(bytes, cut, name, &fd);
        if (cut == n) {
            ck_assert_msg(build_part(&o, 0) == 0, "%s", err.text);
            test_tsh_remove(out);
        } else {
            ck_assert_int_eq(build_part(&o, 0), cut < known && cut > 0 ? TS_ELIMIT : TS_EFORMAT);
            ck_assert_msg(strstr(err.text, cut < known ? "part0" : place) != NULL, "%zu: %s", cut,
                          err.text);
        }
        if (_i == 1 && cut == n) {
            ck_assert_msg(build_files(&o, &path, 1) == 0, "%s", err.text);
            test_tsh_remove(out);
        } else {
            ck_assert_int_lt(build_files(&o, &path, 1), 0);
            ck_assert_msg(cut < known || strstr(err.text, place_of_pipe) != NULL ||
                              strstr(err.text, "cannot be read from a pipe") != NULL,
                          "%zu: %s", cut, err.text);
        }
        close(fd);
        ck_assert(!exists(out, ""));
        ck_assert(!exists(out, ".building"));
    }
    free(bytes);
}
END_TEST

/* Bytes of a good file that are replaced, and what is said then. */
struct damage {
    int genten;
    size_t at;
    uint32_t bytes;
    uint64_t x;
    const char *says;
};

static const struct damage damages[] = {
    { 0, 4, 8, 2, "byte 4: indices of 2 bytes; those of SPLATT have 4 or 8" },
    { 0, 12, 8, 16, "byte 12: values of 16 bytes" },
    { 0, 20, 4, 1, "byte 20: a tensor of 1 mode; 2 to 16 are possible" },
    { 0, 20, 4, 17, "byte 20: a tensor of 17 modes" },
    { 0, 20, 4, 0xffffffff, "byte 20: a tensor of 4294967295 modes" },
    { 0, 28, 4, 0, "byte 28: mode 2 is 0 long; 1 to 2^40 are possible" },
    { 0, 36, 4, 0, "byte 36: 0 nonzeros" },
    { 0, 36, 4, 4,
      "the file ends at byte 100, expected 120 by its header (4 nonzeros of 20 bytes)" },
    { 0, 36, 4, 2, "the file ends at byte 100, expected 80" },
    { 0, 36, 4, 0xffffffff, "expected 85899345940 by its header" },
    { 0, 44, 4, 7,
      "byte 44: index 7 of nonzero 2 in mode 1 is beyond its size of 3 (indices start at 0)" },
    { 0, 72, 4, 3,
      "byte 72: index 3 of nonzero 3 in mode 3 is beyond its size of 3 (indices start at 0; first_index 1" },
    { 0, 84, 8, UINT64_C(0x7ff8000000000000),
      "byte 84: the value of nonzero 2, nan, is not a finite number" },
    { 0, 84, 8, UINT64_C(0x7fe0000000000000), "is beyond the range of float32 (use float64)" },
    { 0, 0, 4, 1, "byte 0: these are SPLATT's compressed fibres (CSF), which are not read" },
    { 1, 0, 4, 0x6e746e64,
      "byte 0: this is a dense tensor of GenTen ('dntn'), which lists every cell" },
    { 1, 4, 4, 0, "byte 4: a tensor of 0 modes" },
    { 1, 8, 4, 16, "byte 8: values of 16 bits; those of 32 and 64 are read" },
    { 1, 12, 8, UINT64_C(1) << 60, "byte 12: mode 1 is 1152921504606846976 long" },
    { 1, 44, 8, 24, "byte 44: indices of 24 bits in mode 2" },
    { 1, 60, 8, UINT64_C(1000000000000000000),
      "byte 60: 1000000000000000000 nonzeros; 1 to 2^40 are possible" },
    { 1, 60, 8, UINT64_C(1) << 40, "by its header (1099511627776 nonzeros of 20 bytes)" },
    { 1, 92, 4, 3, "byte 92: index 3 of nonzero 2 in mode 2 is beyond its size of 3" },
    { 1, 100, 8, UINT64_C(0xfff0000000000000),
      "byte 100: the value of nonzero 2, -inf, is not a finite number" },
};

START_TEST(damage_is_named)
{
    const struct damage *d = &damages[_i];
    const struct binary_file f = some(d->genten);
    const struct ts_build_options o = options(out);
    unsigned char *bytes;
    size_t n;
    int rc;
    bytes = binary_file_put(&f, &n);
    for (uint32_t i = 0; i < d->bytes; i++)
        bytes[d->at + i] = (unsigned char)(d->x >> 8 * i);
    write_bytes(part[0], bytes, n);
    rc = build_part(&o, 0);
    ck_assert_msg(rc == TS_EFORMAT || rc == TS_ELIMIT, "%d", rc);
    ck_assert_msg(strstr(err.text, d->says) != NULL, "%s", err.text);
    ck_assert(!exists(out, ".building"));
    free(bytes);
}
END_TEST

START_TEST(the_first_mistake_is_the_one_told)
{
    const uint64_t dim[] = { 900, 70, 5000 };
    struct list draws = list_draw(11, 3, dim, 1 << 18);
    const uint64_t at = 200001;
    for (int genten = 0; genten < 2; genten++) {
        struct binary_file f = form_of(&draws, dim, genten, 4, 4);
        char says[100];
        struct ts_build_options o = options(out);
        o.threads = 4;
        draws.index[at * 3 + 1] = 70;
        draws.index[(at + 1) * 3] = 900;
        draws.index[(draws.n - 1) * 3] = 900;
        snprintf(says, sizeof says, "index 70 of nonzero %llu in mode 2",
                 (unsigned long long)at + 1);
        write_form(part[0], &f);
        ck_assert_int_eq(build_part(&o, 0), TS_EFORMAT);
        ck_assert_msg(strstr(err.text, says) != NULL, "%s", err.text);
    }
    list_free(&draws);
}
END_TEST

/* Counted from 1: index 0 is none, and the largest is the size. */
START_TEST(base_one_is_taken_at_its_word)
{
    struct binary_file f = some(0);
    struct ts_build_options o = options(out);
    o.base = 1;
    o.base_said = 1;
    write_form(part[0], &f);
    ck_assert_int_eq(build_part(&o, 0), TS_EFORMAT);
    ck_assert_msg(
        strstr(err.text, "byte 40: index 0 of nonzero 1 in mode 1, but with first_index 1") != NULL,
        "%s", err.text);
    f.base = 1;
    write_form(part[0], &f);
    ck_assert_msg(build_part(&o, 0) == 0, "%s", err.text);
    ck_assert_uint_eq(report.nnz, 3);
}
END_TEST

/* Values are rounded once, or kept; what is 0 then is dropped. */
START_TEST(values_keep_what_is_asked_for)
{
    const double value[] = { 0.1, -0.0, 1e-300 };
    struct binary_file f = some(1);
    struct ts_build_options o = options(out);
    f.value = value;
    write_form(part[0], &f);
    ck_assert_msg(build_part(&o, 0) == 0, "%s", err.text);
    ck_assert_uint_eq(report.nnz, 1);
    ck_assert_uint_eq(report.n_zeros, 2);
    o.value_bytes = 8;
    o.force = 1;
    ck_assert_msg(build_part(&o, 0) == 0, "%s", err.text);
    ck_assert_uint_eq(report.nnz, 2);
    ck_assert_uint_eq(report.n_zeros, 1);
}
END_TEST

/* ------------------------------------------------------------------ samples */

static uint64_t n_put, n_done, last_index;
static int apart;

static int count_put(void *self, uint64_t number, const struct ts_batch *b)
{
    (void)self;
    ck_assert_uint_ne(number, TS_SINK_ANY);
    n_put += b->n_read;
    apart |= b->n > 0 && n_put > b->n && b->index[0] > last_index + 1;
    last_index = b->n > 0 ? b->index[(b->n - 1) * b->order] : last_index;
    return 0;
}

static void count_end(void *self)
{
    (void)self;
    n_done++;
}

static void count_fail(void *self, uint64_t number, const struct ts_err *why, const char *name,
                       uint32_t file, uint64_t line)
{
    (void)self;
    (void)number;
    (void)name;
    (void)file;
    (void)line;
    ck_abort_msg("%s", why->text);
}

/* A tenth is read in pieces from end to end, none of them twice. */
START_TEST(a_sample_is_spread_over_the_file)
{
    const uint64_t n = 100000, dim[] = { n, 2 };
    struct list l = list_new(2, n);
    const char *path = part[0];
    struct ts_files_plan plan = { .paths = &path,
                                  .n_paths = 1,
                                  .piece_bytes = 6 * 997,
                                  .read_bytes = 1 << 20,
                                  .threads = 1,
                                  .value_bytes = 4,
                                  .share = 0.1 };
    const struct ts_sink sink = { .put = count_put, .done = count_end, .fail = count_fail };
    struct ts_binary_source *s;
    struct ts_source source;
    uint64_t bytes, total;
    for (uint64_t i = 0; i < n; i++) {
        l.index[2 * i] = i;
        l.index[2 * i + 1] = i % 2;
        l.value[i] = 1;
    }
    struct binary_file f = form_of(&l, dim, _i, 4, 4);
    write_form(part[0], &f);
    ck_assert_msg(ts_binary_source_open(&plan, &s, &err) == 0, "%s", err.text);
    source = ts_binary_source_as_source(s);
    ck_assert_int_eq(source.start(source.self, &sink, &err), 0);
    source.stop(source.self);
    source.progress(source.self, &bytes, &total);
    ts_binary_source_close(s);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_ge(n_put, n / 10);
    ck_assert_uint_le(n_put, n / 10 + 997);
    ck_assert(apart);
    ck_assert_uint_gt(last_index, n / 10 * 8);
    ck_assert_uint_gt(total, 12 * n);
    ck_assert_uint_ge(bytes, 12 * n_put);
    ck_assert_uint_lt(bytes, 12 * n_put + 200);
    list_free(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("binary_source");
    TCase *t = tcase_create("built");
    tcase_add_checked_fixture(t, setup_files, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, variants_come_to_the_bytes_of_text, 2, 9);
    tcase_add_loop_test(t, same_bytes_however_it_is_read, 0, 4);
    tcase_add_test(t, files_are_parts);
    tcase_add_test(t, values_keep_what_is_asked_for);
    tcase_add_loop_test(t, a_sample_is_spread_over_the_file, 0, 2);
    suite_add_tcase(s, t);
    t = tcase_create("wrong");
    tcase_add_checked_fixture(t, setup_files, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_truncation_is_refused, 0, 2);
    tcase_add_loop_test(t, damage_is_named, 0, sizeof damages / sizeof *damages);
    tcase_add_test(t, the_first_mistake_is_the_one_told);
    tcase_add_test(t, base_one_is_taken_at_its_word);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
