/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs share: JSON that any parser reads, messages that name their command. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <math.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/run_suite.h"
#include "tools/common/tool.h"
#include "tools/common/tool_watch.h"

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
static const struct ts_cmd cmd = { .program = "prog",
                                   .name = "do",
                                   .operands = "[X]",
                                   .max_operands = 1,
                                   .summary = "does it",
                                   .opts = opts,
                                   .run = run };
static const struct ts_cmd *const cmds[] = { &cmd, NULL };
static const struct tool_program program = { .name = "prog", .summary = "tests", .cmds = cmds };

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
    status = tool_main(&program, argc, (char **)(uintptr_t)argv);
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

START_TEST(messages_do_not_act_on_a_terminal)
{
    char buf[64];
    ck_assert_str_eq(tool_plain("a \x1b[31m\tb\r\n\x7f \xc3\xa9 \xc2\x9b"
                                "2J \xc2\xa0",
                                buf, sizeof buf),
                     "a ?[31m?b??? \xc3\xa9 ?2J \xc2\xa0");
    ck_assert_str_eq(tool_plain("12345", buf, 4), "123");
    ck_assert_int_eq(status_of(3, (const char *[]){ "prog", "do", "--\x1b[2Jx" }), 2);
    ck_assert_str_eq(errors, "prog do: unknown option '--?[2Jx'\nTry 'prog do --help'.\n");
    ck_assert_int_eq(status_of(2, (const char *[]){ "prog", "\x1b[2J" }), 2);
    ck_assert_str_eq(errors, "prog: unknown command '?[2J'\nTry 'prog --help'.\n");
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
    ck_assert_str_eq(text,
                     "{\"s\":\"a\\\"b\\\\c\\n\\t\\u0001 \xc3\xa9 \\u00e9 \\u00ed\\u00a0\\u0080 "
                     "\xf0\x9f\x98\x80\",\"third\":0.33333333333333331,\"nan\":null,"
                     "\"a\":[18446744073709551615,-9223372036854775808,{\"yes\":true},[]],"
                     "\"none\":null}\n");
    free(text);
}
END_TEST

/* Standard error goes to a file, until error_text has it back. */
static FILE *error_file;
static int error_kept;
static void error_to_file(void)
{
    error_file = tmpfile();
    error_kept = dup(2);
    dup2(fileno(error_file), 2);
}

static const char *error_text(void)
{
    static char text[4096];
    dup2(error_kept, 2);
    close(error_kept);
    rewind(error_file);
    text[fread(text, 1, sizeof text - 1, error_file)] = '\0';
    fclose(error_file);
    return text;
}

static int like(const char *text, const char *pattern)
{
    regex_t re;
    int rc;
    ck_assert_int_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    rc = regexec(&re, text, 0, NULL, 0);
    regfree(&re);
    return rc == 0;
}

#define DATED "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} prog do: "

START_TEST(progress_is_silent_in_the_first_minute_of_a_log)
{
    struct tool_progress p;
    error_to_file();
    tool_progress_setup(&cmd, 0);
    tool_progress_start(&p, "reading", "bytes", 100);
    for (uint64_t i = 0; i < 100; i++)
        tool_progress_update(&p, i);
    tool_progress_tick();
    tool_progress_end(&p);
    ck_assert_str_eq(error_text(), "");
}
END_TEST

START_TEST(a_log_gets_a_line_with_date_and_time_every_minute)
{
    struct tool_progress p;
    const char *text;
    error_to_file();
    tool_progress_setup(&cmd, 0);
    tool_progress_every(0); /* minutes that are over at once */
    tool_progress_tick();   /* nothing is under way */
    tool_progress_start(&p, "phase 1/2, reading", "bytes", 0);
    tool_progress_update(&p, 3 << 20);
    tool_progress_tick();
    tool_progress_start(&p, "phase 2/2, sorting", "nonzeros", 200);
    tool_progress_rest(&p, 0, 2, "all about");
    tool_progress_update(&p, 50);
    tool_progress_tick();
    tool_progress_end(&p);
    tool_progress_tick();
    text = error_text();
    ck_assert_msg(like(text, DATED "phase 1/2, reading: 3.00 MiB, [0-9.]+ .iB/s\n"), "%s", text);
    ck_assert_ptr_nonnull(strchr(text, '\n'));
    text = strchr(text, '\n') + 1;
    ck_assert_msg(like(text,
                       DATED "phase 2/2, sorting: 25 %, left [0-9.]+ [mun]?s, all about [0-9.]+ "
                             "[mun]?s, 50.0 nonzeros, [0-9.]+ .? ?nonzeros/s\n$"),
                  "%s", text);
}
END_TEST

START_TEST(quiet_is_quiet_unless_asked)
{
    struct tool_progress p;
    const char *text;
    error_to_file();
    tool_progress_setup(&cmd, 1);
    tool_progress_every(0);
    tool_progress_start(&p, "reading", "bytes", 100);
    tool_progress_update(&p, 1);
    tool_progress_tick();
    tool_progress_tell();
    tool_progress_end(&p);
    text = error_text();
    ck_assert_msg(like(text, DATED "reading: [^\n]*\n$"), "%s", text);
}
END_TEST

static int count_of(const char *text, const char *what)
{
    int n = 0;
    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        n++;
    }
    return n;
}

static int has_terminals(void)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    const int there = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0;
    if (master >= 0)
        close(master);
    return there;
}

START_TEST(a_terminal_shows_one_line)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    struct pollfd there = { .fd = master, .events = POLLIN };
    struct tool_progress p;
    char text[4096];
    size_t have = 0;
    int slave, kept;
    ssize_t n;
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master) | unlockpt(master), 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    kept = dup(2);
    dup2(slave, 2);
    setenv("TERM", "xterm", 1);
    tool_progress_setup(&cmd, 0);
    tool_progress_start(&p, "reading", "bytes", 200);
    usleep(150000); /* a line is shown ten times a second */
    tool_progress_update(&p, 50);
    tool_progress_update(&p, 60); /* too early for another */
    tool_progress_name(&p, "still reading");
    tool_progress_tick();
    tool_progress_end(&p);
    dup2(kept, 2);
    text[0] = '\0';
    while (count_of(text, "\033[K") < 2 && have + 1 < sizeof text && poll(&there, 1, 10000) > 0 &&
           (n = read(master, text + have, sizeof text - 1 - have)) > 0) {
        have += (size_t)n; /* what a terminal is sent comes when the kernel likes */
        text[have] = '\0';
    }
    ck_assert_msg(like(text, "^reading: 25 %, left [0-9.]+ m?s, 50 B, [0-9]+ B/s\r\033\\[K"
                             "still reading: 30 %, left [0-9.]+ m?s, 60 B, [0-9]+ B/s\r\033\\[K$"),
                  "%s", text);
    close(slave);
    close(master);
    close(kept);
}
END_TEST

/* One area of a build is sorted for minutes: its threads count, and nobody calls update. */
START_TEST(a_phase_that_works_moves_and_never_says_0)
{
    _Atomic uint64_t work = 0;
    struct tool_progress p;
    const char *text;
    error_to_file();
    tool_progress_setup(&cmd, 0);
    tool_progress_start(&p, "phase 4/7, packing", "nonzeros", 1000);
    tool_progress_count(&p, &work, 3000);
    tool_progress_tell();
    text = error_text();
    ck_assert_msg(like(text, DATED "phase 4/7, packing: starting, [0-9.]+ [mun]?s\n$"), "%s", text);
    error_to_file();
    atomic_fetch_add(&work, 1500);
    tool_progress_tell();
    text = error_text();
    ck_assert_msg(like(text, DATED "phase 4/7, packing: 50 %, left [^,]*, 500 nonzeros, "), "%s",
                  text);
    error_to_file();
    tool_progress_update(&p, 400); /* said before the threads got on */
    atomic_store(&work, 9000);     /* more than was expected */
    tool_progress_tell();
    text = error_text();
    ck_assert_msg(like(text, DATED "phase 4/7, packing: 100 %, .* 1.00 k nonzeros, "), "%s", text);
    tool_progress_end(&p);
}
END_TEST

START_TEST(a_count_that_stands_still_says_for_how_long)
{
    struct tool_progress p;
    const char *text;
    error_to_file();
    tool_progress_setup(&cmd, 0);
    tool_progress_start(&p, "reading", "bytes", 0);
    tool_progress_update(&p, 5);
    tool_progress_tell();
    text = error_text();
    ck_assert_msg(like(text, "reading: 5 B, [^,]*B/s\n$"), "%s", text);
    usleep(1600000);
    error_to_file();
    tool_progress_tell();
    text = error_text();
    ck_assert_msg(like(text, "reading: 5 B, [^,]*B/s, unchanged for [12][.0-9]* s\n$"), "%s", text);
    error_to_file();
    tool_progress_start(&p, "writing", "", 0);
    tool_progress_tell();
    text = error_text();
    ck_assert_msg(like(text, "writing: working, [0-9.]+ [mun]?s\n$"), "%s", text);
    tool_progress_end(&p);
}
END_TEST

START_TEST(what_is_left_follows_from_the_rate_and_from_the_phase_before)
{
    const double second = 1e9;
    struct tool_progress_figures f;
    struct tool_progress p;
    tool_progress_start(&p, "sweep", "nonzeros", 100);
    tool_progress_get(&p, &f);
    ck_assert(!f.known); /* nothing done, and nothing known from before */
    tool_progress_rest(&p, (uint64_t)(10 * second), 4, "run at most");
    tool_progress_get(&p, &f);
    ck_assert(f.known);
    ck_assert_double_eq_tol((double)f.left_ns, 10 * second, second);
    ck_assert_double_eq_tol((double)f.whole_ns, 50 * second, 5 * second);
    p.start_ns -= (uint64_t)(20 * second); /* 20 s ago: it is slower than the one before */
    tool_progress_update(&p, 80);          /* a fifth of 10 s and four fifths of 25 s */
    tool_progress_get(&p, &f);
    ck_assert_double_eq_tol((double)f.left_ns, 0.2 * 22 * second, second);
    ck_assert_double_eq_tol((double)f.whole_ns, 4.2 * 22 * second, 5 * second);
    tool_progress_rest(&p, 0, 0, NULL);
    tool_progress_get(&p, &f);
    ck_assert_double_eq_tol((double)f.left_ns, 5 * second, second);
    ck_assert_uint_eq(f.whole_ns, 0);
    tool_progress_end(&p);
}
END_TEST

START_TEST(a_signal_prints_a_line_though_nothing_gets_done)
{
    struct tool_progress p;
    const char *text;
    struct stat st = { 0 };
    error_to_file();
    tool_progress_setup(&cmd, 1);
    tool_catch_signals();
    tool_progress_start(&p, "reading", "bytes", 100);
    raise(SIGUSR1);
    for (int i = 0; i < 500 && st.st_size == 0; i++) {
        usleep(10000);
        fstat(fileno(error_file), &st);
    }
    tool_watch_end();
    raise(SIGUSR1); /* too late, and no harm */
    tool_progress_end(&p);
    text = error_text();
    ck_assert_msg(like(text, DATED "reading: starting, [0-9.]+ [mun]?s\n$"), "%s", text);
    ck_assert_int_eq(tool_stop, 0);
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

START_TEST(a_hangup_is_a_request_unless_nohup_ignored_it)
{
    signal(SIGHUP, _i == 0 ? SIG_DFL : SIG_IGN);
    tool_catch_signals();
    raise(SIGHUP);
    ck_assert_int_eq(tool_stop, _i == 0 ? SIGHUP : 0);
}
END_TEST

START_TEST(time_that_is_over_is_a_request_and_no_signal)
{
    tool_catch_signals();
    tool_stop_after(20000000);
    ck_assert_int_eq(tool_stop, 0);
    for (int i = 0; i < 500 && tool_stop == 0; i++)
        usleep(10000);
    ck_assert_int_eq(tool_stop, SIGALRM);
    tool_signal_end(1); /* does not die of it */
    usleep(300000);
    raise(SIGTERM); /* the first signal, however late */
    ck_assert_int_eq(tool_stop, SIGTERM);
    tool_signal_end(0); /* nor when all was done */
    tool_signal_end(1); /* the test expects that this one kills */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tool");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, commands_are_dispatched);
    tcase_add_test(tc, messages_do_not_act_on_a_terminal);
    tcase_add_test(tc, nothing_is_written_into_the_tensor_itself);
    tcase_add_test(tc, json_is_escaped_and_exact);
    tcase_add_test(tc, progress_is_silent_in_the_first_minute_of_a_log);
    tcase_add_test(tc, a_log_gets_a_line_with_date_and_time_every_minute);
    tcase_add_test(tc, quiet_is_quiet_unless_asked);
    if (has_terminals())
        tcase_add_test(tc, a_terminal_shows_one_line);
    else
        puts("left out: no pseudo terminal can be had (is /dev/pts mounted?)");
    tcase_add_test(tc, a_phase_that_works_moves_and_never_says_0);
    tcase_add_test(tc, a_count_that_stands_still_says_for_how_long);
    tcase_add_test(tc, what_is_left_follows_from_the_rate_and_from_the_phase_before);
    tcase_add_test(tc, a_signal_prints_a_line_though_nothing_gets_done);
    tcase_add_test(tc, a_failure_to_print_keeps_its_reason);
    tcase_add_test_raise_signal(tc, the_first_signal_is_a_request, SIGTERM);
    tcase_add_loop_test(tc, a_hangup_is_a_request_unless_nohup_ignored_it, 0, 2);
    tcase_add_test_raise_signal(tc, time_that_is_over_is_a_request_and_no_signal, SIGTERM);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
