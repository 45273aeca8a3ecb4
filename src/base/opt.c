/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a command line by an option table, and suggests the nearest name for an unknown one. */
#include "base/opt.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the known name nearest to a word ---- */

#define MAX_WORD 63 /* longer words get no suggestion */

/* Returns the number of edits (insert, delete, replace, swap of neighbours) between two words. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t row[3][MAX_WORD + 1];
    const size_t na = strlen(a), nb = strlen(b);
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = (uint32_t)j;
    for (size_t i = 1; i <= na; i++) {
        uint32_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = (uint32_t)i;
        for (size_t j = 1; j <= nb; j++) {
            uint32_t d = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < d)
                d = up[j] + 1;
            if (now[j - 1] + 1 < d)
                d = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < d)
                d = up2[j - 2] + 1;
            now[j] = d;
        }
    }
    return row[na % 3][nb];
}

const char *ts_opt_nearest(const char *word, const char *const names[])
{
    const char *best = NULL;
    const size_t n = strlen(word);
    uint32_t best_d = UINT32_MAX;
    if (n > MAX_WORD)
        return NULL;
    for (size_t i = 0; names[i] != NULL; i++) {
        const size_t len = strlen(names[i]);
        uint32_t d;
        if (len > MAX_WORD)
            continue;
        d = distance(word, names[i]);
        if (d > 1 && n >= 2 && len >= 3 && strncmp(word, names[i], n < len ? n : len) == 0)
            d = 1; /* one word is the start of the other */
        if (d <= (len > n ? len : n) / 2 && d < best_d) {
            best_d = d;
            best = names[i];
        }
    }
    return best;
}

/* ---- parsing numbers and durations ---- */

/* Returns the factor of the suffix at `end`, a power of `base` (1000 or 1024), or 0 if it is not a
 * suffix. */
static uint64_t suffix(const char *end, uint64_t base)
{
    static const char letters[] = "KMGTP";
    uint64_t factor = 1;
    const char *found;
    if (*end == '\0')
        return 1;
    found = strchr(letters, *end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
    if (found == NULL || !(end[1] == '\0' || (base == 1024 && strcmp(end + 1, "iB") == 0)))
        return 0;
    for (const char *l = letters; l <= found; l++)
        factor *= base;
    return factor;
}

/* Parses a whole number up to 2^64 - 1. Returns 0, or -1 if text is not one. */
static int parse_u64(const char *text, uint64_t base, uint64_t *ret)
{
    const size_t digits = strspn(text, "0123456789");
    char *end;
    uint64_t n, factor;
    if (digits == 0)
        return -1;
    if (text[digits] == '.' || text[digits] == 'e' || text[digits] == 'E') {
        const double x = strtod(text, &end);
        double scaled;
        factor = suffix(end, base);
        scaled = x * (double)factor;
        if (factor == 0 || !(scaled < 0x1p63) || scaled != floor(scaled))
            return -1;
        *ret = (uint64_t)scaled;
        return 0;
    }
    errno = 0;
    n = strtoull(text, &end, 10);
    factor = suffix(end, base);
    if (errno != 0 || factor == 0 || (n > 0 && factor > UINT64_MAX / n))
        return -1;
    *ret = n * factor;
    return 0;
}

int ts_opt_size(const char *text, uint64_t *ret, struct ts_err *err)
{
    if (parse_u64(text, 1024, ret) < 0)
        return ts_fail(err, TS_EARG, "'%s' is not a size; sizes are written 4096, 64K, 64M, 1.5G",
                       text);
    return 0;
}

#define MS_NS UINT64_C(1000000)

/* Parses a duration. Returns 0, or -1 if text is not one. Larger units come first. The last unit is
 * compared as a whole word, so that "ms" is not taken for minutes. */
static int parse_duration(const char *text, uint64_t *ret)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } unit[] = {
        { "d", 86400000 * MS_NS }, { "h", 3600000 * MS_NS }, { "m", 60000 * MS_NS },
        { "s", 1000 * MS_NS },     { "ms", MS_NS },
    };
    const size_t n_units = sizeof unit / sizeof unit[0];
    uint64_t sum = 0;
    if (strcmp(text, "0") == 0) {
        *ret = 0;
        return 0;
    }
    for (size_t u = 0; *text != '\0'; u++) {
        const size_t digits = strspn(text, "0123456789");
        const size_t letters = strspn(text + digits, "dhms");
        uint64_t n;
        while (u < n_units && (strlen(unit[u].name) != letters ||
                               memcmp(unit[u].name, text + digits, letters) != 0))
            u++;
        errno = 0;
        n = strtoull(text, NULL, 10);
        if (digits == 0 || u == n_units || errno != 0 || n > (UINT64_MAX - sum) / unit[u].ns)
            return -1;
        sum += n * unit[u].ns;
        text += digits + letters;
        if (*text == '\0') {
            *ret = sum;
            return 0;
        }
    }
    return -1;
}

int ts_opt_duration(const char *text, uint64_t *ret, struct ts_err *err)
{
    if (parse_duration(text, ret) < 0)
        return ts_fail(err, TS_EARG,
                       "'%s' is not a duration; durations are written 30s, 5m, 11h30m, 0", text);
    return 0;
}

/* ---- setting the values of options ---- */

static void *at(const struct ts_opt *opt, void *args)
{
    return (char *)args + opt->at;
}

/* Returns the position of `text` among the words of an option of type CHOICE, or -1. */
static int choice(const char *words, const char *text)
{
    const size_t n = strlen(text);
    for (int i = 0;; i++) {
        const size_t len = strcspn(words, "|");
        if (len == n && memcmp(words, text, n) == 0)
            return i;
        if (words[len] == '\0')
            return -1;
        words += len + 1;
    }
}

static int bad_choice(const struct ts_opt *opt, const char *text, struct ts_err *err)
{
    char words[256], *word[17];
    const char *near;
    size_t n = 0;
    snprintf(words, sizeof words, "%s", opt->arg);
    for (char *save, *w = strtok_r(words, "|", &save); w != NULL && n < 16;
         w = strtok_r(NULL, "|", &save))
        word[n++] = w;
    word[n] = NULL;
    near = ts_opt_nearest(text, (const char *const *)word);
    return ts_fail(err, TS_EARG, "option '--%s': '%s' is none of %s%s%s%s", opt->name, text,
                   opt->arg, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int set_number(const struct ts_opt *opt, void *args, const char *text, struct ts_err *err)
{
    const char *is_not = "a finite number";
    uint64_t n = 0;
    char *end;
    int rc;
    if (opt->type == TS_OPT_DOUBLE) {
        const double x = strtod(text, &end);
        rc = end == text || *end != '\0' || !isfinite(x) ? -1 : 0;
        if (rc == 0)
            *(double *)at(opt, args) = x;
    } else if (opt->type == TS_OPT_DURATION) {
        is_not = "a duration; durations are written 30s, 5m, 11h30m";
        rc = parse_duration(text, &n);
    } else if (opt->type == TS_OPT_SIZE) {
        is_not = "a size; sizes are written 4096, 64K, 64M, 1.5G";
        rc = parse_u64(text, 1024, &n);
    } else {
        rc = parse_u64(text, 1000, &n);
        is_not = "a whole number; they are written 250, 10M, 1e9";
        if (opt->type == TS_OPT_U32) {
            is_not = "a whole number from 0 to 4294967295";
            rc = rc < 0 || n > UINT32_MAX ? -1 : 0;
        }
    }
    if (rc < 0)
        return ts_fail(err, TS_EARG, "option '--%s': '%s' is not %s", opt->name, text, is_not);
    if (opt->type == TS_OPT_U32)
        *(uint32_t *)at(opt, args) = (uint32_t)n;
    else if (opt->type != TS_OPT_DOUBLE)
        *(uint64_t *)at(opt, args) = n;
    return 0;
}

/* Whether the text is a list of mode numbers, such as "2" or "1,3". */
static int are_modes(const char *text)
{
    return strspn(text, "0123456789,") == strlen(text) && text[0] != ',' && text[0] != '\0' &&
           text[strlen(text) - 1] != ',' && strstr(text, ",,") == NULL;
}

/* Parses "16" or "8,16,32", and replaces the old numbers. */
static int set_numbers(const struct ts_opt *opt, void *args, const char *text, struct ts_err *err)
{
    struct ts_opt_numbers *to = at(opt, args), found = { 0 };
    for (const char *word = text;; word++) {
        const size_t n = strcspn(word, ",");
        char one[32];
        uint64_t number = 0;
        snprintf(one, sizeof one, "%.*s", (int)(n < 31 ? n : 31), word);
        if (n > 30 || parse_u64(one, 1000, &number) < 0 || number > UINT32_MAX)
            return ts_fail(err, TS_EARG,
                           "option '--%s': '%s' is neither a whole number nor several divided by "
                           "commas",
                           opt->name, text);
        if (found.n == TS_OPT_NUMBERS_MAX)
            return ts_fail(err, TS_EARG, "option '--%s' has more than %d numbers", opt->name,
                           TS_OPT_NUMBERS_MAX);
        found.at[found.n++] = (uint32_t)number;
        word += n;
        if (*word == '\0')
            break;
    }
    *to = found;
    return 0;
}

int ts_opt_set(const struct ts_opt *opt, void *args, const char *text, struct ts_err *err)
{
    struct ts_opt_list *list;
    int i;
    if (opt->type != TS_OPT_FLAG && *text == '\0') /* as with --out "$DIR" if DIR is not set */
        return ts_fail(err, TS_EARG, "option '--%s': its value is empty", opt->name);
    switch (opt->type) {
    case TS_OPT_FLAG:
        *(int *)at(opt, args) = 1;
        return 0;
    case TS_OPT_STRING:
    case TS_OPT_MODES: /* names of modes are checked later, when the tensor is open */
        *(const char **)at(opt, args) = text;
        return 0;
    case TS_OPT_CHOICE:
        i = choice(opt->arg, text);
        if (i < 0)
            return bad_choice(opt, text, err);
        *(int *)at(opt, args) = i;
        return 0;
    case TS_OPT_LIST:
        list = at(opt, args);
        if (list->n == TS_OPT_LIST_MAX)
            return ts_fail(err, TS_EARG, "option '--%s' is given more than %d times", opt->name,
                           TS_OPT_LIST_MAX);
        list->item[list->n++] = text;
        return 0;
    case TS_OPT_NUMBERS:
        return set_numbers(opt, args, text, err);
    case TS_OPT_U32:
    case TS_OPT_U64:
    case TS_OPT_SIZE:
    case TS_OPT_DURATION:
    case TS_OPT_DOUBLE:
        break;
    }
    return set_number(opt, args, text, err);
}

static void clear(const struct ts_opt *opt, void *args)
{
    static const size_t size[] = {
        [TS_OPT_FLAG] = sizeof(int),
        [TS_OPT_U32] = sizeof(uint32_t),
        [TS_OPT_U64] = sizeof(uint64_t),
        [TS_OPT_SIZE] = sizeof(uint64_t),
        [TS_OPT_DOUBLE] = sizeof(double),
        [TS_OPT_STRING] = sizeof(const char *),
        [TS_OPT_CHOICE] = sizeof(int),
        [TS_OPT_LIST] = sizeof(struct ts_opt_list),
        [TS_OPT_DURATION] = sizeof(uint64_t),
        [TS_OPT_MODES] = sizeof(const char *),
        [TS_OPT_NUMBERS] = sizeof(struct ts_opt_numbers),
    };
    memset(at(opt, args), 0, size[opt->type]);
}

void ts_opt_defaults(const struct ts_cmd *cmd, void *args)
{
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++) {
        clear(o, args);
        if (o->def != NULL && o->type != TS_OPT_FLAG)
            (void)ts_opt_set(o, args, o->def,
                             NULL); /* tests parse every default, so this does not fail */
    }
}

static void duration_text(uint64_t ms, char *buf, size_t size)
{
    if (ms == 0)
        snprintf(buf, size, "0");
    else if (ms % 1000 == 0)
        snprintf(buf, size, "%" PRIu64 "s", ms / 1000);
    else
        snprintf(buf, size, "%" PRIu64 "ms", ms);
}

void ts_opt_text(const struct ts_opt *opt, const void *args, char *buf, size_t size)
{
    const void *p = (const char *)args + opt->at;
    const struct ts_opt_list *list = p;
    const struct ts_opt_numbers *number = p;
    const char *word = opt->arg;
    size_t n = 0;
    switch (opt->type) {
    case TS_OPT_FLAG:
        snprintf(buf, size, "%d", *(const int *)p);
        break;
    case TS_OPT_U32:
        snprintf(buf, size, "%" PRIu32, *(const uint32_t *)p);
        break;
    case TS_OPT_U64:
    case TS_OPT_SIZE:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)p);
        break;
    case TS_OPT_DURATION:
        duration_text(*(const uint64_t *)p / MS_NS, buf, size);
        break;
    case TS_OPT_DOUBLE:
        snprintf(buf, size, "%.17g", *(const double *)p);
        break;
    case TS_OPT_STRING:
    case TS_OPT_MODES:
        snprintf(buf, size, "%s", *(const char *const *)p ? *(const char *const *)p : "");
        break;
    case TS_OPT_CHOICE:
        for (int i = *(const int *)p; i > 0; i--)
            word += strcspn(word, "|") + 1;
        snprintf(buf, size, "%.*s", (int)strcspn(word, "|"), word);
        break;
    case TS_OPT_LIST:
        buf[0] = '\0';
        for (uint32_t i = 0; i < list->n && n < size; i++)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", i > 0 ? "," : "", list->item[i]);
        break;
    case TS_OPT_NUMBERS:
        buf[0] = '\0';
        for (uint32_t i = 0; i < number->n && n < size; i++)
            n += (size_t)snprintf(buf + n, size - n, "%s%" PRIu32, i > 0 ? "," : "", number->at[i]);
        break;
    }
}

/* ---- parsing the command line ---- */

struct parse {
    const struct ts_cmd *cmd;
    int argc, i; /* argv[i] is the current word */
    char **argv;
    void *args;
    uint64_t *given;
    struct ts_err *err;
    char **operand;
    uint32_t n_operands;
    /* an option of type MODES without a value before an operand; or NULL */
    const struct ts_opt *bare;
    uint32_t bare_before; /* number of that operand */
};

static int take_option(struct parse *p, const struct ts_opt *opt, const char *value)
{
    const uint64_t n = (uint64_t)(opt - p->cmd->opts);
    if (opt->type == TS_OPT_MODES && value == NULL) {
        const char *next = p->i + 1 < p->argc ? p->argv[p->i + 1] : "-";
        p->bare = next[0] == '-' || are_modes(next) ? NULL : opt;
        p->bare_before = p->n_operands;
        value = are_modes(next) ? p->argv[++p->i] : "all";
    }
    if (opt->type != TS_OPT_FLAG && value == NULL) {
        if (p->i + 1 >= p->argc)
            return ts_fail(p->err, TS_EARG, "option '--%s' needs a value, %s", opt->name,
                           opt->arg ? opt->arg : "VALUE");
        value = p->argv[++p->i];
    }
    if (p->given != NULL && n < 64)
        *p->given |= UINT64_C(1) << n;
    return ts_opt_set(opt, p->args, value, p->err);
}

static int unknown(struct parse *p, const char *name)
{
    const char *names[66], *near;
    size_t n = 0;
    for (const struct ts_opt *o = p->cmd->opts; o->name != NULL && n < 64; o++)
        names[n++] = ts_opt_shown(p->cmd, o).name;
    names[n++] = "help";
    names[n] = NULL;
    near = ts_opt_nearest(name, names);
    return ts_fail(p->err, TS_EARG, "unknown option '--%s'%s%s%s", name,
                   near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

const struct ts_opt *ts_opt_named(const struct ts_cmd *cmd, const char *name, size_t len)
{
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    for (const struct ts_opt_alias *a = cmd->aliases; a != NULL && a->name != NULL; a++)
        if (strlen(a->name) == len && memcmp(a->name, name, len) == 0)
            return ts_opt_named(cmd, a->option, strlen(a->option));
    return NULL;
}

/* Whether a name of `len` bytes is an old one; *ret: its place in the list of old names. */
static int is_old(const struct ts_cmd *cmd, const char *name, size_t len, const char **ret)
{
    const char *old = cmd->old_names == NULL ? "" : cmd->old_names;
    for (size_t n; *old != '\0'; old += n + strspn(old + n, " ")) {
        n = strcspn(old, " ");
        if (n == len && memcmp(old, name, n) == 0) {
            *ret = old;
            return 1;
        }
    }
    return 0;
}

struct ts_opt ts_opt_shown(const struct ts_cmd *cmd, const struct ts_opt *opt)
{
    struct ts_opt shown = *opt;
    const char *old;
    if (is_old(cmd, opt->name, strlen(opt->name), &old))
        for (const struct ts_opt_alias *a = cmd->aliases; a != NULL && a->name != NULL; a++)
            if (strcmp(a->option, opt->name) == 0)
                shown.name = a->name;
    return shown;
}

const char *ts_opt_old(const struct ts_cmd *cmd, int argc, char **argv, const char **instead)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *arg = argv[i], *old;
        const size_t len = strncmp(arg, "--", 2) == 0 ? strcspn(arg + 2, "=") : 0;
        if (len > 0 && is_old(cmd, arg + 2, len, &old)) {
            const struct ts_opt *opt = ts_opt_named(cmd, arg + 2, len);
            *instead = ts_opt_shown(cmd, opt).name;
            for (const struct ts_opt_alias *a = cmd->aliases; a != NULL && a->name != NULL; a++)
                if (strlen(a->name) == len && memcmp(a->name, old, len) == 0)
                    return a->name;
            return opt->name;
        }
    }
    return NULL;
}

/* Parses argv[i], which is --name or --name=value. */
static int parse_long(struct parse *p)
{
    const char *arg = p->argv[p->i] + 2, *equals = strchr(arg, '=');
    const size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct ts_opt *o = ts_opt_named(p->cmd, arg, len);
    char name[256];
    if (o != NULL && o->type == TS_OPT_FLAG && equals != NULL)
        return ts_fail(p->err, TS_EARG, "option '--%s' takes no value", o->name);
    if (o != NULL)
        return take_option(p, o, equals ? equals + 1 : NULL);
    if (len == 4 && memcmp(arg, "help", 4) == 0)
        return 1;
    snprintf(name, sizeof name, "%.*s", (int)(len < 255 ? len : 255), arg);
    return unknown(p, name);
}

/* Parses argv[i], which is -x, -xvalue or several flags in one word. */
static int parse_short(struct parse *p)
{
    for (const char *c = p->argv[p->i] + 1; *c != '\0'; c++) {
        const struct ts_opt *o = p->cmd->opts;
        int rc;
        while (o->name != NULL && o->letter != *c)
            o++;
        if (o->name == NULL && *c == 'h')
            return 2;
        if (o->name == NULL)
            return ts_fail(p->err, TS_EARG, "unknown option '-%c'", *c);
        if (o->type != TS_OPT_FLAG)
            return take_option(p, o, c[1] != '\0' ? c + 1 : NULL);
        rc = take_option(p, o, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Whether a word can only be the path of an existing file: a mode's name may have a dot or slash as
 * well. */
static int is_file(const char *word)
{
    return strpbrk(word, "./") != NULL && access(word, F_OK) == 0;
}

/* If there is one operand too many, takes the one after an option of type MODES without value as
 * its value, unless it is a file. */
static void take_bare(struct parse *p)
{
    const uint32_t i = p->bare_before;
    if (p->n_operands <= p->cmd->max_operands || p->bare == NULL || is_file(p->operand[i]))
        return;
    *(const char **)at(p->bare, p->args) = p->operand[i];
    memmove(p->operand + i, p->operand + i + 1, (--p->n_operands - i) * sizeof *p->operand);
}

int ts_opt_parse(const struct ts_cmd *cmd, int argc, char **argv, void *args, uint32_t *n_operands,
                 char **operand, uint64_t *given, struct ts_err *err)
{
    struct parse p = { .cmd = cmd,
                       .argc = argc,
                       .i = 1,
                       .argv = argv,
                       .args = args,
                       .given = given,
                       .err = err,
                       .operand = operand };
    int only_operands = 0;
    ts_opt_defaults(cmd, args);
    if (given != NULL)
        *given = 0;
    for (; p.i < argc; p.i++) {
        const char *arg = argv[p.i];
        int rc = 0;
        if (only_operands || arg[0] != '-' || arg[1] == '\0')
            operand[p.n_operands++] = argv[p.i];
        else if (strcmp(arg, "--") == 0)
            only_operands = 1;
        else
            rc = arg[1] == '-' ? parse_long(&p) : parse_short(&p);
        if (rc != 0)
            return rc;
    }
    take_bare(&p);
    if (p.n_operands > cmd->max_operands)
        return p.bare == NULL
                   ? ts_fail(err, TS_EARG, "unexpected operand '%s'", operand[cmd->max_operands])
                   : ts_fail(err, TS_EARG,
                             "unexpected operand '%s'; to give it as modes, write --%s=%s",
                             operand[cmd->max_operands], ts_opt_shown(cmd, p.bare).name,
                             operand[cmd->max_operands]);
    if (p.n_operands < cmd->min_operands)
        return ts_fail(err, TS_EARG, "an operand is missing; usage: %s%s%s [OPTION...] %s",
                       cmd->program, cmd->name != NULL ? " " : "",
                       cmd->name != NULL ? cmd->name : "", cmd->operands);
    *n_operands = p.n_operands;
    return 0;
}
