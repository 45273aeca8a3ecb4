/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: command lines. The bytes are the words after the command's name, each ended by a 0.
 *
 * Whatever the words, they are taken or refused with a sentence, what is taken lies in the range of
 * its type, and as it is printed it is taken again and means the same.
 */
#include <math.h>

#include "base/opt.h"
#include "fuzz/fuzz.h"

#define MOST_WORDS 200

struct args {
    int flag, choice;
    uint32_t u32;
    uint64_t u64, size, duration;
    double real;
    const char *string;
    struct ts_opt_list list;
    struct ts_opt_numbers numbers;
};

#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { "flag", 'f', TS_OPT_FLAG, AT(flag), NULL, NULL, "a flag" },
    { "rank", 'r', TS_OPT_U32, AT(u32), "16", "N", "a number" },
    { "count", 'n', TS_OPT_U64, AT(u64), "10M", "N", "a large number" },
    { "memory", 'm', TS_OPT_SIZE, AT(size), "64M", "SIZE", "a size" },
    { "time", 0, TS_OPT_DURATION, AT(duration), "5m", "TIME", "a duration" },
    { "tol", 't', TS_OPT_DOUBLE, AT(real), "1e-5", "X", "a real number" },
    { "out", 'o', TS_OPT_STRING, AT(string), NULL, "DIR", "a word" },
    { "precision", 'p', TS_OPT_CHOICE, AT(choice), "float32", "float32|float64", "one of two" },
    { "map", 0, TS_OPT_LIST, AT(list), NULL, "K=FILE", "many" },
    { "ranks", 0, TS_OPT_NUMBERS, AT(numbers), "8,16", "N,...", "several numbers" },
    { 0 },
};

static int run(const struct ts_cmd *cmd, int argc, char **argv)
{
    (void)cmd, (void)argc, (void)argv;
    return 0;
}
static const struct ts_cmd cmd = {
    .program = "prog",
    .name = "do",
    .operands = "[X]...",
    .max_operands = 3,
    .summary = "does it",
    .opts = opts,
    .run = run,
};

/* Each value as text, taken again. */
static void check_again(const struct args *a)
{
    for (const struct ts_opt *o = opts; o->name != NULL; o++) {
        char text[800], option[840], *argv[] = { "do", option }, *operand[2];
        struct args b;
        struct ts_err err;
        uint32_t n;
        if (o->type == TS_OPT_FLAG || o->type == TS_OPT_STRING || o->type == TS_OPT_LIST)
            continue;
        ts_opt_text(o, a, text, sizeof text);
        snprintf(option, sizeof option, "--%s=%s", o->name, text);
        MUST(ts_opt_parse(&cmd, 2, argv, &b, &n, operand, NULL, &err) == 0);
        switch (o->type) {
        case TS_OPT_U32:
            MUST(a->u32 == b.u32);
            break;
        case TS_OPT_NUMBERS:
            MUST(a->numbers.n == b.numbers.n &&
                 memcmp(a->numbers.at, b.numbers.at, a->numbers.n * sizeof b.numbers.at[0]) == 0);
            break;
        case TS_OPT_U64:
            MUST(a->u64 == b.u64);
            break;
        case TS_OPT_SIZE:
            MUST(a->size == b.size);
            break;
        case TS_OPT_DURATION:
            MUST(a->duration == b.duration);
            break;
        case TS_OPT_CHOICE:
            MUST(a->choice == b.choice);
            break;
        case TS_OPT_FLAG: /* left out above */
        case TS_OPT_STRING:
        case TS_OPT_LIST:
        case TS_OPT_MODES:
        case TS_OPT_DOUBLE:
            MUST(memcmp(&a->real, &b.real, sizeof a->real) == 0);
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "flag", "rank", "precision", NULL };
    char *text = malloc(size + 1), *argv[MOST_WORDS + 1] = { "do" }, *operand[MOST_WORDS + 1];
    struct args a;
    struct ts_err err = { 0 };
    uint64_t given = 0, bytes;
    uint32_t n = 0;
    int argc = 1, rc;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && argc <= MOST_WORDS; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    rc = ts_opt_parse(&cmd, argc, argv, &a, &n, operand, &given, &err);
    MUST(rc == 0 || rc == 1 || rc == 2 || rc == TS_EARG); /* 1: --help, 2: -h */
    if (rc == TS_EARG)
        MUST(err.code == rc && err.text[0] != '\0');
    if (rc == 0) {
        MUST(n <= cmd.max_operands && isfinite(a.real) && a.choice >= 0 && a.choice <= 1);
        MUST(a.list.n <= TS_OPT_LIST_MAX && given >> (sizeof opts / sizeof *opts - 1) == 0);
        check_again(&a);
    }
    (void)ts_opt_size(text, &bytes, &err);
    (void)ts_opt_nearest(text, names);
    free(text);
    return 0;
}
