/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_compare.c - tstream compare: measures the similarity of two models by component. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/common_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"

struct compare_args {
    uint32_t threads;
    int match, no_weights, json, quiet;
    const char *skip;
};

#define AT(field) offsetof(struct compare_args, field)
static const struct ts_opt compare_opts[] = {
    { "match", 0, TS_OPT_CHOICE, AT(match), "greedy", "greedy|best",
      "how pairs are chosen. greedy: the most similar pair first, as in Tensor Toolbox and "
      "pyttb. best: the largest possible score (Hungarian method)" },
    { "no-weights", 0, TS_OPT_FLAG, AT(no_weights), NULL, NULL,
      "ignore the weights of components" },
    { "skip", 0, TS_OPT_STRING, AT(skip), NULL, "MODES",
      "leave out these modes, numbers from 1 or names, separated by commas. Their sizes may differ, as those "
      "of models of different samples. Weights still count the norms of their columns" },
    TOOL_THREADS_OPT(AT(threads)),
    TOOL_QUIET_OPT(AT(quiet)),
    TOOL_JSON_OPT(AT(json)),
    { 0 },
};

struct compared {
    const struct compare_args *args;
    const char *a, *b; /* the operands, as the user named them */
    uint32_t skip;     /* bit m: mode m is left out of the comparison */
    int skip_wrong;    /* 1: the value of --skip is wrong for these models */
    /* numbers of the skipped modes, from 1, in the order of --skip */
    uint32_t n_skipped, skipped[TS_MAX_ORDER];
    char *name[TS_MAX_ORDER]; /* names of modes, from model A, else from model B; or NULL */
    struct ts_match match;
    /* the matched pairs of components: by the criterion args->match, without weights if
     * args->no_weights */
    struct ts_match_pair *pair;
    uint32_t n;
    /* score of the match, by enum ts_match_how, and without (0) or with (1) weights */
    double score[2][2];
};

/* ---- the printed tables ---- */

/* most columns of a mode's name; a longer name is replaced by the mode's number */
#define MOST_NAME 12

enum { A, B, SCORE, CONGRUENCE, WEIGHT_A, WEIGHT_B, MODES };

static double cosine(const struct compared *c, const struct ts_match_pair *p, uint32_t mode)
{
    const struct ts_match *m = &c->match;
    return m->cosine[((size_t)mode * m->rank_a + p->a) * m->rank_b + p->b];
}

/* Prints a table of pairs with the columns whose bits are set in `shown`. */
static void print_columns(const struct compared *c, const struct tool_column *column,
                          uint32_t shown)
{
    const uint32_t n = MODES + c->match.order;
    char text[MODES + TS_MAX_ORDER][TS_NUM_CHARS];
    const char *cell[MODES + TS_MAX_ORDER];
    tool_table_head(column, n, shown);
    for (uint32_t i = 0; i < c->n && !ferror(stdout); i++) {
        const struct ts_match_pair *p = &c->pair[i];
        snprintf(text[A], TS_NUM_CHARS, "%u", p->a + 1);
        snprintf(text[B], TS_NUM_CHARS, "%u", p->b + 1);
        snprintf(text[SCORE], TS_NUM_CHARS, "%.6f", p->score);
        snprintf(text[CONGRUENCE], TS_NUM_CHARS, "%.6f", p->congruence);
        snprintf(text[WEIGHT_A], TS_NUM_CHARS, "%.4g", c->match.weight_a[p->a]);
        snprintf(text[WEIGHT_B], TS_NUM_CHARS, "%.4g", c->match.weight_b[p->b]);
        for (uint32_t m = 0; m < c->match.order; m++)
            snprintf(text[MODES + m], TS_NUM_CHARS, "%.4f", cosine(c, p, m));
        for (uint32_t k = 0; k < n; k++)
            cell[k] = text[k];
        tool_table_row(column, n, shown, cell);
    }
}

/* Prints the pairs of components. Modes that do not fit in the terminal's width follow in further
 * tables. */
static void print_pairs(const struct compared *c)
{
    struct tool_column column[MODES + TS_MAX_ORDER] = {
        [A] = { .name = "A", .width = 4 },
        [B] = { .name = "B", .width = 4 },
        [SCORE] = { .name = "score", .width = 8 },
        [CONGRUENCE] = { .name = "congruence", .width = 10 },
        [WEIGHT_A] = { .name = "weight A", .width = 9 },
        [WEIGHT_B] = { .name = "weight B", .width = 9 },
    };
    const uint32_t n = MODES + c->match.order;
    char name[TS_MAX_ORDER][TS_NUM_CHARS];
    uint32_t left = (UINT32_C(1) << n) - 1; /* bit i: column i of the table is not printed yet */
    for (uint32_t m = 0; m < c->match.order; m++) {
        snprintf(name[m], sizeof name[m], "mode %u", m + 1);
        if (c->name[m] != NULL && tool_width(c->name[m]) <= MOST_NAME)
            tool_plain(c->name[m], name[m], sizeof name[m]);
        column[MODES + m] = (struct tool_column){ .name = name[m], .width = 7, .drop = (int)m + 1 };
        if ((c->skip >> m & 1) == 0)
            continue;
        column[MODES + m].drop = TOOL_ABSENT;
        left &= ~(UINT32_C(1) << (MODES + m));
    }
    do {
        const uint32_t shown = tool_table_fit(column, n, tool_columns());
        print_columns(c, column, shown);
        left &= ~shown;
        for (uint32_t k = SCORE; k < n; k++)
            if ((left >> k & 1) == 0)
                column[k].drop = TOOL_ABSENT;
        if (left != 0)
            printf("\n");
    } while (left != 0 && !ferror(stdout));
}

/* Whether component r has a partner in the other model. */
static int is_matched(const struct compared *c, int of_a, uint32_t r)
{
    for (uint32_t i = 0; i < c->n; i++)
        if ((of_a ? c->pair[i].a : c->pair[i].b) == r)
            return 1;
    return 0;
}

static void print_alone(const struct compared *c)
{
    const int of_a = c->match.rank_a > c->match.rank_b;
    const uint32_t rank = of_a ? c->match.rank_a : c->match.rank_b;
    struct tool_words w = { .indent = 11, .columns = tool_columns() };
    uint32_t left = rank - c->n;
    if (left == 0)
        return;
    tool_words_start(&w, of_a ? "alone in A" : "alone in B");
    for (uint32_t r = 0; r < rank; r++)
        if (!is_matched(c, of_a, r))
            tool_words_putf(&w, "%u%s", r + 1, --left > 0 ? "," : "");
    tool_words_end(&w);
}

static void print_scores(const struct compared *c)
{
    static const char *const how[] = { "greedy", "best" };
    const struct compare_args *args = c->args;
    struct tool_words w = { .indent = 6, .columns = tool_columns() };
    tool_words_start(&w, "score");
    tool_words_putf(&w, "%.9f (%s, %s weights);", c->score[args->match][!args->no_weights],
                    how[args->match], args->no_weights ? "without" : "with");
    for (int k = 0, left = 3; k < 2; k++)
        for (int weights = 1; weights >= 0; weights--)
            if (k != args->match || weights == args->no_weights)
                tool_words_putf(&w, "%s %s weights %.6f%s", how[k], weights ? "with" : "without",
                                c->score[k][weights], --left > 0 ? "," : "");
    tool_words_end(&w);
}

/* ---- the comparison as JSON ---- */

static void print_json(const struct compared *c)
{
    static const char *const how[] = { "greedy", "best" };
    const struct compare_args *args = c->args;
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "compare");
    tool_json_str(&j, "a", c->a);
    tool_json_str(&j, "b", c->b);
    tool_json_u64(&j, "rank_a", c->match.rank_a);
    tool_json_u64(&j, "rank_b", c->match.rank_b);
    tool_json_str(&j, "match", how[args->match]);
    tool_json_bool(&j, "weights", !args->no_weights);
    if (c->n_skipped > 0) {
        tool_json_array(&j, "skip");
        for (uint32_t i = 0; i < c->n_skipped; i++)
            tool_json_u64(&j, NULL, c->skipped[i]);
        tool_json_close(&j);
    }
    tool_json_f64(&j, "score", c->score[args->match][!args->no_weights]);
    tool_json_object(&j, "scores");
    tool_json_f64(&j, "greedy", c->score[TS_MATCH_GREEDY][1]);
    tool_json_f64(&j, "greedy_no_weights", c->score[TS_MATCH_GREEDY][0]);
    tool_json_f64(&j, "best", c->score[TS_MATCH_BEST][1]);
    tool_json_f64(&j, "best_no_weights", c->score[TS_MATCH_BEST][0]);
    tool_json_close(&j);
    tool_json_array(&j, "pairs");
    for (uint32_t i = 0; i < c->n; i++) {
        const struct ts_match_pair *p = &c->pair[i];
        tool_json_object(&j, NULL);
        tool_json_u64(&j, "a", p->a + 1);
        tool_json_u64(&j, "b", p->b + 1);
        tool_json_f64(&j, "score", p->score);
        tool_json_f64(&j, "congruence", p->congruence);
        tool_json_f64(&j, "weight_a", c->match.weight_a[p->a]);
        tool_json_f64(&j, "weight_b", c->match.weight_b[p->b]);
        tool_json_array(&j, "cosines");
        for (uint32_t m = 0; m < c->match.order; m++)
            tool_json_f64(&j, NULL, (c->skip >> m & 1) != 0 ? NAN : cosine(c, p, m));
        tool_json_close(&j);
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_close(&j);
}

/* ---- the command ---- */

/* Computes the four scores, and pairs the components by the requested score. */
static int assign(struct compared *c, struct ts_err *err)
{
    struct ts_match_pair *other;
    int rc = 0;
    c->n = ts_match_pairs(&c->match);
    c->pair = calloc(2 * (size_t)c->n, sizeof *c->pair);
    if (c->pair == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u pairs", c->n);
    other = c->pair + c->n;
    for (int how = 0; how < 2 && rc == 0; how++)
        for (int weights = 0; weights < 2 && rc == 0; weights++)
            rc = ts_match_assign(&c->match, (enum ts_match_how)how, weights,
                                 how == c->args->match && weights == !c->args->no_weights ? c->pair
                                                                                          : other,
                                 &c->score[how][weights], err);
    return rc;
}

/* Copies the names of a model's modes to those modes that have no name yet. */
static int take_names(struct compared *c, const struct ts_model *model, struct ts_err *err)
{
    const struct ts_model_names *names = model->names;
    for (uint32_t m = 0; names != NULL && m < model->order; m++) {
        if (c->name[m] != NULL || names->name[m] == NULL)
            continue;
        c->name[m] = strdup(names->name[m]);
        if (c->name[m] == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory");
    }
    return 0;
}

static int take_skip(struct compared *c, uint32_t order, struct ts_err *err)
{
    struct tool_modes modes = { .order = order };
    memcpy(modes.name, c->name, sizeof modes.name);
    for (const char *at = c->args->skip; at != NULL; at++) {
        const size_t n = strcspn(at, ",");
        uint32_t mode;
        if (n == 0)
            return ts_fail(err, TS_EARG, "--skip: a mode is missing before or after a comma");
        if (tool_mode_find(&modes, "skip", at, n, &mode, err) < 0)
            return err->code;
        if ((c->skip >> mode & 1) == 0)
            c->skipped[c->n_skipped++] = mode + 1;
        c->skip |= UINT32_C(1) << mode;
        at += n;
        if (*at == '\0')
            break;
    }
    if (c->n_skipped == order)
        return ts_fail(err, TS_EARG, "--skip: all modes are skipped, and at least one is compared");
    return 0;
}

static int compare(struct compared *c, struct ts_err *err)
{
    struct ts_match_conf conf = { .stop = &tool_stop };
    int rc = ts_threads_get(c->args->threads, 0, &conf.threads, err);
    if (rc == 0)
        rc = ts_model_open(c->a, &conf.a, err);
    if (rc == 0)
        rc = ts_model_open(c->b, &conf.b, err);
    if (rc == 0)
        rc = take_names(c, conf.a, err);
    if (rc == 0)
        rc = take_names(c, conf.b, err);
    if (rc == 0) {
        rc = take_skip(c, conf.a->order, err);
        c->skip_wrong = rc < 0;
    }
    conf.skip = c->skip;
    if (rc == 0)
        rc = ts_match_run(&conf, &c->match, err);
    ts_model_close(conf.a);
    ts_model_close(conf.b);
    if (rc == 0)
        rc = assign(c, err);
    if (rc < 0)
        return rc;
    if (c->args->json) {
        print_json(c);
    } else {
        print_pairs(c);
        print_alone(c);
        print_scores(c);
    }
    return tool_flushed(err);
}

static int run_compare(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct compare_args args;
    struct compared c = { .args = &args };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status =
        operand == NULL ? 1 : tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && tool_threads_check(args.threads, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0) {
        char *a = tool_operand(operand[0], ".cp"), *b = tool_operand(operand[1], ".cp");
        c.a = a != NULL ? a : operand[0];
        c.b = b != NULL ? b : operand[1];
        tool_catch_signals();
        status = 0;
        if (compare(&c, &err) < 0)
            status = c.skip_wrong ? tool_usage(cmd, "%s", err.text) : tool_fail(cmd, &err);
        ts_match_free(&c.match);
        free(c.pair);
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            free(c.name[m]);
        free(a);
        free(b);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_compare = {
    .program = "tstream",
    .name = "compare",
    .operands = "A.cp B.cp",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "match the components of two models and measure their similarity",
    .text =
        "Each component of the model with fewer components gets a different partner in the other "
        "model. The score of a pair is its congruence times 1 - |a - b| / max(a, b) of the two "
        "weights. The congruence is the product over all modes of the cosine of the two columns, "
        "without sign. The factor match score is the mean score of the pairs. It is 1 for equal "
        "models, for any order of components, signs and norms of columns. Tensor Toolbox and "
        "pyttb compute the same score, with greedy matching. A dead component, whose columns are "
        "zeros, matches nothing and has score 0.\n\n"
        "If models from different starts have a score near 1, they found the same components. If "
        "their fits are similar but their scores are not, the rank is too high, or the data "
        "determine no more components.\n\n"
        "A and B are ktensor files or directories as in tstream fit, of any program and any two "
        "ranks. Rows are matched by index, also between factors of used slices (modeK.index) and "
        "full factors. With --skip, the congruence is the product over the other modes. The table "
        "counts components from 1 in the order of each file. The columns "
        "with names of modes, or \"mode K\", are the cosines. Modes that do not fit follow in a second table. Memory does not "
        "grow with the factors.",
    .examples =
        "tstream compare s1.cp s2.cp\n  do two starts find the same components?\n"
        "tstream compare r8.cp r16.cp --match best --no-weights\n  what happens to 8 components at rank 16?\n"
        "tstream compare one.cp two.cp --skip 1 --no-weights\n"
        "  do models of different samples, which are mode 1, agree?\n"
        "tstream compare mine.cp theirs.ktensor --json\n  compare with the model of another program\n",
    .opts = compare_opts,
    .run = run_compare,
};
