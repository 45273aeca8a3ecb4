/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints messages, dispatches commands, and ends a program. */
#include "config.h"

#include "tools/common/tool.h"

#include "tools/common/tool_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/tool_completion.h"
#include "tools/common/tool_line.h"
#include "tools/common/tool_man.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_term.h"
#include "tools/common/tool_version.h"
#include "tools/common/tool_watch.h"

/* ---- messages ---- */

const char *tool_plain(const char *text, char *buf, size_t size)
{
    size_t n = 0;
    while (*text != '\0') {
        char shown[5];
        const size_t bytes = tool_plain_next(&text, SIZE_MAX, shown);
        if (bytes >= size - n)
            break;
        memcpy(buf + n, shown, bytes);
        n += bytes;
    }
    buf[n] = '\0';
    return buf;
}

/* Prints text with line breaks between words; a terminal would break a long line inside words. */
static void print_words(const char *text, int columns)
{
    int at = 0;
    while (*text != '\0') {
        const size_t n = strcspn(text, " ");
        char word[sizeof((struct ts_err *)0)->text];
        int width;
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        width = tool_width(word);
        if (at > 0 && at + 1 + width > columns) {
            fputs("\n  ", stderr);
            at = 2;
        } else if (at > 0) {
            fputc(' ', stderr);
            at++;
        }
        fputs(word, stderr);
        at += width;
        text += n;
        text += *text == ' ';
    }
    fputc('\n', stderr);
}

static void say_as(const char *program, const char *command, const char *text)
{
    const int columns = tool_line_columns();
    char plain[sizeof((struct ts_err *)0)->text], line[sizeof plain + 64];
    tool_line_erase();
    snprintf(line, sizeof line, "%s%s%s: %s", program, command != NULL ? " " : "",
             command != NULL ? command : "", tool_plain(text, plain, sizeof plain));
    if (columns > 0 && tool_width(line) > columns)
        print_words(line, columns);
    else
        fprintf(stderr, "%s\n", line);
}

static void say(const struct ts_cmd *cmd, const char *text)
{
    say_as(cmd->program, cmd->name, text);
}

/* Whether the failure is that a reader closed the pipe, as in `tstream top | head`. This does not
 * count as a failure. */
static int is_closed_pipe(const struct ts_err *err)
{
    return err->code == TS_EIO && err->sys == EPIPE;
}

static struct ts_err failure; /* the last failure that was reported */

const struct ts_err *tool_failure(void)
{
    return &failure;
}

int tool_fail(const struct ts_cmd *cmd, const struct ts_err *err)
{
    failure = *err;
    if (!is_closed_pipe(err))
        say(cmd, err->text);
    return 1;
}

static void hint(const struct ts_cmd *cmd)
{
    fprintf(stderr, "Try '%s%s%s --help'.\n", cmd->program, cmd->name ? " " : "",
            cmd->name ? cmd->name : "");
}

int tool_usage(const struct ts_cmd *cmd, const char *fmt, ...)
{
    struct ts_err err;
    va_list ap;
    va_start(ap, fmt);
    ts_vfail(&err, TS_EARG, fmt, ap);
    va_end(ap);
    failure = err;
    say(cmd, err.text);
    hint(cmd);
    return 2;
}

void tool_note(const struct ts_cmd *cmd, const char *fmt, ...)
{
    struct ts_err err;
    va_list ap;
    va_start(ap, fmt);
    ts_vfail(&err, TS_EARG, fmt, ap);
    va_end(ap);
    say(cmd, err.text);
}

static int is_quiet(const struct ts_cmd *cmd, const void *args)
{
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
        if (strcmp(o->name, "quiet") == 0)
            return *(const int *)((const char *)args + o->at);
    return 0;
}

void tool_warn(const struct ts_cmd *cmd, const struct ts_err *warn)
{
    if (warn->code != 0)
        tool_note(cmd, "%s", warn->text);
}

static const struct ts_cmd *running; /* the command that runs; NULL: none, or it has ended */

int tool_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
               char **operand, uint64_t *given)
{
    struct ts_err err;
    int rc;
    if (operand == NULL) {
        say(cmd, "out of memory");
        return 1;
    }
    rc = ts_opt_parse(cmd, argc, argv, args, n_operands, operand, given, &err);
    if (rc == 0) {
        const char *instead, *old = ts_opt_old(cmd, argc, argv, &instead);
        if (old != NULL && tool_ranks_speaks())
            tool_note(cmd, "--%s is an old name, which the next release drops: use --%s", old,
                      instead);
        running = cmd;
        tool_progress_setup(cmd, is_quiet(cmd, args));
        tool_merge_setup(cmd, args, is_quiet(cmd, args));
        return -1;
    }
    if (rc > 0) {
        (rc == 2 ? ts_opt_brief : ts_opt_help)(cmd, stdout);
        return 0;
    }
    say(cmd, err.text);
    hint(cmd);
    return 2;
}

/* ---- the option --threads ---- */

int tool_threads_check(uint32_t threads, struct ts_err *err)
{
    return threads <= TS_MAX_THREADS
               ? 0
               : ts_fail(err, TS_EARG, "--threads must be at most %u", TS_MAX_THREADS);
}

/* ---- dispatch of commands ---- */

static void help(const char *program, const char *summary, const struct ts_cmd *const cmds[])
{
    printf("Usage: %s COMMAND [OPTION...] [OPERAND...]\n\n%s %s.\n\nCommands:\n", program, program,
           summary);
    for (size_t i = 0; cmds[i] != NULL; i++)
        printf("  %-10s %s\n", cmds[i]->name, cmds[i]->summary);
    printf(
        "\n'%s COMMAND -h' shows how to use a command, '--help' all of its options.\n'%s --version' shows the version.\n",
        program, program);
}

/* Flushes standard output and returns the exit status. If output was redirected to a full disk, the
 * command has failed. */
static int finish(const char *program, int status)
{
    struct ts_err err;
    tool_watch_end();
    if (tool_flushed(&err) == 0 || status != 0)
        return status;
    if (!is_closed_pipe(&err))
        say_as(program, NULL, err.text);
    return 1;
}

static const char *sibling; /* name of the other program (tstream or tshard), and its commands */
static const char *const *sibling_commands;

void tool_sibling(const char *program, const char *const commands[])
{
    sibling = program;
    sibling_commands = commands;
}

/* Prints a message if `word` is a command of the other program (tstream or tshard). */
static int say_sibling(const char *program, const char *word)
{
    struct ts_err err;
    for (size_t i = 0; sibling != NULL && sibling_commands[i] != NULL; i++)
        if (strcmp(sibling_commands[i], word) == 0) {
            ts_fail(&err, TS_EARG, "unknown command '%s'; that is %s %s", word, sibling, word);
            say_as(program, NULL, err.text);
            fprintf(stderr, "Try '%s %s --help'.\n", sibling, word);
            return 1;
        }
    return 0;
}

static int unknown(const char *program, const char *word, const struct ts_cmd *const cmds[])
{
    const char *names[32], *near;
    struct ts_err err;
    size_t n = 0;
    const int option = word[0] == '-';
    if (say_sibling(program, word))
        return 2;
    if (option) {
        names[n++] = "--help";
        names[n++] = "--version";
    }
    for (size_t i = 0; !option && cmds[i] != NULL && n < 31; i++)
        names[n++] = cmds[i]->name;
    names[n] = NULL;
    near = ts_opt_nearest(word, names);
    ts_fail(&err, TS_EARG, "unknown %s '%s'%s%s%s", option ? "option" : "command", word,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    say_as(program, NULL, err.text);
    fprintf(stderr, "Try '%s --help'.\n", program);
    return 2;
}

/* Handles --version, and the options that print man pages, completions and docs/options.md from
 * the option tables. Returns the exit status, or -1 for other arguments. */
static int about(const struct tool_program *program, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        tool_version_print(program->name, stdout);
        return 0;
    }
    if (strcmp(word, "--help-man") == 0 && argc <= 3 &&
        tool_man(program, argc == 3 ? argv[2] : NULL, stdout) == 0)
        return 0;
    if (strcmp(word, "--help-completion") == 0 && argc == 3 &&
        tool_completion(program, argv[2], stdout) == 0)
        return 0;
    if (strcmp(word, "--help-options") == 0 && argc == 2 && program->options_page != NULL) {
        program->options_page(stdout);
        return 0;
    }
    return -1;
}

static int (*before_command)(const struct ts_cmd *cmd, int argc, char **argv);

void tool_before_command(int (*call)(const struct ts_cmd *cmd, int argc, char **argv))
{
    before_command = call;
}

static int dispatch(const struct tool_program *self, int argc, char **argv)
{
    const char *program = self->name, *summary = self->summary;
    const struct ts_cmd *const *cmds = self->cmds;
    const char *word = argc > 1 ? argv[1] : NULL;
    const int status = about(self, argc, argv);
    if (status >= 0)
        return status;
    if (cmds[0]->name == NULL)
        return cmds[0]->run(cmds[0], argc, argv);
    if (word == NULL) {
        fprintf(stderr, "%s: a command is missing\n%sTry '%s --help'.\n", program,
                self->first_steps != NULL ? self->first_steps : "", program);
        return 2;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        for (size_t i = 0; argc > 2 && cmds[i] != NULL; i++)
            if (strcmp(cmds[i]->name, argv[2]) == 0) {
                ts_opt_help(cmds[i], stdout);
                return 0;
            }
        if (argc > 2)
            return unknown(program, argv[2], cmds);
        help(program, summary, cmds);
        return 0;
    }
    for (size_t i = 0; cmds[i] != NULL; i++)
        if (strcmp(cmds[i]->name, word) == 0) {
            const int ends =
                before_command == NULL ? -1 : before_command(cmds[i], argc - 1, argv + 1);
            return ends >= 0 ? ends : cmds[i]->run(cmds[i], argc - 1, argv + 1);
        }
    return unknown(program, word, cmds);
}

/* A program may be started without standard input, output or error. The first file that it opens
 * would then get that number, and output would go into it. This opens the missing ones for the
 * wrong direction, so that reading and printing fail as if they were closed. */
static void open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        const int how = fd == 0 ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF && open("/dev/null", how) < 0)
            (void)!open("/", O_RDONLY | O_DIRECTORY); /* without /dev, any existing file will do */
    }
}

/* ---- exit called by a library ---- */

/* Runs when a library calls exit, as libgomp does after a line on standard error that names the
 * cause. */
static void on_exit_by_others(void)
{
    const struct ts_cmd *cmd = running;
    running = NULL;
    if (cmd == NULL)
        return;
    ts_unfinished_undo();
    say(cmd, "ended by the OpenMP library, as the line above says; nothing half made is left");
}

/* Makes the C library return freed blocks of 128 KiB and more to the system. By default it raises
 * this size to that of the largest block freed, and keeps smaller freed blocks, which the memory
 * budget does not count. */
static void give_back(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

static void (*before_end)(int status);

void tool_before_end(void (*call)(int status))
{
    before_end = call;
}

int tool_main(const struct tool_program *program, int argc, char **argv)
{
    int status;
    give_back();
    ts_setting_words(TS_WORDS_OPTIONS);
    open_standard();
    atexit(on_exit_by_others);
    status = finish(program->name, dispatch(program, argc, argv));
    running = NULL;
    if (before_end != NULL)
        before_end(status);
    tool_signal_end(status);
    return status;
}
