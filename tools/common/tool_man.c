/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the manual pages of a program: an overview and one page per command, from their tables. */
#include "config.h"

#include "tools/common/tool_man.h"

#include <ctype.h>
#include <string.h>

/* Writes text for roff: "-" and "\" escaped, and no request at the beginning of a line. */
static void roff(FILE *to, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", to);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '-')
            fputs("\\-", to);
        else
            fputc(*text, to);
    }
    fputc('\n', to);
}

/* Writes the name of a page: "tstream-cp", or the name of the program if a command has none. */
static void page_name(const struct tool_program *program, const struct ts_cmd *cmd, char *buf,
                      size_t size)
{
    const char *name = cmd != NULL && cmd->name != NULL ? cmd->name : NULL;
    snprintf(buf, size, "%s%s%s", program->name, name != NULL ? "-" : "", name != NULL ? name : "");
}

static void begin_page(const char *page, const char *summary, FILE *to)
{
    fputs(".TH \"", to);
    for (const char *p = page; *p != '\0'; p++)
        fputc(toupper((unsigned char)*p), to);
    fprintf(to, "\" 1 \"\" \"%s\" \"User Commands\"\n.SH NAME\n", PACKAGE_STRING);
    for (const char *p = page; *p != '\0'; p++)
        fprintf(to, "%s%c", *p == '-' ? "\\" : "", *p);
    fputs(" \\- ", to);
    roff(to, summary);
}

/* Whether an entry of a table concerns the command. An entry without a list of commands concerns
 * all. */
static int concerns(const struct tool_entry *e, const char *command)
{
    const size_t len = strlen(command);
    const char *at = e->commands;
    if (at == NULL)
        return 1;
    for (; *at != '\0'; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        if (n == len && strncmp(at, command, n) == 0)
            return 1;
        at += n;
    }
    return 0;
}

/* Writes the entries of a table that concern a command, or all entries if command is NULL. */
static void entries(FILE *to, const char *heading, const struct tool_entry *e, const char *command)
{
    int n = 0;
    for (; e != NULL && e->name != NULL; e++) {
        if (command != NULL && !concerns(e, command))
            continue;
        if (n++ == 0)
            fprintf(to, ".SH %s\n", heading);
        fputs(".TP\n.B ", to);
        roff(to, e->name);
        roff(to, e->text);
    }
}

static const struct tool_entry signals[] = {
    { "SIGINT, SIGTERM, SIGHUP",
      "The command cleans up, prints how to continue, and dies by the signal, so that a shell "
      "loop ends as well. A second signal, at least 0.2 s later, ends it at once. SIGHUP stays "
      "ignored under nohup.",
      NULL },
    { "SIGUSR1", "The command prints its progress on standard error.", NULL },
    { "SIGPIPE, SIGXFSZ", "Ignored: a failed write is reported as an error instead.", NULL },
    { 0 },
};

static const struct tool_entry status[] = {
    { "0", "Done.", NULL },
    { "1", "Failed; a message on standard error gives the cause.", NULL },
    { "2", "Wrong usage.", NULL },
    { "129, 130, 143", "Shown by a shell if SIGHUP, SIGINT or SIGTERM ended the command.", NULL },
    { 0 },
};

/* ---- the page of a command ---- */

/* Writes the names of related pages, which are separated by blanks in the table. */
static void related(const struct tool_program *program, const struct ts_cmd *cmd, FILE *to)
{
    const char *names = "";
    for (const struct tool_entry *e = program->related; e != NULL && e->name != NULL; e++)
        if (cmd->name != NULL && strcmp(e->name, cmd->name) == 0)
            names = e->text;
    fprintf(to, ".SH SEE ALSO\n.BR %s (1)", program->name);
    for (size_t n; *names != '\0'; names += n + strspn(names + n, " ")) {
        n = strcspn(names, " ");
        fputs(",\n.BR ", to);
        for (size_t i = 0; i < n; i++)
            fprintf(to, "%s%c", names[i] == '-' ? "\\" : "", names[i]);
        fputs(" (1)", to);
    }
    fputc('\n', to);
}

static void command_page(const struct tool_program *program, const struct ts_cmd *cmd, FILE *to)
{
    char page[64];
    page_name(program, cmd, page, sizeof page);
    begin_page(page, cmd->summary, to);
    ts_opt_man(cmd, to);
    entries(to, "FILES", program->files, cmd->name);
    entries(to, "ENVIRONMENT", program->environment, cmd->name);
    entries(to, "SIGNALS", signals, cmd->name);
    entries(to, "EXIT STATUS", status, cmd->name);
    related(program, cmd, to);
}

/* ---- the overview page ---- */

static void overview(const struct tool_program *program, FILE *to)
{
    begin_page(program->name, program->summary, to);
    fprintf(
        to,
        ".SH SYNOPSIS\n.B %s\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIOPERAND\\fR...]\n.br\n.B %s\n"
        "\\fICOMMAND\\fR \\-\\-help\n.br\n.B %s\n\\-\\-version\n.SH DESCRIPTION\n",
        program->name, program->name, program->name);
    roff(to, program->description);
    fputs(".PP\nEach command has its own page. Sizes are written 4096, 64K, 64M or 1.5G "
          "(powers\n"
          "of 1024), counts 250, 10M or 1e9, times 250ms, 30s or 11h30m. Results go to standard\n"
          "output, everything else to standard error. Options may stand before and behind "
          "operands;\n"
          "\\-\\- ends them.\n.SH COMMANDS\n",
          to);
    for (size_t i = 0; program->cmds[i] != NULL; i++) {
        fprintf(to, ".TP\n.BR %s\\-%s (1)\n", program->name, program->cmds[i]->name);
        roff(to, program->cmds[i]->summary);
    }
    entries(to, "FILES", program->files, NULL);
    entries(to, "ENVIRONMENT", program->environment, NULL);
    entries(to, "SIGNALS", signals, NULL);
    entries(to, "EXIT STATUS", status, NULL);
    fprintf(to, ".SH SEE ALSO\n.BR %s (1)", program->see_also);
    for (size_t i = 0; program->cmds[i] != NULL; i++)
        fprintf(to, ",\n.BR %s\\-%s (1)", program->name, program->cmds[i]->name);
    fputc('\n', to);
}

int tool_man(const struct tool_program *program, const char *command, FILE *to)
{
    if (command == NULL && program->cmds[0]->name != NULL) {
        overview(program, to);
        return 0;
    }
    for (size_t i = 0; program->cmds[i] != NULL; i++)
        if (command == NULL || strcmp(program->cmds[i]->name, command) == 0) {
            command_page(program, program->cmds[i], to);
            return 0;
        }
    return -1;
}
