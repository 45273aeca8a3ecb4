/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints completions for bash, zsh and fish from the option tables. */
#include "tools/common/tool_completion.h"

#include <ctype.h>
#include <string.h>

/* The possible values of an option: words, such as "float32 float64" or "huber:", and file
 * names. */
struct value {
    char words[256]; /* separated by blanks */
    int files;
};

static void add_word(struct value *v, const char *word, size_t len)
{
    const size_t used = strlen(v->words);
    if (used + len + 2 < sizeof v->words)
        snprintf(v->words + used, sizeof v->words - used, "%s%.*s", used > 0 ? " " : "", (int)len,
                 word);
}

static struct value value_of(const struct ts_opt *o)
{
    struct value v = { "", 0 };
    const char *arg = o->arg != NULL ? o->arg : "";
    int is_named = 0; /* 1: the option's default is one of its words */
    if (o->type == TS_OPT_FLAG)
        return v;
    v.files = strstr(arg, "FILE") || strstr(arg, "DIR") || strstr(arg, "NAME");
    for (size_t len; *arg != '\0'; arg += len + (arg[len] == '|')) {
        size_t plain = 0;
        len = strcspn(arg, "|");
        while (plain < len && (islower((unsigned char)arg[plain]) ||
                               isdigit((unsigned char)arg[plain]) || arg[plain] == '-'))
            plain++;
        if (plain > 0 && (arg[plain] == ':' || arg[plain] == '='))
            add_word(&v, arg, plain + 1); /* such as "huber:", without the number after it */
        else if (plain == len)
            add_word(&v, arg, len);
        is_named |= o->def != NULL && strlen(o->def) == len && memcmp(o->def, arg, len) == 0;
    }
    if (v.words[0] != '\0' && o->def != NULL && !is_named)
        add_word(&v, o->def, strlen(o->def));
    return v;
}

/* Whether an operand is a literal word, such as "exchange" of `tstream bench`. */
static int is_word(const char *operands)
{
    size_t n = 0;
    while (islower((unsigned char)operands[n]))
        n++;
    return n > 0 && operands[n] == '\0';
}

/* Returns the length of the first clause of an option's explanation. */
static size_t first_clause(const char *help)
{
    size_t n = 0;
    while (help[n] != '\0' && help[n] != ';' && help[n] != '(' && help[n] != ':' &&
           !(help[n] == '.' && (help[n + 1] == ' ' || help[n + 1] == '\0')) && n < 100)
        n++;
    while (n > 0 && help[n - 1] == ' ')
        n--;
    return n;
}

/* Writes text in single quotes, leaving out apostrophes and the characters of bad[]. */
static void quoted(FILE *to, const char *text, size_t len, const char *bad)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != '\'' && strchr(bad, text[i]) == NULL)
            fputc(text[i], to);
}

/* ---- completions for bash ---- */

static void bash_names(const struct ts_opt *o, FILE *to)
{
    fprintf(to, "        --%s", o->name);
    if (o->letter)
        fprintf(to, " | -%c", o->letter);
    fputs(")\n", to);
}

static void bash_command(const struct ts_cmd *cmd, FILE *to)
{
    fprintf(to, "    %s)\n        options='--help", cmd->name);
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
        fprintf(to, " --%s", ts_opt_shown(cmd, o).name);
    fputs("'\n", to);
    if (is_word(cmd->operands))
        fprintf(to, "        words=%s files=\n", cmd->operands);
    if (cmd->operands[0] == '\0')
        fputs("        files=\n", to);
    fputs("        case $prev in\n", to);
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++) {
        const struct ts_opt shown = ts_opt_shown(cmd, o);
        const struct value v = value_of(o);
        if (o->type == TS_OPT_FLAG)
            continue;
        bash_names(&shown, to);
        fprintf(to, "            options= words='%s' files=%s ;;\n", v.words, v.files ? "1" : "");
    }
    fputs("        esac\n        ;;\n", to);
}

static void bash(const struct tool_program *program, FILE *to)
{
    const char *name = program->name;
    fprintf(to,
            "# bash completion of %s, made from its option tables\n"
            "_%s()\n{\n"
            "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
            "    local options= words= files=1\n"
            "    COMPREPLY=()\n"
            "    # readline divides --name=value into three words\n"
            "    if [[ $cur == = ]]; then\n"
            "        cur=\n"
            "    elif [[ $prev == = && $COMP_CWORD -gt 2 ]]; then\n"
            "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
            "    fi\n"
            "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
            "        COMPREPLY=($(compgen -W '",
            name, name);
    for (size_t i = 0; program->cmds[i] != NULL; i++)
        fprintf(to, "%s ", program->cmds[i]->name);
    fputs("help --help --version' -- \"$cur\"))\n        return\n    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          to);
    for (size_t i = 0; program->cmds[i] != NULL; i++)
        bash_command(program->cmds[i], to);
    fprintf(to,
            "    esac\n"
            "    if [[ $cur == -* && -n $options ]]; then\n"
            "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
            "        return\n"
            "    fi\n"
            "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
            "    if [[ -n $files ]]; then compopt -o default 2> /dev/null; fi\n"
            "    return 0\n"
            "}\n"
            "complete -F _%s %s\n",
            name, name);
}

/* ---- completions for zsh ---- */

static void zsh_text(FILE *to, const char *help)
{
    quoted(to, help, first_clause(help), "[]:\\`$\"");
}

static void zsh_option(const struct ts_cmd *cmd, const struct ts_opt *opt, FILE *to)
{
    const struct ts_opt shown = ts_opt_shown(cmd, opt), *o = &shown;
    const struct value v = value_of(opt);
    const int flag = o->type == TS_OPT_FLAG;
    fputs(" \\\n            ", to);
    if (o->type == TS_OPT_LIST)
        fputs("'*'", to);
    if (o->letter && o->type != TS_OPT_LIST)
        fprintf(to, "'(-%c --%s)'", o->letter, o->name);
    if (o->letter)
        fprintf(to, "{-%c%s,--%s%s}", o->letter, flag ? "" : "+", o->name, flag ? "" : "=");
    else
        fprintf(to, "--%s%s", o->name, flag ? "" : o->type == TS_OPT_MODES ? "=-" : "=");
    fputs("'[", to);
    zsh_text(to, o->help);
    fputs("]", to);
    if (!flag)
        fprintf(to, "%s:%s:", o->type == TS_OPT_MODES ? ":" : "", o->name);
    if (!flag && v.files)
        fputs("_files", to);
    else if (!flag && v.words[0] != '\0')
        fprintf(to, "(%s)", v.words);
    else if (!flag)
        fputs(" ", to);
    fputs("'", to);
}

static void zsh(const struct tool_program *program, FILE *to)
{
    const char *name = program->name;
    fprintf(to,
            "#compdef %s\n# zsh completion of %s, made from its option tables\n"
            "_%s()\n{\n    local -a commands=(\n",
            name, name, name);
    for (size_t i = 0; program->cmds[i] != NULL; i++) {
        fprintf(to, "        '%s:", program->cmds[i]->name);
        zsh_text(to, program->cmds[i]->summary);
        fputs("'\n", to);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        _arguments '--help[list the commands]' '--version[tell version and features]'\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          to);
    for (size_t i = 0; program->cmds[i] != NULL; i++) {
        const struct ts_cmd *cmd = program->cmds[i];
        fprintf(to, "    %s)\n        _arguments -s -S '--help[show the help]'", cmd->name);
        for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
            zsh_option(cmd, o, to);
        if (is_word(cmd->operands))
            fprintf(to, " \\\n            '*:operand:(%s)'", cmd->operands);
        else if (cmd->operands[0] != '\0')
            fputs(" \\\n            '*:operand:_files'", to);
        fputs("\n        ;;\n", to);
    }
    fprintf(to, "    esac\n}\n_%s \"$@\"\n", name);
}

/* ---- completions for fish ---- */

static void fish_text(FILE *to, const char *help)
{
    fputs(" -d '", to);
    quoted(to, help, first_clause(help), "\\");
    fputs("'\n", to);
}

static void fish_option(const char *name, const struct ts_cmd *cmd, const struct ts_opt *opt,
                        FILE *to)
{
    const struct ts_opt shown = ts_opt_shown(cmd, opt), *o = &shown;
    const struct value v = value_of(opt);
    fprintf(to, "complete -c %s -n '__%s_is %s' -l %s", name, name, cmd->name, o->name);
    if (o->letter)
        fprintf(to, " -s %c", o->letter);
    if (o->type != TS_OPT_FLAG)
        fputs(v.files ? " -rF" : " -x", to);
    if (v.words[0] != '\0')
        fprintf(to, " -a '%s'", v.words);
    fish_text(to, o->help);
}

static void fish(const struct tool_program *program, FILE *to)
{
    const char *name = program->name;
    fprintf(to,
            "# fish completion of %s, made from its option tables\n"
            "function __%s_is\n"
            "    set -l words (commandline -opc)\n"
            "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
            "end\n"
            "function __%s_first\n"
            "    test (count (commandline -opc)) -eq 1\n"
            "end\n"
            "complete -c %s -f\n"
            "complete -c %s -n __%s_first -l help -d 'list the commands'\n"
            "complete -c %s -n __%s_first -l version -d 'tell version and features'\n",
            name, name, name, name, name, name, name, name);
    for (size_t i = 0; program->cmds[i] != NULL; i++) {
        const struct ts_cmd *cmd = program->cmds[i];
        fprintf(to, "complete -c %s -n __%s_first -a %s", name, name, cmd->name);
        fish_text(to, cmd->summary);
        fprintf(to, "complete -c %s -n '__%s_is %s' -l help -d 'show the help'\n", name, name,
                cmd->name);
        if (is_word(cmd->operands))
            fprintf(to, "complete -c %s -n '__%s_is %s' -a %s\n", name, name, cmd->name,
                    cmd->operands);
        else if (cmd->operands[0] != '\0')
            fprintf(to, "complete -c %s -n '__%s_is %s' -F\n", name, name, cmd->name);
        for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
            fish_option(name, cmd, o, to);
    }
}

int tool_completion(const struct tool_program *program, const char *shell, FILE *to)
{
    if (strcmp(shell, "bash") == 0)
        bash(program, to);
    else if (strcmp(shell, "zsh") == 0)
        zsh(program, to);
    else if (strcmp(shell, "fish") == 0)
        fish(program, to);
    else
        return -1;
    return 0;
}
