#include "config.h"

#include "tools/tool.h"

#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "tools/tool_line.h"

volatile sig_atomic_t tool_stop;

/* ---- messages ---- */

static void say(const struct ts_cmd *cmd, const char *text)
{
    tool_line_erase();
    fprintf(stderr, "%s%s%s: %s\n", cmd->program, cmd->name ? " " : "", cmd->name ? cmd->name : "",
            text);
}

int tool_fail(const struct ts_cmd *cmd, const struct ts_err *err)
{
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
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(cmd, text);
    hint(cmd);
    return 2;
}

void tool_note(const struct ts_cmd *cmd, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(cmd, text);
}

int tool_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
               char **operand, uint64_t *given)
{
    struct ts_err err;
    const int rc = ts_opt_parse(cmd, argc, argv, args, n_operands, operand, given, &err);
    if (rc == 0)
        return -1;
    if (rc > 0) {
        ts_opt_help(cmd, stdout);
        return 0;
    }
    say(cmd, err.text);
    hint(cmd);
    return 2;
}

/* ---- signals ---- */

#define AGAIN_NS UINT64_C(200000000) /* signals nearer to the first are the same request */

static _Atomic uint64_t stop_ns; /* when the first one came */

/* timeout(1), and a batch system's cancel, signal both a process and its group: what looks like a
 * second signal must not kill, which would leave half-made files. */
static void on_signal(int number)
{
    const uint64_t now = ts_clock_ns();
    if (tool_stop == 0) {
        stop_ns = now;
        tool_stop = number;
    } else if (now - stop_ns > AGAIN_NS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void tool_catch_signals(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_signal;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL);
}

/* ---- standard output ---- */

static int flush_errno; /* of the first failure, which errno has long lost when a command ends */

void tool_flush(void)
{
    if (fflush(stdout) != 0 && flush_errno == 0)
        flush_errno = errno;
}

int tool_flushed(struct ts_err *err)
{
    tool_flush();
    if (flush_errno == 0 && !ferror(stdout))
        return 0;
    errno = flush_errno != 0 ? flush_errno : EIO;
    return ts_fail_errno(err, TS_EIO, "standard output: cannot be written");
}

int tool_outside(const char *path, const char *tensor, struct ts_err *err)
{
    char *copy = strdup(path);
    struct stat there, own;
    int inside;
    if (copy == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    inside = stat(dirname(copy), &there) == 0 && stat(tensor, &own) == 0 &&
             there.st_dev == own.st_dev && there.st_ino == own.st_ino;
    free(copy);
    return inside ? ts_fail(err, TS_EARG, "%s: lies in the tensor %s itself; name another place", path,
                            tensor)
                  : 0;
}

/* ---- dispatch ---- */

static void help(const char *program, const char *summary, const struct ts_cmd *const cmds[])
{
    printf("Usage: %s COMMAND [OPTION...] [OPERAND...]\n\n%s %s.\n\nCommands:\n", program, program,
           summary);
    for (size_t i = 0; cmds[i] != NULL; i++)
        printf("  %-10s %s\n", cmds[i]->name, cmds[i]->summary);
    printf("\n'%s COMMAND --help' shows a command's options, '%s --version' the version.\n",
           program, program);
}

static void man(const char *program, const char *summary, const struct ts_cmd *const cmds[])
{
    printf(".TH \"%s\" 1 \"\" \"%s\" \"User Commands\"\n", program, PACKAGE_STRING);
    printf(".SH NAME\n%s \\- %s\n", program, summary);
    printf(".SH SYNOPSIS\n");
    for (size_t i = 0; cmds[i] != NULL; i++)
        printf("%s.B %s%s%s\n[\\fIOPTION\\fR...] %s\n", i > 0 ? ".br\n" : "", program,
               cmds[i]->name ? " " : "", cmds[i]->name ? cmds[i]->name : "", cmds[i]->operands);
    printf(".SH DESCRIPTION\nEach command is described below. Sizes are written 4096, 64K, 64M or\n"
           "1.5G (powers of 1024), counts 250, 10M or 1e9. Results go to standard output,\n"
           "everything else to standard error.\n");
    for (size_t i = 0; cmds[i] != NULL; i++)
        ts_opt_man(cmds[i], stdout);
    printf(".SH EXIT STATUS\n0 when done, 1 when it failed, 2 for wrong usage.\n");
    printf(".SH SEE ALSO\n.BR %s (1)\n", strcmp(program, "tshard") == 0 ? "tstream" : "tshard");
}

/* What was printed must have arrived: a full disk behind a redirection is a failure. */
static int finish(const char *program, int status)
{
    struct ts_err err;
    if (tool_flushed(&err) == 0 || status != 0)
        return status;
    fprintf(stderr, "%s: %s\n", program, err.text);
    return 1;
}

static int unknown(const char *program, const char *word, const struct ts_cmd *const cmds[])
{
    const char *names[32], *near;
    size_t n = 0;
    const int option = word[0] == '-';
    if (option) {
        names[n++] = "--help";
        names[n++] = "--version";
    }
    for (size_t i = 0; !option && cmds[i] != NULL && n < 31; i++)
        names[n++] = cmds[i]->name;
    names[n] = NULL;
    near = ts_opt_nearest(word, names);
    fprintf(stderr, "%s: unknown %s '%s'%s%s%s\nTry '%s --help'.\n", program,
            option ? "option" : "command", word, near ? "; did you mean '" : "", near ? near : "",
            near ? "'?" : "", program);
    return 2;
}

static int dispatch(const char *program, const char *summary, const struct ts_cmd *const cmds[],
                    int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (word != NULL && (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)) {
        printf("%s %s\n", program, PACKAGE_VERSION);
        return 0;
    }
    if (word != NULL && strcmp(word, "--help-man") == 0) { /* how the man pages are made */
        man(program, summary, cmds);
        return 0;
    }
    if (cmds[0]->name == NULL)
        return cmds[0]->run(cmds[0], argc, argv);
    if (word == NULL) {
        fprintf(stderr, "%s: a command is missing\nTry '%s --help'.\n", program, program);
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
        if (strcmp(cmds[i]->name, word) == 0)
            return cmds[i]->run(cmds[i], argc - 1, argv + 1);
    return unknown(program, word, cmds);
}

int tool_main(const char *program, const char *summary, const struct ts_cmd *const cmds[], int argc,
              char **argv)
{
    return finish(program, dispatch(program, summary, cmds, argc, argv));
}
