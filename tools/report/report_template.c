/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills a template: replaces its tags by values of a JSON object. */
#include "tools/report/report_template.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tools/report/report_draw.h"
#include "tools/common/tool.h"

#define MOST_DEPTH 16
#define TAG_CHARS  80
#define NAME_CHARS 40 /* most characters of a name that is shown in a list */
#define END_CHARS  20 /* most characters of a name that is shown at the end of an axis */

struct filler {
    FILE *to;
    const struct ts_json_value *context[MOST_DEPTH];
    uint32_t depth;
    int rest; /* 1: the current element of the innermost array is not the first: {{@rest}} */
};

static const struct ts_json_value is_true = { .kind = TS_JSON_BOOL, .text = "true", .number = 1 };

/* ---- text of values ---- */

/* Whether a character is a control character, changes the direction of text, or is not allowed in
 * XML. */
static int is_forbidden(const unsigned char *s, size_t n)
{
    return ts_json_acts(ts_json_code_point(s, n)) ||
           (n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe);
}

static const char *entity_of(unsigned char c)
{
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '"'  ? "&quot;"
           : c == '\'' ? "&#39;"
                       : NULL;
}

/* Writes at most `most` characters of a text (0: all); if it is cut, the last one is an ellipsis.
 * Escapes the five special characters of HTML. Bytes that are not UTF-8, and characters that XML
 * does not allow, become U+FFFD. */
static void put_text(FILE *to, const char *text, uint32_t most)
{
    const unsigned char *s = (const unsigned char *)text;
    for (uint32_t done = 0; *s != '\0'; done++) {
        const size_t length = tool_utf8_length(s), n = length > 0 ? length : 1;
        if (most > 0 && done + 1 == most && s[n] != '\0') {
            fputs("\xe2\x80\xa6", to);
            return;
        }
        if (length == 0 || is_forbidden(s, n))
            fputs("\xef\xbf\xbd", to);
        else if (entity_of(*s) != NULL)
            fputs(entity_of(*s), to);
        else
            fwrite(s, 1, n, to);
        s += n;
    }
}

/* ---- the words of tags ---- */

static const char *text_of(const struct ts_json_value *v)
{
    return v == NULL || v->text == NULL || v->kind == TS_JSON_NULL ? "" : v->text;
}

static double number_of(const struct ts_json_value *v)
{
    return v == NULL || v->kind != TS_JSON_NUMBER ? 0 : v->number;
}

static void put_count(FILE *to, const struct ts_json_value *v)
{
    char number[TS_NUM_CHARS];
    const double x = number_of(v);
    fputs(ts_num_count(number, x >= 0 && x < 1.8e19 ? (uint64_t)x : 0), to);
}

static void put_plural(FILE *to, const struct ts_json_value *v)
{
    fputs(number_of(v) == 1 ? "" : "s", to);
}

static void put_seconds(FILE *to, const struct ts_json_value *v)
{
    char text[TS_NUM_CHARS];
    fputs(ts_num_seconds(text, number_of(v)), to);
}

static void put_short(FILE *to, const struct ts_json_value *v)
{
    char text[TS_NUM_CHARS];
    const double x = number_of(v);
    if (fabs(x) < 1000)
        fprintf(to, "%.4g", x);
    else
        fputs(ts_num_short(text, x), to);
}

static void put_percent(FILE *to, const struct ts_json_value *v)
{
    fprintf(to, "%.0f", 100 * fmin(fabs(number_of(v)), 1));
}

static void put_name(FILE *to, const struct ts_json_value *v)
{
    put_text(to, text_of(v), NAME_CHARS);
}

static void put_end(FILE *to, const struct ts_json_value *v)
{
    put_text(to, text_of(v), END_CHARS);
}

static const struct {
    const char *name;
    void (*put)(FILE *to, const struct ts_json_value *v);
} words[] = {
    { "count", put_count },     /* a count like 5,598,448 */
    { "s", put_plural },        /* "s" unless the number is 1 */
    { "seconds", put_seconds }, /* a duration with its unit */
    { "short", put_short },     /* a count like 204 k */
    /* the magnitude of a fraction in percent, without the percent sign */
    { "percent", put_percent },
    { "name", put_name },         /* a text, cut to the width of a list */
    { "end", put_end },           /* a text, cut to the width of an axis */
    { "line", report_draw_line }, /* a chart of an array of numbers */
    { "bars", report_draw_bars }, /* a chart with bars */
    /* lines of the values of an array of objects, on a logarithmic axis */
    { "log", report_draw_log },
    { "matrix", report_draw_matrix }, /* a drawing of a matrix, an array of rows */
    { "curve", report_draw_curve },   /* a curve, from an object with arrays low and high */
};

/* ---- tags and sections ---- */

/* Returns the value of a path in the current context; NULL: none. */
static const struct ts_json_value *find(const struct filler *f, const char *path)
{
    const struct ts_json_value *v = NULL;
    char name[TAG_CHARS];
    if (strcmp(path, ".") == 0)
        return f->context[f->depth - 1];
    if (strcmp(path, "@rest") == 0)
        return f->rest ? &is_true : NULL;
    for (int first = 1; *path != '\0'; first = 0) {
        const size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        for (uint32_t d = f->depth; first && d > 0 && v == NULL; d--)
            v = ts_json_get(f->context[d - 1], name);
        if (!first)
            v = ts_json_get(v, name);
        path += n + (path[n] == '.');
    }
    return v;
}

static int is_there(const struct ts_json_value *v)
{
    if (v == NULL || v->kind == TS_JSON_NULL)
        return 0;
    if (v->kind == TS_JSON_STRING)
        return *v->text != '\0';
    return v->kind == TS_JSON_OBJECT || (v->kind == TS_JSON_ARRAY ? v->n > 0 : v->number != 0);
}

/* Returns the value of the tag that opens a section; NULL if its condition is false. */
static const struct ts_json_value *condition(const struct filler *f, char *tag)
{
    char *at = tag + strcspn(tag, "=<>");
    const char op = *at, *other;
    const struct ts_json_value *v;
    if (op != '\0')
        *at++ = '\0';
    v = find(f, tag);
    if (op == '\0')
        return is_there(v) ? v : NULL;
    if (op == '<' || op == '>') {
        const double x = v != NULL && v->kind == TS_JSON_ARRAY ? v->n : number_of(v);
        const double limit = ts_strtod(at, NULL);
        return (op == '<' ? x < limit : x > limit) ? &is_true : NULL;
    }
    other = *at == '=' ? text_of(find(f, at + 1)) : at;
    return strcmp(text_of(v), other) == 0 ? &is_true : NULL;
}

static void put_tag(struct filler *f, const char *tag)
{
    const char *blank = strchr(tag, ' ');
    const struct ts_json_value *v = find(f, blank == NULL ? tag : blank + 1);
    char format[TAG_CHARS];
    if (blank == NULL) {
        put_text(f->to, text_of(v), 0);
        return;
    }
    if (*tag == '%') {
        snprintf(format, sizeof format, "%.*s", (int)(blank - tag), tag);
        if (v != NULL && v->kind == TS_JSON_NUMBER)
            fprintf(f->to, format, v->number);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == (size_t)(blank - tag) &&
            strncmp(words[i].name, tag, (size_t)(blank - tag)) == 0) {
            words[i].put(f->to, v);
            return;
        }
    assert(!"a word of the template that is not in the list");
}

/* Copies the tag at `at`, which begins with two braces. Returns the text after it. */
static const char *read_tag(const char *at, char tag[TAG_CHARS])
{
    const char *end = strstr(at, "}}");
    assert(end != NULL && end - at < TAG_CHARS);
    snprintf(tag, TAG_CHARS, "%.*s", (int)(end - at - 2), at + 2);
    return end + 2;
}

static const char *fill(struct filler *f, const char *at, int silent);

/* Fills in a section (text between {{#path}} and {{/}}) whose opening tag was read. Returns the
 * text after its closing tag. */
static const char *fill_section(struct filler *f, char *tag, const char *at, int silent)
{
    const int inverted = *tag == '^', rest = f->rest;
    const struct ts_json_value *v = silent ? NULL : condition(f, tag + 1);
    const struct ts_json_value *element = v;
    const char *end = at;
    if (inverted)
        return fill(f, at, silent || v != NULL);
    if (v == NULL)
        return fill(f, at, 1);
    if (v->kind == TS_JSON_ARRAY)
        element = v->first;
    assert(f->depth < MOST_DEPTH);
    f->depth++;
    for (int first = 1; element != NULL; element = element->next, first = 0) {
        /* values other than objects have no members, so names are looked up in the context around
         * them */
        f->context[f->depth - 1] =
            element->kind == TS_JSON_OBJECT ? element : f->context[f->depth - 2];
        if (v->kind == TS_JSON_ARRAY)
            f->rest = !first;
        end = fill(f, at, 0);
        if (v->kind != TS_JSON_ARRAY)
            break;
    }
    f->depth--;
    f->rest = rest;
    return end;
}

/* Writes the template up to the end of a section, or of the template. Returns the text after it. */
static const char *fill(struct filler *f, const char *at, int silent)
{
    char tag[TAG_CHARS];
    for (;;) {
        const char *next = strstr(at, "{{");
        const size_t n = next == NULL ? strlen(at) : (size_t)(next - at);
        if (!silent)
            fwrite(at, 1, n, f->to);
        if (next == NULL)
            return at + n;
        at = read_tag(next, tag);
        if (*tag == '/')
            return at;
        if (*tag == '#' || *tag == '^')
            at = fill_section(f, tag, at, silent);
        else if (!silent)
            put_tag(f, tag);
    }
}

void report_template_put(FILE *to, const char *template, const struct ts_json_value *figures)
{
    struct filler f = { .to = to, .context = { figures }, .depth = 1 };
    fill(&f, template, 0);
}
