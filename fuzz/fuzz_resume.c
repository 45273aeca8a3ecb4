/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: the whole path of tstream cp --resume. The lowest bits of the first byte choose what
 * is read:
 *
 *     0  the bytes behind it are a state, whose checksums are put right
 *     1  they are options, a line each, in a state that is right otherwise
 *     2  they are models.run, as it is
 *     3  they are options, a line each, in a models.run with its checksum
 *     4  the same without one, as 0.2.0 wrote it
 *
 * Whatever the bytes, the command ends with 0, or with 1 and a sentence, and other files than those
 * of the result are not there. Options that ask for much work are left out.
 */
#include "fuzz/fuzz_tools.h"

#define MAGIC "TSHMODELS"

static uint8_t *state;
static size_t n_state;
static uint64_t work;

/* For tstream_cp_command: how much work the options ask for. */
static int count_work(const struct ts_cmd *cmd, const void *parsed, const char *path,
                      struct ts_err *err)
{
    const struct cp_args *args = parsed;
    (void)cmd, (void)path, (void)err;
    work = (uint64_t)args->rank * args->iters * tstream_cp_models(args) * args->inner;
    if (strcmp(args->init, "random") != 0 && strcmp(args->init, "nvecs") != 0)
        work = UINT64_MAX; /* of a file anywhere */
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fuzz_begin();
    fuzz_compute(fuzz_at("one"), "2");
    fuzz_compute(fuzz_at("several"), "2,3");
    state = fuzz_read(fuzz_at("one/state"), &n_state);
    MUST(rename(fuzz_at("several/r2.s1"), fuzz_at("r2.s1")) == 0);
    fuzz_remove(fuzz_at("one"));
    fuzz_remove(fuzz_at("several"));
    return 0;
}

/* The state with other options: sections move up or down. */
static uint8_t *with_options(const uint8_t *options, uint64_t bytes, uint64_t *size)
{
    uint8_t *ret = calloc(1, n_state + bytes + 16), *to;
    uint32_t n;
    uint64_t from;
    MUST(ret != NULL);
    memcpy(&n, state + 12, sizeof n);
    from = 256 + n * UINT64_C(32) + 8;
    memcpy(ret, state, from);
    to = ret + from;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *section = ret + 256 + i * UINT64_C(32);
        uint64_t own;
        memcpy(&own, section + 16, sizeof own);
        if (strcmp((char *)section, "options") == 0) {
            memcpy(section + 16, &bytes, sizeof bytes);
            memcpy(to, options, bytes);
            to += (bytes + 7) / 8 * 8 + 8;
        } else {
            memcpy(to, state + from, (own + 7) / 8 * 8);
            to += (own + 7) / 8 * 8 + 8;
        }
        from += (own + 7) / 8 * 8 + 8;
    }
    *size = (uint64_t)(to - ret);
    fuzz_seal_state(ret, *size);
    return ret;
}

static void write_one(const uint8_t *data, uint64_t size, int options)
{
    uint64_t n = size;
    uint8_t *own = options ? with_options(data, size, &n) : malloc(size + 1);
    MUST(own != NULL);
    if (!options) {
        memcpy(own, data, size);
        fuzz_seal_state(own, size);
    }
    MUST(mkdir(fuzz_at("one"), 0700) == 0);
    fuzz_write(fuzz_at("one/state"), own, n);
    free(own);
}

static void write_several(const uint8_t *data, size_t size, int kind)
{
    char *text = NULL, sum[17];
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    MUST(f != NULL);
    if (kind != 2)
        fwrite(MAGIC, 1, sizeof MAGIC, f);
    if (kind == 3)
        fprintf(f, "version=2%c", 0);
    fwrite(data, 1, size, f);
    MUST(fflush(f) == 0);
    fuzz_sum(text, n, sum);
    if (kind == 3)
        fprintf(f, "xxh3=%s%c", sum, 0);
    MUST(fclose(f) == 0);
    MUST(mkdir(fuzz_at("several.partial"), 0700) == 0);
    fuzz_write(fuzz_at("several.partial/models.run"), text, n);
    free(text);
    MUST(rename(fuzz_at("r2.s1"), fuzz_at("several.partial/r2.s1")) == 0);
}

/* What has the name of the result goes; nothing else is there. */
static void clear(void)
{
    static const char *const name[] = { "one", "one.partial", "several", "several.partial" };
    for (int i = 2; i < 4; i++) {
        char path[192];
        snprintf(path, sizeof path, "%s/%s/r2.s1", fuzz_dir, name[i]);
        if (access(path, F_OK) == 0)
            MUST(rename(path, fuzz_at("r2.s1")) == 0);
    }
    for (int i = 0; i < 4; i++)
        fuzz_remove(fuzz_at(name[i]));
    MUST(rename(fuzz_at("r2.s1"), fuzz_at("kept")) == 0);
    MUST(rename(fuzz_at("kept"), fuzz_at("r2.s1")) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *words[] = { "cp", "--resume", NULL, FUZZ_TENSOR, "--cpu", "-t", "1", "-q", NULL };
    char *argv[8];
    uint8_t *own;
    int kind;
    if (size < 2 || size > 1 << 14)
        return 0;
    kind = data[0] % 5;
    own = malloc(size);
    MUST(own != NULL);
    memcpy(own, data + 1, size - 1);
    for (size_t i = 0; i < size - 1 && (kind == 1 || kind > 2); i++)
        own[i] = own[i] == '\n' ? 0 : own[i];
    own[size - 1] = 0;
    if (kind < 2)
        write_one(own, kind == 0 ? size - 1 : size, kind);
    else
        write_several(own, kind == 2 ? size - 1 : size, kind);
    free(own);
    words[2] = fuzz_at(kind < 2 ? "one" : "several");
    for (int i = 0; i < 8; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    work = UINT64_MAX;
    if (tstream_cp_command(&tstream_cp, 8, argv, count_work) == 0 && work < 2000)
        fuzz_run(&tstream_cp, words);
    clear();
    return 0;
}
