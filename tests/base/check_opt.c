/* SPDX-License-Identifier: BSD-3-Clause */
/* The option table: what is parsed, what is refused with which sentence, and what --help shows. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "tests/support/run_suite.h"

struct args {
    int json, init;
    uint32_t rank;
    uint64_t nnz, memory, every;
    double tol;
    const char *out;
    struct ts_opt_list map;
    struct ts_opt_numbers sizes;
};

#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { "rank", 'r', TS_OPT_U32, AT(rank), "16", "N", "columns of each factor matrix" },
    { "nnz", 0, TS_OPT_U64, AT(nnz), "1M", "N", "nonzeros" },
    { "memory", 'm', TS_OPT_SIZE, AT(memory), "64M", "SIZE", "bytes" },
    { "tol", 0, TS_OPT_DOUBLE, AT(tol), "1e-5", "X",
      "stop when the fit changes by less than X between two sweeps, which is what a program that "
      "does not know better would do, too" },
    { "out", 'o', TS_OPT_STRING, AT(out), NULL, "DIR", "where the factors go" },
    { "init", 0, TS_OPT_CHOICE, AT(init), "random", "zero|random|file", "how to start" },
    { "map", 0, TS_OPT_LIST, AT(map), NULL, "K=FILE", "labels of mode K" },
    { "json", 'j', TS_OPT_FLAG, AT(json), NULL, NULL, "write JSON" },
    { "every", 0, TS_OPT_DURATION, AT(every), "5m", "TIME", "how often" },
    { "sizes", 0, TS_OPT_NUMBERS, AT(sizes), "16", "N,...", "one or several" },
    { 0 },
};
static struct ts_cmd cmd = {
    .program = "prog",
    .name = "do",
    .operands = "FILE...",
    .min_operands = 1,
    .max_operands = 2,
    .summary = "does it",
    .text = "One paragraph.\n\n.Another one, with 'quotes'.",
    .examples = "prog do x\n  does x\n",
    .opts = opts,
};

static struct args args;
static struct ts_err err;
static uint32_t n_operands;
static char *operand[16];
static uint64_t given;

/* Parses words divided by blanks. */
static int parse(const char *line)
{
    static char copy[512];
    char *argv[16] = { "do" };
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok(copy, " "); w != NULL; w = strtok(NULL, " "))
        argv[argc++] = w;
    memset(&args, 0xff, sizeof args);
    memset(&err, 0, sizeof err);
    return ts_opt_parse(&cmd, argc, argv, &args, &n_operands, operand, &given, &err);
}

START_TEST(defaults_are_set)
{
    ck_assert_int_eq(parse("x"), 0);
    ck_assert_uint_eq(args.rank, 16);
    ck_assert_uint_eq(args.nnz, 1000000);
    ck_assert_uint_eq(args.memory, 64 << 20);
    ck_assert_double_eq(args.tol, 1e-5);
    ck_assert_ptr_null(args.out);
    ck_assert_int_eq(args.init, 1);
    ck_assert_int_eq(args.json, 0);
    ck_assert_uint_eq(args.map.n, 0);
    ck_assert_uint_eq(args.every, UINT64_C(300000000000));
    ck_assert_uint_eq(given, 0);
}
END_TEST

START_TEST(numbers_are_one_or_several)
{
    static const struct ts_opt *const o = &opts[sizeof opts / sizeof *opts - 2];
    static const char *const wrong[] = {
        ",", "1,", ",1", "1,,2", "a", "1,-2", "4294967296", "1;2"
    };
    char text[64], many[2 * TS_OPT_NUMBERS_MAX + 16] = "--sizes=1";
    ck_assert_int_eq(parse("x"), 0);
    ck_assert_uint_eq(args.sizes.n, 1);
    ck_assert_uint_eq(args.sizes.at[0], 16);
    ck_assert_int_eq(parse("--sizes 8,16 --sizes=3,1,2 x"), 0); /* the last one counts */
    ck_assert_uint_eq(args.sizes.n, 3);
    ts_opt_text(o, &args, text, sizeof text);
    ck_assert_str_eq(text, "3,1,2");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[64];
        snprintf(line, sizeof line, "--sizes=%s x", wrong[i]);
        ck_assert_int_eq(parse(line), TS_EARG);
        ck_assert_ptr_nonnull(strstr(err.text, "several divided by commas"));
    }
    for (int i = 1; i < TS_OPT_NUMBERS_MAX; i++)
        strcat(many, ",1");
    strcat(many, " x");
    ck_assert_int_eq(parse(many), 0);
    ck_assert_uint_eq(args.sizes.n, TS_OPT_NUMBERS_MAX);
    many[strlen(many) - 2] = '\0';
    strcat(many, ",1 x");
    ck_assert_int_eq(parse(many), TS_EARG);
}
END_TEST

START_TEST(every_form_is_taken)
{
    ck_assert_int_eq(parse("-r8 a --memory=2G --json --init file -o dir --map 1=a --map=2=b b"), 0);
    ck_assert_uint_eq(args.rank, 8);
    ck_assert_uint_eq(args.memory, UINT64_C(2) << 30);
    ck_assert_int_eq(args.json, 1);
    ck_assert_int_eq(args.init, 2);
    ck_assert_str_eq(args.out, "dir");
    ck_assert_uint_eq(args.map.n, 2);
    ck_assert_str_eq(args.map.item[1], "2=b");
    ck_assert_uint_eq(n_operands, 2);
    ck_assert_str_eq(operand[1], "b");
    ck_assert_uint_eq(given, 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7);
    ck_assert_int_eq(parse("-jr 8 -- --rank"), 0);
    ck_assert_uint_eq(args.rank, 8);
    ck_assert_str_eq(operand[0], "--rank");
    ck_assert_int_eq(parse("-"), 0);
    ck_assert_str_eq(operand[0], "-");
}
END_TEST

START_TEST(numbers_mean_what_they_say)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {
        { "0", 0 },
        { "4096", 4096 },
        { "64K", 65536 },
        { "1.5G", UINT64_C(3) << 29 },
        { "2MiB", 2 << 20 },
        { "1t", UINT64_C(1) << 40 },
        { "16383P", UINT64_C(16383) << 50 },
        { "18446744073709551615", UINT64_MAX },
        { "1e3", 1000 },
    };
    static const char *const bad[] = {
        "",     "-1", "M",   "12Q", "16384P", "18446744073709551616", "1.0001", "1e40",
        "0x10", "5 ", "1KB", "nan", "+3"
    };
    uint64_t n;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_msg(ts_opt_size(sizes[i].text, &n, &err) == 0, "%s", sizes[i].text);
        ck_assert_uint_eq(n, sizes[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(ts_opt_size(bad[i], &n, &err) == TS_EARG, "'%s' was taken", bad[i]);
    ck_assert_int_eq(parse("x --nnz 10M"), 0);
    ck_assert_uint_eq(args.nnz, 10000000);
    ck_assert_int_eq(parse("x --nnz 1e9 --tol -2.5e-3"), 0);
    ck_assert_uint_eq(args.nnz, 1000000000);
    ck_assert_double_eq(args.tol, -2.5e-3);
}
END_TEST

START_TEST(durations_have_units)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {
        { "0", 0 },
        { "30s", 30000 },
        { "5m", 300000 },
        { "11h30m", 41400000 },
        { "250ms", 250 },
        { "1m500ms", 60500 },
        { "2d", 172800000 },
        { "1d1h1m1s1ms", 90061001 },
        { "0s", 0 },
        { "90m", 5400000 },
        { "18446744073s", UINT64_C(18446744073000) },
    };
    static const char *const bad[] = {
        "",     "5",      "m",    "-5m", "5 m",          "5m ",
        "1.5h", "30m11h", "5m5m", "5M",  "18446744074s", "99999999999999999999s",
        "5sm",  "5x",     "00"
    };
    uint64_t n;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(ts_opt_duration(good[i].text, &n, &err) == 0, "%s", good[i].text);
        ck_assert_uint_eq(n, good[i].ms * 1000000);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(ts_opt_duration(bad[i], &n, &err) == TS_EARG, "'%s' was taken", bad[i]);
    ck_assert_int_eq(parse("x --every 1h"), 0);
    ck_assert_uint_eq(args.every, UINT64_C(3600000000000));
}
END_TEST

START_TEST(mistakes_get_a_sentence)
{
    static const struct {
        const char *line, *text;
    } want[] = {
        { "x --rnak 3", "unknown option '--rnak'; did you mean '--rank'?" },
        { "x --mem 3", "unknown option '--mem'; did you mean '--memory'?" },
        { "x --hlep", "unknown option '--hlep'; did you mean '--help'?" },
        { "x --xyzzyqq", "unknown option '--xyzzyqq'" },
        { "x -q", "unknown option '-q'" },
        { "x --rank", "option '--rank' needs a value, N" },
        { "x --rank=", "option '--rank': its value is empty" },
        { "x --out=", "option '--out': its value is empty" },
        { "x --map=", "option '--map': its value is empty" },
        { "x --rank=5000000000", "option '--rank': '5000000000' is not a whole number from 0 to "
                                 "4294967295" },
        { "x --rank=-1", "option '--rank': '-1' is not a whole number from 0 to 4294967295" },
        { "x --tol 3x", "option '--tol': '3x' is not a finite number" },
        { "x --tol inf", "option '--tol': 'inf' is not a finite number" },
        { "x --memory lots",
          "option '--memory': 'lots' is not a size; sizes are written 4096, 64K, "
          "64M, 1.5G" },
        { "x --every 5", "option '--every': '5' is not a duration; durations are written 30s, 5m, "
                         "11h30m" },
        { "x --init randon", "option '--init': 'randon' is none of zero|random|file; did you mean "
                             "'random'?" },
        { "x --json=1", "option '--json' takes no value" },
        { "", "an operand is missing; usage: prog do [OPTION...] FILE..." },
        { "a b c", "unexpected operand 'c'" },
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        ck_assert_int_eq(parse(want[i].line), TS_EARG);
        ck_assert_str_eq(err.text, want[i].text);
    }
}
END_TEST

START_TEST(help_is_asked_for)
{
    ck_assert_int_eq(parse("--help"), 1);
    ck_assert_int_eq(parse("x -h"), 2);
    ck_assert_int_eq(parse("-- --help"), 0);
}
END_TEST

static char *printed(void (*print)(const struct ts_cmd *, FILE *))
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    print(&cmd, f);
    fclose(f);
    return text;
}

START_TEST(help_shows_every_option_and_default_in_80_columns)
{
    char *text = printed(ts_opt_help);
    for (const struct ts_opt *o = opts; o->name != NULL; o++) {
        char name[64];
        snprintf(name, sizeof name, "--%s", o->name);
        ck_assert_ptr_nonnull(strstr(text, name));
    }
    ck_assert_ptr_nonnull(strstr(text, "Usage: prog do [OPTION...] FILE...\n"));
    ck_assert_ptr_nonnull(strstr(text, "columns of each factor matrix (default: 16)\n"));
    ck_assert_ptr_nonnull(strstr(text, "(default: 64M)"));
    ck_assert_ptr_nonnull(strstr(text, "--init=zero|random|file"));
    ck_assert_ptr_nonnull(strstr(text, "(may be repeated)"));
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        ck_assert_msg(strlen(line) < 80, "%s", line);
    free(text);
}
END_TEST

START_TEST(a_second_name_is_the_option)
{
    static const struct ts_opt_alias aliases[] = { { "columns", "rank" },
                                                   { "as-json", "json" },
                                                   { NULL, NULL } };
    char *text;
    cmd.aliases = aliases;
    ck_assert_int_eq(parse("--columns 8 --as-json x"), 0);
    ck_assert_uint_eq(args.rank, 8);
    ck_assert_int_eq(args.json, 1);
    ck_assert_uint_eq(given, 1 | 1 << 7);
    ck_assert_int_eq(parse("--columns=z x"), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "option '--rank'"));
    ck_assert_int_eq(parse("--as-json=1 x"), TS_EARG);
    ck_assert_str_eq(err.text, "option '--json' takes no value");
    ck_assert_int_eq(parse("--column 8 x"), TS_EARG);
    text = printed(ts_opt_help);
    ck_assert_ptr_null(strstr(text, "columns="));
    free(text);
    cmd.aliases = NULL;
    ck_assert_int_eq(parse("--columns 8 x"), TS_EARG);
}
END_TEST

START_TEST(brief_help_shows_first_sentences)
{
    char *text;
    cmd.brief = "rank init";
    text = printed(ts_opt_brief);
    cmd.brief = NULL;
    ck_assert_ptr_nonnull(strstr(text, "--rank=N"));
    ck_assert_ptr_nonnull(strstr(text, "--init=INIT "));
    ck_assert_ptr_null(strstr(text, "--memory"));
    ck_assert_ptr_nonnull(strstr(text, "\nExample:\n  prog do x\n"));
    ck_assert_ptr_nonnull(strstr(text, "'prog do --help' shows all options"));
    free(text);
    text = printed(ts_opt_brief);
    ck_assert_ptr_nonnull(strstr(text, "--memory"));
    free(text);
}
END_TEST

START_TEST(help_has_sections)
{
    static const char *const headings[] = { "Model", "Machine", "Output", NULL };
    static const unsigned char section[] = { 0, 0, 1, 0, 2, 0, 2, 2, 2, 0 };
    static const char *const order[] = { "\nOptions:\n", "\nModel:\n",  "--rank",  "--nnz",
                                         "--tol",        "--init",      "--sizes", "\nMachine:\n",
                                         "--memory",     "\nOutput:\n", "--out",   "--map",
                                         "--json",       "--every",     "--help",  NULL };
    char *text, *at;
    ck_assert_uint_eq(sizeof section, sizeof opts / sizeof *opts - 1);
    cmd.headings = headings;
    cmd.section = section;
    text = at = printed(ts_opt_help);
    for (size_t i = 0; order[i] != NULL; i++) {
        at = strstr(at, order[i]);
        ck_assert_msg(at != NULL, "no %s where it belongs in %s", order[i], text);
    }
    free(text);
    text = printed(ts_opt_man);
    cmd.headings = NULL;
    ck_assert_ptr_nonnull(strstr(text, ".SS Machine\n.TP\n.B \\-m, \\-\\-memory=SIZE\n"));
    free(text);
}
END_TEST

START_TEST(man_escapes_what_roff_would_read)
{
    char *text = printed(ts_opt_man);
    ck_assert_ptr_nonnull(strstr(text, "\n\\&.Another one"));
    ck_assert_ptr_nonnull(strstr(text, ".B \\-r, \\-\\-rank=N\n"));
    ck_assert_ptr_nonnull(strstr(text, ".B prog do\n"));
    free(text);
}
END_TEST

START_TEST(text_shows_values)
{
    static const char *const want[] = { "8",   "1000000", "67108864", "1.0000000000000001e-05",
                                        "",    "file",    "1=a,2=b",  "1",
                                        "90s", "16" };
    char buf[64];
    ck_assert_int_eq(parse("-r8 --json --init file --map 1=a --map=2=b --every 1m30s b"), 0);
    for (size_t i = 0; opts[i].name != NULL; i++) {
        ts_opt_text(&opts[i], &args, buf, sizeof buf);
        ck_assert_str_eq(buf, want[i]);
    }
    ts_opt_text(&opts[6], &args, buf, 4);
    ck_assert_str_eq(buf, "1=a");
    args.every = UINT64_C(1500000000);
    ts_opt_text(&opts[8], &args, buf, sizeof buf);
    ck_assert_str_eq(buf, "1500ms");
    args.every = 0;
    ts_opt_text(&opts[8], &args, buf, sizeof buf);
    ck_assert_str_eq(buf, "0");
}
END_TEST

START_TEST(old_names_are_taken_and_told_and_not_shown)
{
    static const struct ts_opt_alias aliases[] = { { "output", "out" },
                                                   { "ranks", "rank" },
                                                   { NULL, NULL } };
    static const struct {
        const char *word, *old, *instead;
    } want[] = {
        { "--out", "out", "output" },     { "--out=y", "out", "output" },
        { "--output=y", NULL, NULL },     { "-oy", NULL, NULL },
        { "--ranks=3", "ranks", "rank" }, { "--rank=3", NULL, NULL },
        { "--outer", NULL, NULL },
    };
    struct ts_cmd renamed = cmd;
    char help[8192] = "";
    FILE *f = fmemopen(help, sizeof help, "w");
    renamed.aliases = aliases;
    renamed.old_names = "out ranks";
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char word[32];
        char *argv[] = { "do", "x", word, "--", "--out", NULL };
        const char *instead = NULL, *old;
        snprintf(word, sizeof word, "%s", want[i].word);
        old = ts_opt_old(&renamed, 5, argv, &instead);
        ck_assert_msg((old == NULL) == (want[i].old == NULL), "%s", word);
        if (old != NULL) {
            ck_assert_str_eq(old, want[i].old);
            ck_assert_str_eq(instead, want[i].instead);
        }
        ck_assert_ptr_null(ts_opt_old(&cmd, 5, argv, &instead));
    }
    ck_assert_str_eq(ts_opt_shown(&renamed, &opts[4]).name, "output");
    ck_assert_str_eq(ts_opt_shown(&renamed, &opts[0]).name, "rank");
    ts_opt_help(&renamed, f);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(help, "-o, --output=DIR"));
    ck_assert_ptr_null(strstr(help, "--out="));
}
END_TEST

START_TEST(nearest_is_near)
{
    static const char *const names[] = { "build", "info", "verify", "export", "gen", NULL };
    char longer[200];
    memset(longer, 'b', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    ck_assert_str_eq(ts_opt_nearest("biuld", names), "build");
    ck_assert_str_eq(ts_opt_nearest("exprot", names), "export");
    ck_assert_str_eq(ts_opt_nearest("ver", names), "verify");
    ck_assert_str_eq(ts_opt_nearest("generate", names), "gen");
    ck_assert_ptr_null(ts_opt_nearest("qqqqqq", names));
    ck_assert_ptr_null(ts_opt_nearest("", names));
    ck_assert_ptr_null(ts_opt_nearest(longer, names));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("opt");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, defaults_are_set);
    tcase_add_test(tc, every_form_is_taken);
    tcase_add_test(tc, numbers_are_one_or_several);
    tcase_add_test(tc, numbers_mean_what_they_say);
    tcase_add_test(tc, durations_have_units);
    tcase_add_test(tc, mistakes_get_a_sentence);
    tcase_add_test(tc, help_is_asked_for);
    tcase_add_test(tc, help_shows_every_option_and_default_in_80_columns);
    tcase_add_test(tc, a_second_name_is_the_option);
    tcase_add_test(tc, help_has_sections);
    tcase_add_test(tc, brief_help_shows_first_sentences);
    tcase_add_test(tc, man_escapes_what_roff_would_read);
    tcase_add_test(tc, text_shows_values);
    tcase_add_test(tc, old_names_are_taken_and_told_and_not_shown);
    tcase_add_test(tc, nearest_is_near);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
