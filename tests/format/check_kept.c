/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tensor keeps of its build: each option of tshard build is in the table or said not to
 * matter; a file gives back what was built; a row that differs alone is refused by its name; and an
 * append that takes the options over reads the same cells, or refuses. */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "build/kept_text.h"
#include "format/kept.h"
#include "tools/build/build_opts.h" /* before the global names of the next one */
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"

enum { SAME, MATCHED, GIVEN, FREE };

static const struct row {
    const char *key;
    int compared;
    const char *allowed, *words;
} rows[] = {
#define KEPT(id, key, of, compared, allowed, words) { key, compared, allowed, words },
#include "format/kept.def"
};

/* ---- the table ---- */

START_TEST(no_option_of_a_build_is_forgotten)
{
    static const char *const none[] = {
#define KEPT_NOT(option) option,
#include "format/kept.def"
    };
    const struct ts_opt opts[] = {
#define ROW(section, option, ...) { .name = option },
#include "tools/build/tshard_build.def"
        BUILD_OPTS(0),
    };
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++) {
        int found = ts_kept_by_option(opts[i].name) >= 0;
        for (size_t k = 0; k < sizeof none / sizeof *none; k++)
            found += strcmp(opts[i].name, none[k]) == 0;
        ck_assert_msg(found == 1,
                      "tshard build --%s: src/format/kept.def must say once whether a tensor keeps "
                      "it, and an append compares it",
                      opts[i].name);
    }
}
END_TEST

/* Two texts that a row may have. */
static void two_texts(const struct row *r, char a[16], char b[16])
{
    const char *second = strchr(r->allowed, '|');
    if (*r->allowed == '\0' || strcmp(r->allowed, "#") == 0 || *second == '\0') {
        strcpy(a, "3");
        strcpy(b, "4");
        return;
    }
    snprintf(a, 16, "%.*s", (int)(second - r->allowed), r->allowed);
    snprintf(b, 16, "%.*s", (int)strcspn(second + 1, "|"), second + 1);
    if (strcmp(b, "#") == 0)
        strcpy(b, "5");
}

START_TEST(a_row_that_differs_alone_is_refused_by_its_name)
{
    for (int i = 0; i < TS_N_KEPT; i++) {
        const enum ts_kept_id id = (enum ts_kept_id)i;
        struct ts_kept was = { .order = 3 }, is = { .order = 3 };
        const uint32_t m = ts_kept_of_mode(id) ? 2 : 0;
        char a[16], b[16], words[128], want[160];
        two_texts(&rows[i], a, b);
        ck_assert_msg(ts_kept_set(&was, id, m, a, &err) == 0, "%s: %s", rows[i].key, err.text);
        ck_assert_int_eq(ts_kept_set(&is, id, m, a, &err), 0);
        ck_assert_int_eq(ts_kept_check("x.tsh", &was, &is, &err), 0);
        ck_assert_int_eq(ts_kept_set(&is, id, m, b, &err), 0);
        if (rows[i].compared == FREE) {
            ck_assert_int_eq(ts_kept_check("x.tsh", &was, &is, &err), 0);
        } else {
            ck_assert_int_eq(ts_kept_check("x.tsh", &was, &is, &err), TS_EARG);
            ts_setting_write(rows[i].words, words, sizeof words);
            snprintf(want, sizeof want, "x.tsh: %s%s was '%s'", words,
                     ts_kept_of_mode(id) ? " of mode 3" : "", a);
            ck_assert_msg(strncmp(err.text, want, strlen(want)) == 0, "%s, not %s", err.text, want);
        }
        ck_assert_int_eq(ts_kept_set(&is, id, m, NULL, &err), 0); /* it does not apply */
        ck_assert_int_eq(ts_kept_check("x.tsh", &was, &is, &err), 0);
        ts_kept_free(&was);
        ts_kept_free(&is);
    }
}
END_TEST

/* ---- builds ---- */

static struct ts_table_plan plan;

static struct ts_build_options table_options(const char *to)
{
    struct ts_build_options o = options(to);
    plan = (struct ts_table_plan){ .separator = ',', .value = "stars" };
    o.table = &plan;
    o.force = 1;
    return o;
}

static void take(const char *path, struct ts_kept *k)
{
    struct ts_tensor *t;
    ck_assert_msg(ts_tensor_open(path, &t, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_kept_read(t, k, &err) == 1, "%s", err.text);
    ts_tensor_close(t);
}

static void assert_text(const struct ts_kept *k, enum ts_kept_id id, uint32_t m, const char *want)
{
    ck_assert_msg(k->text[id][m] != NULL && strcmp(k->text[id][m], want) == 0,
                  "%s of mode %u: %s, not %s", ts_kept_key(id), m + 1, k->text[id][m], want);
}

#define LINES "user,item,day,stars\nann,3,20240105,4\nben,1,20240112,2\nann,2,20240120,1\n"

static void build_base(struct ts_kept *k)
{
    struct ts_build_options o = table_options(out);
    write_text(LINES);
    plan.n_bins = 1;
    plan.binned[0] = "day";
    ck_assert_int_eq(ts_time_bin_parse("1w", &plan.bin[0], &err), 0);
    o.transform = (struct ts_transform){ TS_TRANSFORM_SCALE, 0.1 };
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    take(out, k);
}

START_TEST(a_build_is_kept)
{
    struct ts_kept k;
    build_base(&k);
    assert_text(&k, TS_KEPT_SOURCE, 0, "table");
    assert_text(&k, TS_KEPT_TRANSFORM, 0, "scale=0.1");
    assert_text(&k, TS_KEPT_HEADER, 0, "yes");
    assert_text(&k, TS_KEPT_VALUE, 0, "stars");
    assert_text(&k, TS_KEPT_COLUMN, 2, "day");
    assert_text(&k, TS_KEPT_FIELD, 0, "name");
    assert_text(&k, TS_KEPT_FIELD, 1, "number");
    assert_text(&k, TS_KEPT_FIELD, 2, "time");
    assert_text(&k, TS_KEPT_BIN, 2, "7d");
    assert_text(&k, TS_KEPT_TIME_UNIT, 2, "date");
    ck_assert_ptr_null(k.text[TS_KEPT_BIN][1]);
    ts_kept_free(&k);
}
END_TEST

/* An append of these lines, with some options said. */
static int append(const struct ts_kept *was, const char *lines, uint64_t said,
                  const struct ts_build_options *o)
{
    struct ts_build_options with = *o;
    int rc = ts_kept_adopt(was, said, &with, &plan, &err);
    with.like = was;
    with.like_path = "x.tsh";
    write_text(lines);
    return rc == 0 ? build(&with) : rc;
}

START_TEST(an_append_reads_the_same_cells)
{
    struct ts_build_options o;
    struct ts_kept was, is;
    build_base(&was);
    o = table_options(other);
    plan.value = NULL;
    ck_assert_msg(append(&was,
                         "stars,note,day,user,item\n4,x,20240105,ann,3\n2,y,20240112,ben,1\n"
                         "1,z,20240120,ann,2\n",
                         0, &o) == 0,
                  "%s", err.text);
    take(other, &is);
    assert_same_bytes(3);
    for (int i = 0; i < TS_N_KEPT; i++)
        for (uint32_t m = 0; m < 3; m++)
            ck_assert((was.text[i][m] == NULL) == (is.text[i][m] == NULL) &&
                      (was.text[i][m] == NULL || strcmp(was.text[i][m], is.text[i][m]) == 0));
    ts_kept_free(&is);
    o = table_options(other); /* a format that is given has its own separator */
    plan.value = NULL;
    plan.separator = '\t';
    ck_assert_msg(append(&was,
                         "user\titem\tday\tstars\nann\t3\t20240105\t4\nben\t1\t20240112\t2\n"
                         "ann\t2\t20240120\t1\n",
                         UINT64_C(1) << TS_KEPT_SOURCE, &o) == 0,
                  "%s", err.text);
    assert_same_bytes(3);
    ts_kept_free(&was);
}
END_TEST

/* The base of files that do not state it is that of such files before. */
START_TEST(the_base_of_texts_is_taken_over)
{
    struct ts_build_options o = options(out);
    struct ts_kept k;
    o.base = 0;
    write_text("0 1 2 5\n1 0 1 3\n");
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    take(out, &k);
    o = options(other);
    ck_assert_msg(append(&k, "0 1 2 5\n1 0 1 3\n", 0, &o) == 0, "%s", err.text);
    assert_same_bytes(3);
    ck_assert_int_eq(ts_kept_set(&k, TS_KEPT_TEXT_BASE, 0, NULL, &err), 0); /* no text was read */
    o.force = 1;
    ck_assert_int_eq(append(&k, "1 1 2 5\n2 1 1 3\n", 0, &o), TS_EARG);
    ck_assert_msg(strstr(err.text, "--base was '0'") != NULL, "%s", err.text);
    ts_kept_free(&k);
}
END_TEST

START_TEST(an_append_that_differs_is_refused)
{
    static const struct {
        enum ts_kept_id id;
        const char *lines, *why;
    } cases[] = {
        { TS_KEPT_TRANSFORM, LINES, "--transform was 'scale=0.1' in" },
        { TS_KEPT_VALUES, LINES, "--values was 'float32'" },
        { TS_KEPT_ZEROS, LINES, "--zeros was 'drop'" },
        { TS_KEPT_QUOTE, LINES, "--quote was 'double'" },
        { TS_KEPT_DECIMAL, LINES, "--decimal was '.'" },
        { TS_KEPT_NAMES, LINES, "--names was 'seen'" },
        { TS_KEPT_BIN, LINES, "--bin of mode 3 was '7d'" },
        { TS_KEPT_FIELD, LINES, "the kind of the fields of mode 2 was 'number'" },
        { TS_KEPT_VALUE, "user,item,day,stars,n\nann,3,20240105,4,9\n", "--value was 'stars'" },
        { TS_KEPT_TEXT_BASE, LINES, "--base was '1'" },
        /* nothing is said, and the file is another one */
        { TS_N_KEPT, "user,item,day,stars\nann,3,1704412800,4\n", "--time-unit of mode 3 was" },
        { TS_N_KEPT, "user,item,day,stars\nann,x,20240105,4\n",
          "the kind of the fields of mode 2" },
        { TS_N_KEPT, "user,things,day,stars\nann,3,20240105,4\n", "names column 'item'" },
        { TS_N_KEPT, "ann,3,20240105,4\nben,1,20240112,2\n", "names column" },
    };
    struct ts_kept was;
    build_base(&was);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ts_build_options o = table_options(other);
        const int id = (int)cases[i].id;
        plan.value = id == TS_KEPT_VALUE ? "n" : NULL;
        o.value_bytes = id == TS_KEPT_VALUES ? 8 : 4;
        o.zeros = id == TS_KEPT_ZEROS;
        o.sorted_names = id == TS_KEPT_NAMES;
        o.base = id != TS_KEPT_TEXT_BASE;
        plan.no_quotes = id == TS_KEPT_QUOTE;
        plan.decimal_comma = id == TS_KEPT_DECIMAL;
        if (id == TS_KEPT_FIELD)
            plan.text[plan.n_text++] = "item";
        if (id == TS_KEPT_BIN) {
            plan.binned[plan.n_bins] = "day";
            ck_assert_int_eq(ts_time_bin_parse("1mo", &plan.bin[plan.n_bins++], &err), 0);
        }
        ck_assert_msg(append(&was, cases[i].lines, id < TS_N_KEPT ? UINT64_C(1) << id : 0, &o) ==
                              TS_EARG &&
                          strstr(err.text, cases[i].why) != NULL,
                      "case %zu: %s", i, err.text);
        ck_assert(!exists(other, ""));
    }
    ts_kept_free(&was);
}
END_TEST

/* ---- the file ---- */

static void put_file(const char *bytes, size_t n)
{
    char path[4200];
    FILE *f;
    snprintf(path, sizeof path, "%s/" TS_KEPT_NAME, out);
    f = fopen(path, "wb");
    ck_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* What reading the file says: 1, or a refusal. */
static int read_file(const struct ts_tensor *t, struct ts_kept *k)
{
    const int rc = ts_kept_read(t, k, &err);
    ck_assert(rc == 1 || (rc < 0 && strstr(err.text, "/" TS_KEPT_NAME) != NULL));
    return rc;
}

START_TEST(a_hostile_file_is_refused)
{
    static const struct {
        const char *text;
        int taken;
    } cases[] = {
        { "", 1 },
        { "base=1\nfield.3=time\n", 1 },
        { "base=1\ncolour=red\n", 1 },
        { "colour.2=red\n", 1 },
        { "base=2\n", 0 },
        { "base=1\nbase=1\n", 0 },
        { "base.1=1\n", 0 },
        { "field=time\n", 0 },
        { "field.0=time\n", 0 },
        { "field.4=time\n", 0 },
        { "field.03=time\n", 0 },
        { "field.3 =time\n", 0 },
        { "field.99999999999999999999=time\n", 0 },
        { "base=\n", 0 },
        { "base\n", 0 },
        { "=1\n", 0 },
        { "\n", 0 },
        { "base=1", 0 },
        { "columns=-1\n", 0 },
        { "columns=99999999999999999999\n", 0 },
        { "transform=scale\n", 0 },
    };
    struct ts_tensor *t;
    struct ts_kept k;
    void *bytes;
    size_t n;
    build_base(&k);
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    ck_assert_int_eq(ts_kept_make(&k, t->hash, &bytes, &n, &err), 0);
    ts_kept_free(&k);
    for (size_t i = 0; i < n; i++) { /* a bit of each byte, and each shorter length */
        ((char *)bytes)[i] ^= 4;
        put_file(bytes, n);
        ck_assert_int_lt(read_file(t, &k), 0);
        ((char *)bytes)[i] ^= 4;
        put_file(bytes, i);
        ck_assert_int_lt(read_file(t, &k), 0);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t chars = strlen(cases[i].text);
        struct ts_disk_kept h;
        char file[512];
        uint64_t hash;
        memcpy(&h, bytes, sizeof h);
        h.text_bytes = chars;
        memcpy(file, &h, sizeof h);
        memcpy(file + sizeof h, cases[i].text, chars);
        hash = XXH3_64bits(file, sizeof h + chars);
        memcpy(file + sizeof h + chars, &hash, sizeof hash);
        put_file(file, sizeof h + chars + sizeof hash);
        ck_assert_msg((read_file(t, &k) == 1) == cases[i].taken, "'%s': %s", cases[i].text,
                      err.text);
        if (cases[i].taken && strstr(cases[i].text, "colour") != NULL) {
            ck_assert_int_eq(ts_kept_check("x.tsh", &k, &k, &err), TS_EARG);
            ck_assert_ptr_nonnull(strstr(err.text, "does not know: colour"));
        }
        ts_kept_free(&k);
    }
    free(bytes);
    ts_tensor_close(t);
}
END_TEST

START_TEST(kept_texts_are_checked_as_typed_ones)
{
    static const struct {
        enum ts_kept_id id;
        uint32_t mode;
        const char *text;
    } cases[] = {
        { TS_KEPT_TRANSFORM, 0, "scale=0" },
        { TS_KEPT_TRANSFORM, 0, "scale=nan" },
        { TS_KEPT_BIN, 2, "7" },
        { TS_KEPT_BIN, 2, "99999999999y" },
        { TS_KEPT_SEPARATOR, 0, "\"" },
        { TS_KEPT_SEPARATOR, 0, ",," },
        { TS_KEPT_COLUMN, 1, "99" },
        { TS_KEPT_VALUE, 0, "item" },
        { TS_KEPT_WEIGHTS, 0, "stars" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ts_build_options o;
        struct ts_kept was;
        build_base(&was);
        o = table_options(other);
        plan.value = NULL;
        ck_assert_int_eq(ts_kept_set(&was, cases[i].id, cases[i].mode, cases[i].text, &err), 0);
        ck_assert_msg(append(&was, LINES, 0, &o) == TS_EARG, "%s", cases[i].text);
        ts_kept_free(&was);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kept");
    TCase *t = tcase_create("kept");
    ts_setting_words(TS_WORDS_OPTIONS);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, no_option_of_a_build_is_forgotten);
    tcase_add_test(t, a_row_that_differs_alone_is_refused_by_its_name);
    tcase_add_test(t, a_build_is_kept);
    tcase_add_test(t, an_append_reads_the_same_cells);
    tcase_add_test(t, the_base_of_texts_is_taken_over);
    tcase_add_test(t, an_append_that_differs_is_refused);
    tcase_add_test(t, a_hostile_file_is_refused);
    tcase_add_test(t, kept_texts_are_checked_as_typed_ones);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
