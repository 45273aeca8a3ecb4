/* SPDX-License-Identifier: BSD-3-Clause */
/* The man page of a program: what its tables say, and what holds for all commands. */
#include "config.h"

#include "tools/tool_man.h"

#include <string.h>

/* Text as roff takes it: "-" and "\" escaped, no request where a line begins. */
static void roff(FILE *to, const char *text, size_t len)
{
    if (len > 0 && (*text == '.' || *text == '\''))
        fputs("\\&", to);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else
            fputc(text[i], to);
    }
    fputc('\n', to);
}

/* Pairs of lines, a name and what it is. */
static void pairs(FILE *to, const char *heading, const char *text)
{
    int name = 1;
    if (text == NULL)
        return;
    fprintf(to, ".SH %s\n", heading);
    while (*text != '\0') {
        const size_t len = strcspn(text, "\n");
        if (name)
            fputs(".TP\n.B ", to);
        roff(to, text, len);
        name = !name;
        text += len + (text[len] == '\n');
    }
}

static void synopsis(const struct tool_program *program, FILE *to)
{
    fputs(".SH SYNOPSIS\n", to);
    for (size_t i = 0; program->cmds[i] != NULL; i++) {
        const struct ts_cmd *cmd = program->cmds[i];
        fprintf(to, "%s.B %s%s%s\n[\\fIOPTION\\fR...] ", i > 0 ? ".br\n" : "", program->name,
                cmd->name ? " " : "", cmd->name ? cmd->name : "");
        roff(to, cmd->operands, strlen(cmd->operands));
    }
}

static const char signals[] =
    "SIGINT, SIGTERM, SIGHUP\n"
    "The command puts everything in order, says what there is to say, and dies by the signal, so that "
    "a loop of a shell ends with it. A second one, 0.2 s later or more, ends it at once. SIGHUP stays "
    "ignored under nohup.\n"
    "SIGUSR1\n"
    "A line on standard error tells how far the command is.\n"
    "SIGPIPE, SIGXFSZ\n"
    "Ignored: writing fails with a sentence instead.\n";

static const char status[] = "0\n"
                             "Done.\n"
                             "1\n"
                             "Failed; one sentence on standard error says why.\n"
                             "2\n"
                             "Wrong usage.\n"
                             "129, 130, 143\n"
                             "As a shell shows the death by SIGHUP, SIGINT or SIGTERM.\n";

void tool_man(const struct tool_program *program, FILE *to)
{
    fprintf(to, ".TH \"%s\" 1 \"\" \"%s\" \"User Commands\"\n", program->name, PACKAGE_STRING);
    fprintf(to, ".SH NAME\n%s \\- %s\n", program->name, program->summary);
    synopsis(program, to);
    fputs(".SH DESCRIPTION\n"
          "Each command is described below. Sizes are written 4096, 64K, 64M or\n"
          "1.5G (powers of 1024), counts 250, 10M or 1e9. Results go to standard output,\n"
          "everything else to standard error.\n",
          to);
    for (size_t i = 0; program->cmds[i] != NULL; i++)
        ts_opt_man(program->cmds[i], to);
    pairs(to, "FILES", program->files);
    pairs(to, "ENVIRONMENT", program->environment);
    pairs(to, "SIGNALS", signals);
    pairs(to, "EXIT STATUS", status);
    if (program->see_also != NULL)
        fprintf(to, ".SH SEE ALSO\n.BR %s (1)\n", program->see_also);
}
