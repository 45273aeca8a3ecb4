/* What the programs share: JSON that any parser reads, messages that name their command. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tools/tool.h"

struct args {
    uint32_t rank;
    int json;
    const char *out;
};
#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { "rank", 'r', TS_OPT_U32, AT(rank), "16", "N", "columns" },
    { "out", 'o', TS_OPT_STRING, AT(out), NULL, "DIR", "where to" },
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "JSON" },
    { 0 },
};

static int run(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct args args;
    uint32_t n;
    char *operand[8];
    struct tool_json j;
    int status = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (status >= 0)
        return status;
    if (n == 1)
        return tool_fail(cmd, &(struct ts_err){ .code = TS_EIO, .text = "it broke" });
    tool_json_open(&j, stdout);
    tool_json_options(&j, cmd, &args);
    tool_json_close(&j);
    return 0;
}
static const struct ts_cmd cmd = { "prog", "do", "[X]", 0, 1, "does it", NULL, NULL, opts, run };
static const struct ts_cmd *const cmds[] = { &cmd, NULL };

/* Runs tool_main in this process with standard output and error in files; returns what was written
 * to them, and the status. */
static char out[4096], errors[4096];
static int status_of(int argc, const char *const argv[])
{
    FILE *to = tmpfile(), *err = tmpfile();
    const int old_out = dup(1), old_err = dup(2);
    int status;
    fflush(stdout);
    dup2(fileno(to), 1);
    dup2(fileno(err), 2);
    status = tool_main("prog", "tests", cmds, argc, (char **)(uintptr_t)argv);
    fflush(stdout);
    dup2(old_out, 1);
    dup2(old_err, 2);
    close(old_out);
    close(old_err);
    rewind(to);
    rewind(err);
    out[fread(out, 1, sizeof out - 1, to)] = '\0';
    errors[fread(errors, 1, sizeof errors - 1, err)] = '\0';
    fclose(to);
    fclose(err);
    return status;
}

START_TEST(commands_are_dispatched)
{
    ck_assert_int_eq(status_of(4, (const char *[]){ "prog", "do", "-r", "8" }), 0);
    ck_assert_str_eq(out, "{\"options\":{\"rank\":8,\"out\":null,\"json\":false}}\n");
    ck_assert_str_eq(errors, "");
    ck_assert_int_eq(status_of(3, (const char *[]){ "prog", "do", "x" }), 1);
    ck_assert_str_eq(errors, "prog do: it broke\n");
    ck_assert_int_eq(status_of(3, (const char *[]){ "prog", "do", "--rnk" }), 2);
    ck_assert_str_eq(errors, "prog do: unknown option '--rnk'; did you mean '--rank'?\n"
                             "Try 'prog do --help'.\n");
    ck_assert_int_eq(status_of(2, (const char *[]){ "prog", "od" }), 2);
    ck_assert_str_eq(errors,
                     "prog: unknown command 'od'; did you mean 'do'?\nTry 'prog --help'.\n");
    ck_assert_int_eq(status_of(1, (const char *[]){ "prog" }), 2);
    ck_assert_int_eq(status_of(3, (const char *[]){ "prog", "do", "--help" }), 0);
    ck_assert_ptr_nonnull(strstr(out, "-r, --rank=N"));
    ck_assert_int_eq(status_of(3, (const char *[]){ "prog", "help", "do" }), 0);
    ck_assert_ptr_nonnull(strstr(out, "-r, --rank=N"));
    ck_assert_int_eq(status_of(3, (const char *[]){ "prog", "help", "od" }), 2);
    ck_assert_ptr_nonnull(strstr(errors, "unknown command 'od'; did you mean 'do'?"));
}
END_TEST

START_TEST(nothing_is_written_into_the_tensor_itself)
{
    struct ts_err err;
    ck_assert_int_eq(tool_outside("x", "/tmp", &err), 0);
    ck_assert_int_eq(tool_outside("/tmp", "/tmp", &err), 0); /* refused by whoever opens it */
    ck_assert_int_eq(tool_outside("/tmp/../tmp/index", "/tmp/", &err), TS_EARG);
    ck_assert_int_eq(tool_outside("/tmp/new/", "/tmp", &err), TS_EARG);
    ck_assert_int_eq(tool_outside("/no/such/place", "/tmp", &err), 0);
}
END_TEST

START_TEST(a_failure_to_print_keeps_its_reason)
{
    struct ts_err err;
    const int old = dup(1), full = open("/dev/full", O_WRONLY);
    int rc;
    fflush(stdout);
    dup2(full, 1);
    printf("lost");
    tool_flush();
    errno = ENOENT; /* what is done between may fail in its own way */
    rc = tool_flushed(&err);
    dup2(old, 1);
    close(old);
    close(full);
    ck_assert_int_eq(rc, TS_EIO);
    ck_assert_int_eq(err.sys, ENOSPC);
}
END_TEST

START_TEST(json_is_escaped_and_exact)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    struct tool_json j;
    tool_json_open(&j, f);
    tool_json_str(&j, "s", "a\"b\\c\n\t\x01 \xc3\xa9 \xe9 \xed\xa0\x80 \xf0\x9f\x98\x80");
    tool_json_f64(&j, "third", 1.0 / 3);
    tool_json_f64(&j, "nan", (double)NAN);
    tool_json_array(&j, "a");
    tool_json_u64(&j, NULL, UINT64_MAX);
    tool_json_i64(&j, NULL, INT64_MIN);
    tool_json_object(&j, NULL);
    tool_json_bool(&j, "yes", 1);
    tool_json_close(&j);
    tool_json_array(&j, NULL);
    tool_json_close(&j);
    tool_json_close(&j);
    tool_json_str(&j, "none", NULL);
    tool_json_close(&j);
    fclose(f);
    ck_assert_str_eq(text, "{\"s\":\"a\\\"b\\\\c\\n\\t\\u0001 \xc3\xa9 \\u00e9 \\u00ed\\u00a0\\u0080 "
                           "\xf0\x9f\x98\x80\",\"third\":0.33333333333333331,\"nan\":null,"
                           "\"a\":[18446744073709551615,-9223372036854775808,{\"yes\":true},[]],"
                           "\"none\":null}\n");
    free(text);
}
END_TEST

START_TEST(progress_is_silent_without_a_terminal)
{
    struct tool_progress p;
    FILE *err = tmpfile();
    const int old = dup(2);
    dup2(fileno(err), 2);
    tool_progress_start(&p, "reading", "bytes", 100);
    for (uint64_t i = 0; i < 100; i++)
        tool_progress_update(&p, i);
    tool_progress_end(&p);
    dup2(old, 2);
    close(old);
    ck_assert_int_eq(fseek(err, 0, SEEK_END), 0);
    ck_assert_int_eq(ftell(err), 0);
    fclose(err);
}
END_TEST

START_TEST(the_first_signal_is_a_request)
{
    tool_catch_signals();
    ck_assert_int_eq(tool_stop, 0);
    raise(SIGTERM);
    ck_assert_int_eq(tool_stop, SIGTERM);
    raise(SIGTERM); /* at once, as timeout(1) does: the same request */
    ck_assert_int_eq(tool_stop, SIGTERM);
    usleep(300000);
    raise(SIGTERM); /* a second one kills: the test expects that */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tool");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, commands_are_dispatched);
    tcase_add_test(tc, nothing_is_written_into_the_tensor_itself);
    tcase_add_test(tc, json_is_escaped_and_exact);
    tcase_add_test(tc, progress_is_silent_without_a_terminal);
    tcase_add_test(tc, a_failure_to_print_keeps_its_reason);
    tcase_add_test_raise_signal(tc, the_first_signal_is_a_request, SIGTERM);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
