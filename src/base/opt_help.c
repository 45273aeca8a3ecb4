/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes --help and the man page from the option table. */
#include <ctype.h>
#include <string.h>

#include "base/opt.h"

#define WIDTH     79
#define HELP_AT   26 /* column where the explanations start */
#define BRIEF_ARG 14 /* longest name of a value in -h; --help shows longer ones */

/* Writes the words up to `end` in lines of WIDTH columns. Further lines start at column `indent`.
 * *col: the current column. */
static void wrap(FILE *to, const char *text, const char *end, int indent, int *col)
{
    int first = 1;
    while (text < end) {
        const size_t blank = strspn(text, " \n");
        size_t len;
        text += blank;
        if (text >= end)
            break;
        len = strcspn(text, " \n");
        if (text + len > end)
            len = (size_t)(end - text);
        if (!first && *col + 1 + (int)len > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            *col = indent;
        } else if (!first) {
            fputc(' ', to);
            ++*col;
        }
        fwrite(text, 1, len, to);
        *col += (int)len;
        text += len;
        first = 0;
    }
}

/* Writes text as a sentence: "does it" becomes "Does it." */
static void sentence(const char *text, char *buf, size_t size)
{
    snprintf(buf, size, "%s.", text);
    buf[0] = (char)toupper((unsigned char)buf[0]);
}

/* Returns the next paragraph of text, up to *end; NULL if there is none. */
static const char *paragraph(const char *text, const char **end)
{
    text += strspn(text, "\n");
    if (*text == '\0')
        return NULL;
    *end = strstr(text, "\n\n");
    if (*end == NULL)
        *end = text + strlen(text);
    return text;
}

/* Writes an option as "-r, --rank=N". */
static void synopsis(const struct ts_opt *o, char *buf, size_t size)
{
    const char *arg = o->arg ? o->arg : "VALUE";
    char letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    if (o->type == TS_OPT_MODES)
        snprintf(buf, size, "%s--%s[=%s]", letter, o->name, arg);
    else
        snprintf(buf, size, "%s--%s%s%s", letter, o->name, o->type == TS_OPT_FLAG ? "" : "=",
                 o->type == TS_OPT_FLAG ? "" : arg);
}

/* Writes the explanation of an option, then its default. */
static void explain(const struct ts_opt *o, char *buf, size_t size)
{
    const int shown = o->type != TS_OPT_FLAG && o->def != NULL;
    snprintf(buf, size, "%s%s%s%s%s", o->help, shown ? " (default: " : "", shown ? o->def : "",
             shown ? ")" : "", o->type == TS_OPT_LIST ? " (may be repeated)" : "");
}

static void help_option(const struct ts_opt *o, FILE *to)
{
    char left[256], right[1536];
    int col;
    synopsis(o, left, sizeof left);
    explain(o, right, sizeof right);
    col = fprintf(to, "  %s", left);
    if (col > HELP_AT - 2) {
        fputc('\n', to);
        col = 0;
    }
    fprintf(to, "%*s", HELP_AT - col, "");
    col = HELP_AT;
    wrap(to, right, right + strlen(right), HELP_AT, &col);
    fputc('\n', to);
}

static const struct ts_opt help_opt = {
    "help", 'h', TS_OPT_FLAG, 0, NULL, NULL, "show this help and exit"
};

static int uses_letter(const struct ts_cmd *cmd, char letter)
{
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
        if (o->letter == letter)
            return 1;
    return 0;
}

static struct ts_opt own_help(const struct ts_cmd *cmd)
{
    struct ts_opt o = help_opt;
    if (uses_letter(cmd, 'h'))
        o.letter = 0;
    return o;
}

/* Writes the heading of a section of --help. */
static void help_heading(const char *section, FILE *to)
{
    fprintf(to, "\n%s:\n", section);
}

/* Calls `option` for all options, section by section, and `heading` for each section. */
static void each_option(const struct ts_cmd *cmd, FILE *to,
                        void (*heading)(const char *section, FILE *to),
                        void (*option)(const struct ts_opt *o, FILE *to))
{
    const char *const *headings = cmd->headings;
    size_t section = 0;
    do {
        if (headings != NULL)
            heading(headings[section], to);
        for (size_t i = 0; cmd->opts[i].name != NULL; i++)
            if (headings == NULL || cmd->section[i] == section) {
                const struct ts_opt shown = ts_opt_shown(cmd, &cmd->opts[i]);
                option(&shown, to);
            }
    } while (headings != NULL && headings[++section] != NULL);
}

static void help_usage(const struct ts_cmd *cmd, FILE *to)
{
    char summary[256];
    int col = 0;
    fprintf(to, "Usage: %s%s%s [OPTION...]%s%s\n\n", cmd->program, cmd->name ? " " : "",
            cmd->name ? cmd->name : "", cmd->operands[0] ? " " : "", cmd->operands);
    sentence(cmd->summary, summary, sizeof summary);
    wrap(to, summary, summary + strlen(summary), 0, &col);
    fputs("\n\n", to);
}

void ts_opt_help(const struct ts_cmd *cmd, FILE *to)
{
    const struct ts_opt help = own_help(cmd);
    const char *end, *p;
    int col;
    help_usage(cmd, to);
    for (p = cmd->text; p != NULL && (p = paragraph(p, &end)) != NULL; p = end) {
        col = 0;
        wrap(to, p, end, 0, &col);
        fputs("\n\n", to);
    }
    fputs("Options:\n", to);
    each_option(cmd, to, help_heading, help_option);
    help_option(&help, to);
    if (cmd->examples != NULL)
        fputs("\nExamples:\n", to);
    for (p = cmd->examples; p != NULL && *p != '\0'; p = end + (*end == '\n')) {
        end = p + strcspn(p, "\n");
        fprintf(to, "  %.*s\n", (int)(end - p), p);
    }
}

/* Writes an option for -h, with the first sentence of its help. The words of an option of type
 * CHOICE are left out if they are long. */
static void brief_option(const struct ts_opt *o, FILE *to)
{
    const char *end = strstr(o->help, ". ");
    char arg[32] = "", first[128];
    struct ts_opt shown = *o;
    snprintf(first, sizeof first, "%.*s", end != NULL ? (int)(end - o->help) : 120, o->help);
    for (size_t i = 0; o->name[i] != '\0' && i + 1 < sizeof arg; i++)
        arg[i] = (char)toupper((unsigned char)o->name[i]);
    shown.help = first;
    if (o->arg != NULL && strlen(o->arg) > BRIEF_ARG)
        shown.arg = arg;
    help_option(&shown, to);
}

void ts_opt_brief(const struct ts_cmd *cmd, FILE *to)
{
    const char *name = cmd->brief, *does;
    if (name == NULL) {
        ts_opt_help(cmd, to);
        return;
    }
    help_usage(cmd, to);
    for (size_t n; *name != '\0'; name += n + strspn(name + n, " ")) {
        n = strcspn(name, " ");
        const struct ts_opt shown = ts_opt_shown(cmd, ts_opt_named(cmd, name, n));
        brief_option(&shown, to);
    }
    does = strchr(cmd->examples, '\n') + 1;
    fprintf(to,
            "\nExample:\n  %.*s  %.*s\n\n"
            "'%s %s --help' shows all options, 'man %s-%s' is the manual.\n",
            (int)(does - cmd->examples), cmd->examples, (int)strcspn(does, "\n"), does,
            cmd->program, cmd->name, cmd->program, cmd->name);
}

/* ---- the man page, in the format of man(7) ---- */

static void roff(FILE *to, const char *text, const char *end)
{
    int start = 1; /* at the start of a line: a dot or a quote there would be a request of roff */
    for (; text < end; text++) {
        if (start && (*text == '.' || *text == '\''))
            fputs("\\&", to);
        if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '-')
            fputs("\\-", to);
        else
            fputc(*text, to);
        start = *text == '\n';
    }
}

static void roff_line(FILE *to, const char *text)
{
    roff(to, text, text + strlen(text));
    fputc('\n', to);
}

static void man_option(const struct ts_opt *o, FILE *to)
{
    char left[256], right[1536];
    synopsis(o, left, sizeof left);
    explain(o, right, sizeof right);
    fputs(".TP\n.B ", to);
    roff_line(to, left + strspn(left, " "));
    roff_line(to, right);
}

static void man_heading(const char *section, FILE *to)
{
    fputs(".SS ", to);
    roff_line(to, section);
}

static int has_type(const struct ts_cmd *cmd, enum ts_opt_type type)
{
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
        if (o->type == type)
            return 1;
    return 0;
}

/* Writes how to type the values of the options. */
static void man_values(const struct ts_cmd *cmd, FILE *to)
{
    if (has_type(cmd, TS_OPT_SIZE))
        fputs("Sizes are written 4096, 64K, 64M or 1.5G (powers of 1024).\n", to);
    if (has_type(cmd, TS_OPT_U64))
        fputs("Counts are written 250, 10M (powers of 1000) or 1e9.\n", to);
    if (has_type(cmd, TS_OPT_DURATION))
        fputs("Times are written 250ms, 30s, 5m, 11h30m or 2d.\n", to);
}

void ts_opt_man(const struct ts_cmd *cmd, FILE *to)
{
    const struct ts_opt help = own_help(cmd);
    const char *end, *p;
    fprintf(to, ".SH SYNOPSIS\n.B %s%s%s\n", cmd->program, cmd->name ? " " : "",
            cmd->name ? cmd->name : "");
    fputs("[\\fIOPTION\\fR...]", to);
    if (cmd->operands[0]) {
        fputs(" ", to);
        roff(to, cmd->operands, cmd->operands + strlen(cmd->operands));
    }
    fputs("\n.SH DESCRIPTION\n", to);
    if (cmd->text == NULL || *cmd->text == '\0') {
        char summary[256];
        sentence(cmd->summary, summary, sizeof summary);
        roff_line(to, summary);
    }
    for (p = cmd->text; p != NULL && (p = paragraph(p, &end)) != NULL; p = end) {
        if (p != cmd->text)
            fputs(".PP\n", to);
        roff(to, p, end);
        fputc('\n', to);
    }
    fputs(".SH OPTIONS\n", to);
    man_values(cmd, to);
    each_option(cmd, to, man_heading, man_option);
    man_option(&help, to);
    if (cmd->examples != NULL) {
        fputs(".SH EXAMPLES\n.nf\n", to);
        roff_line(to, cmd->examples);
        fputs(".fi\n", to);
    }
}
