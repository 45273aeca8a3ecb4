/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the page docs/options.md. */
#include "tools/common/settings_page.h"

#include <ctype.h>
#include <string.h>

#include "tools/cp/tstream_cp.h"

struct row {
    enum ts_run_fixed resume;
    const char *keyword, *field; /* name in Python, and field in C; NULL: none */
};

#define SETTING(member, option, letter, kind, def, arg, section, resume, keyword, field, ...) \
    { TS_RUN_##resume, keyword, field },
static const struct row rows[] = {
#include "base/settings.def"
};
#define N_ROWS (sizeof rows / sizeof *rows)

#define WIDTH      95 /* characters in a line of text, not counting string quotes */
#define TEXT_BYTES 2048
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

static const char head[] =
    "# Settings of a run\n\n"
    "These are the settings of `tstream cp`, `tstream plan`, `ts_cp` in `tstream.h` ([C](api.md)),\n"
    "and `tstream.cp` in Python ([Python](python.md)). `tstream --help-options > docs/options.md` makes\n"
    "this page from `src/base/settings.def`.\n\n"
    "*Default* is the default of the command line. Python has the same default unless another one\n"
    "follows the keyword. *Resumed* says what `--resume` does with the setting:\n\n"
    "- *kept*: the run keeps its value, and another value is refused\n"
    "- *may change*: a new value may be given\n"
    "- *of the call*: it is chosen anew for each call\n\n"
    "Runs of several models may change `--checkpoint` only.\n";

/* Writes text for a cell of a Markdown table, with '|' escaped. */
static void put_text(const char *text, size_t n, FILE *to)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '|')
            fputc('\\', to);
        fputc(text[i], to);
    }
}

static void put_code(const char *text, size_t n, FILE *to)
{
    fputc('`', to);
    put_text(text, n, to);
    fputc('`', to);
}

/* Returns the other name of an option that has two, or NULL. */
static const char *alias_of(const char *option)
{
    for (const struct ts_opt_alias *a = tstream_cp_aliases; a->name != NULL; a++)
        if (strcmp(a->option, option) == 0)
            return a->name;
    return NULL;
}

static void put_option(const struct ts_opt *opt, FILE *to)
{
    static const struct ts_cmd cp = { .opts = tstream_cp_opts,
                                      .aliases = tstream_cp_aliases,
                                      .old_names = TSTREAM_CP_OLD };
    const struct ts_opt shown = ts_opt_shown(&cp, opt), *o = &shown;
    char name[256];
    snprintf(name, sizeof name, "--%s%s%s", o->name, o->type == TS_OPT_FLAG ? "" : "=",
             o->type == TS_OPT_FLAG ? "" : o->arg);
    fputs("| ", to);
    if (o->letter != 0)
        fprintf(to, "`-%c`, ", o->letter);
    put_code(name, strlen(name), to);
    if (strcmp(shown.name, opt->name) != 0)
        fprintf(to, " (was `--%s`)", opt->name);
    else if (alias_of(o->name) != NULL)
        fprintf(to, ", `--%s`", alias_of(o->name));
}

static void put_keyword(const char *keyword, const char *option, FILE *to)
{
    const size_t n = keyword == NULL ? 0 : strcspn(keyword, "=");
    fputs(" | ", to);
    if (n == 0)
        return;
    put_code(keyword, n, to);
    if (alias_of(option) != NULL) {
        fputs(", ", to);
        option = strncmp(keyword, option, n) == 0 && option[n] == '\0' ? alias_of(option) : option;
        put_code(option, strlen(option), to);
    }
    if (keyword[n] == '=')
        fprintf(to, " (%s)", keyword + n + 1);
}

static void put_fields(const char *field, FILE *to)
{
    fputs(" | ", to);
    for (size_t n; field != NULL && *field != '\0'; field += n + strspn(field + n, " ")) {
        n = strcspn(field, " ");
        put_code(field, n, to);
        if (field[n] != '\0')
            fputs(", ", to);
    }
}

static const char *resumed(enum ts_run_fixed resume)
{
    switch (resume) {
    case TS_RUN_NOT_KEPT:
        return "of the call";
    case TS_RUN_MAY_CHANGE:
        return "may change";
    case TS_RUN_SAME_TEXT:
    case TS_RUN_SAME_VALUE:
    case TS_RUN_OF_SEVERAL:
        break;
    }
    return "kept";
}

static void put_row(const struct row *r, const struct ts_opt *o, FILE *to)
{
    put_option(o, to);
    put_keyword(r->keyword, o->name, to);
    put_fields(r->field, to);
    fputs(" | ", to);
    if (o->def != NULL)
        put_code(o->def, strlen(o->def), to);
    fprintf(to, " | %s |\n", resumed(r->resume));
}

/* Returns how many characters of a word are to be set as code: all of an option's name, or of a
 * value at the beginning of a sentence. */
static size_t code_chars(const char *word, int begins)
{
    const size_t n = strlen(word);
    if (strncmp(word, "--", 2) == 0)
        return 2 + strspn(word + 2, NAME_CHARS);
    return begins && islower((unsigned char)word[0]) ? n - (strchr(":,", word[n - 1]) != NULL) : 0;
}

/* Writes the help of an option, broken into lines of WIDTH columns. */
static void put_help(const struct ts_opt *o, FILE *to)
{
    int col = fprintf(to, "\n`--%s`:", o->name), begins = 0;
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%c%s.", toupper((unsigned char)o->help[0]), o->help + 1);
    for (char *save, *word = strtok_r(text, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        const int breaks = col + 1 + (int)strlen(word) > WIDTH;
        const size_t n = code_chars(word, begins);
        const char *mark = n > 0 ? "`" : "";
        begins = word[strlen(word) - 1] == '.';
        if (breaks)
            col = 0;
        col += fprintf(to, "%s%s%.*s%s%s", breaks ? "\n" : " ", mark, (int)n, word, mark, word + n);
    }
    fputc('\n', to);
}

void settings_page(FILE *to)
{
    fputs(head, to);
    for (size_t section = 0; tstream_cp_headings[section] != NULL; section++) {
        fprintf(to,
                "\n## %s\n\n| Option | Python | C | Default | Resumed |\n|---|---|---|---|---|\n",
                tstream_cp_headings[section]);
        for (size_t i = 0; i < N_ROWS; i++)
            if (tstream_cp_section[i] == section)
                put_row(&rows[i], &tstream_cp_opts[i], to);
        for (size_t i = 0; i < N_ROWS; i++)
            if (tstream_cp_section[i] == section)
                put_help(&tstream_cp_opts[i], to);
    }
}
