/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: files of a result that commands read. The first byte chooses the file and the command,
 * its highest bit whether the checksum of the rest, which is the file, is put right.
 *
 * Whatever the bytes, the command ends with 0, or with 1 and a sentence.
 */
#include "fuzz/fuzz_tools.h"

#include <xxhash.h>

#define SEAL ",\"file_checksum\":\""

static const struct target {
    const struct ts_cmd *cmd;
    const char *file, *words[6]; /* a word that begins with @ is a file */
} target[] = {
    { &tstream_info, "one/run.json", { "info", "@one" } },
    { &tstream_status, "one/run.json", { "status", "@one" } },
    { &tstream_status, "one/run.json", { "status", "--json", "@one" } },
    { &tstream_top, "one/run.json", { "top", "@one" } },
    { &tstream_report, "one/run.json", { "report", "@one", "-o", "@page", "--force" } },
    { &tstream_export, "one/run.json", { "export", "@one", "-o", "@table", "--force" } },
    { &tstream_info, "several/models.json", { "info", "@several" } },
    { &tstream_status, "several/models.json", { "status", "@several" } },
    { &tstream_report,
      "several/models.json",
      { "report", "@several/r2.s1", "-o", "@page", "--force" } },
    { &tstream_status, "under.partial/status.json", { "status", "@under" } },
    { &tstream_status, "under.partial/status.json", { "status", "--json", "@under" } },
    { &tstream_info, "one/model.ktensor", { "info", "@one" } },
    { &tstream_top, "one/model.ktensor", { "top", "@one" } },
    { &tstream_top, "one/labels", { "top", "@one" } },
    { &tstream_export, "one/labels", { "export", "@one", "-o", "@table", "--force" } },
};
#define N_TARGETS (sizeof target / sizeof *target)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fuzz_begin();
    fuzz_compute(fuzz_at("one"), "2");
    fuzz_compute(fuzz_at("several"), "2,3");
    MUST(mkdir(fuzz_at("under.partial"), 0700) == 0);
    return 0;
}

/* The text, and what ends it. */
static uint8_t *sealed(const uint8_t *data, size_t size, size_t *n)
{
    uint8_t *ret = malloc(size + sizeof SEAL + 20);
    const uint8_t *seal = memmem(data, size, SEAL, sizeof SEAL - 1);
    const size_t body = seal == NULL ? size : (size_t)(seal - data);
    char sum[17];
    MUST(ret != NULL);
    memcpy(ret, data, body);
    fuzz_sum(data, body, sum);
    *n = body + (size_t)sprintf((char *)ret + body, "%s%s\"}\n", SEAL, sum);
    return ret;
}

/* A file of labels with the checksums of its head and of its first chunk put right. */
static uint8_t *sealed_labels(const uint8_t *data, size_t n)
{
    const size_t chunk_head = offsetof(struct ts_disk_label_chunk, hash);
    struct ts_disk_model_labels h;
    struct ts_disk_mode_labels m;
    struct ts_disk_label_chunk c;
    uint8_t *ret = malloc(n + 1);
    uint64_t hash;
    size_t head;
    MUST(ret != NULL);
    memcpy(ret, data, n);
    if (n < sizeof h + sizeof m)
        return ret;
    memcpy(&h, data, sizeof h);
    memcpy(&m, data + sizeof h, sizeof m);
    if (m.at < n && n - m.at > sizeof c) {
        memcpy(&c, data + m.at, sizeof c);
        if (c.stored_bytes <= n - m.at - sizeof c) {
            uint8_t *own = malloc(chunk_head + c.stored_bytes);
            MUST(own != NULL);
            memcpy(own, &c, chunk_head);
            memcpy(own + chunk_head, data + m.at + sizeof c, c.stored_bytes);
            hash = XXH3_64bits(own, chunk_head + c.stored_bytes);
            memcpy(ret + m.at + chunk_head, &hash, sizeof hash);
            free(own);
        }
    }
    head = sizeof h + (h.order & 31) * sizeof m + (h.names_bytes & 8191);
    if (head + sizeof hash <= n) {
        hash = XXH3_64bits(ret, head);
        memcpy(ret + head, &hash, sizeof hash);
    }
    return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct target *t;
    const char *words[7] = { NULL };
    char file[192];
    uint8_t *was = NULL, *own = NULL;
    size_t n_was = 0, n;
    if (size < 1 || size > 1 << 14)
        return 0;
    t = &target[(data[0] & 127) % N_TARGETS];
    snprintf(file, sizeof file, "%s/%s", fuzz_dir, t->file);
    if (access(file, F_OK) == 0)
        was = fuzz_read(file, &n_was);
    n = size - 1;
    if (data[0] & 128)
        own = strcmp(t->file, "one/" TS_LABELS_FILE) == 0 ? sealed_labels(data + 1, n)
                                                          : sealed(data + 1, size - 1, &n);
    fuzz_write(file, own != NULL ? own : data + 1, n);
    for (int i = 0; i < 6 && t->words[i] != NULL; i++)
        words[i] = t->words[i][0] == '@' ? fuzz_at(t->words[i] + 1) : t->words[i];
    fuzz_run(t->cmd, words);
    if (was != NULL)
        fuzz_write(file, was, n_was);
    else
        MUST(unlink(file) == 0);
    free(was);
    free(own);
    return 0;
}
