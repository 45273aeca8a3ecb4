/* SPDX-License-Identifier: BSD-3-Clause */
/* reseal KIND FILE [CHANGE...] - changes a file that a run of tstream cp left, and puts its
 * checksums right, so that what lies behind them is tested. Of a "state" and of "models"
 * (models.run) a CHANGE is of the options: NAME=VALUE sets one, +NAME=VALUE adds another of that
 * name, -NAME takes it away. "old" leaves models.run as 0.2.0 wrote it, without version and
 * checksum. "json" is run.json, models.json or status.json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ROOM  (1 << 20)
#define HEAD  256 /* of a state; then a section is 32 bytes: name, size */
#define MAGIC "TSHMODELS"

static unsigned char file[ROOM];
static char options[ROOM];
static size_t n_file, n_options;

static void fail(const char *what)
{
    fprintf(stderr, "reseal: %s\n", what);
    exit(1);
}

/* Takes the option away; returns where it was. */
static size_t drop(const char *name, size_t length)
{
    for (size_t at = 0; at < n_options; at += strlen(options + at) + 1)
        if (strncmp(options + at, name, length) == 0 && options[at + length] == '=') {
            const size_t n = strlen(options + at) + 1;
            memmove(options + at, options + at + n, n_options - at - n);
            n_options -= n;
            return at;
        }
    return n_options;
}

static void change(const char *text)
{
    const size_t length = strcspn(text, "="), n = strlen(text) + 1;
    size_t at = n_options;
    if (text[0] == '-') {
        drop(text + 1, length - 1);
        return;
    }
    if (text[0] == '+') {
        memcpy(options + at, text + 1, n - 1);
        n_options += n - 1;
        return;
    }
    at = drop(text, length);
    memmove(options + at + n, options + at, n_options - at);
    memcpy(options + at, text, n);
    n_options += n;
}

static void write_sum(FILE *to, const void *bytes, size_t n)
{
    const uint64_t sum = XXH3_64bits(bytes, n);
    fwrite(&sum, sizeof sum, 1, to);
}

/* Sections one after another, each with its checksum; the options are other ones. */
static void write_state(FILE *to)
{
    static const unsigned char zeros[8];
    uint32_t n;
    uint64_t at, bytes, file_bytes = n_file;
    memcpy(&n, file + 12, sizeof n);
    at = HEAD + n * UINT64_C(32) + 8;
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *section = file + HEAD + i * 32;
        memcpy(&bytes, section + 16, sizeof bytes);
        if (strcmp((char *)section, "options") == 0) {
            const uint64_t now = n_options;
            file_bytes += (now + 7) / 8 * 8 - (bytes + 7) / 8 * 8;
            memcpy(section + 16, &now, sizeof now);
        }
    }
    memcpy(file + 16, &file_bytes, sizeof file_bytes);
    fwrite(file, 1, at - 8, to);
    write_sum(to, file, at - 8);
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *section = file + HEAD + i * 32;
        memcpy(&bytes, section + 16, sizeof bytes);
        if (strcmp((const char *)section, "options") == 0) {
            memcpy(options + n_options, zeros, 8);
            fwrite(options, 1, (n_options + 7) / 8 * 8, to);
            write_sum(to, options, (n_options + 7) / 8 * 8);
            continue;
        }
        fwrite(file + at, 1, (bytes + 7) / 8 * 8 + 8, to);
        at += (bytes + 7) / 8 * 8 + 8;
    }
}

static void read_options(const char *kind)
{
    uint32_t n;
    uint64_t at, bytes;
    if (strcmp(kind, "state") != 0) {
        n_options = n_file - sizeof MAGIC;
        memcpy(options, file + sizeof MAGIC, n_options);
        return;
    }
    memcpy(&n, file + 12, sizeof n);
    at = HEAD + n * UINT64_C(32) + 8;
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *section = file + HEAD + i * 32;
        const size_t padded = (memcpy(&bytes, section + 16, sizeof bytes), (bytes + 7) / 8 * 8 + 8);
        if (strcmp((const char *)section, "options") == 0) {
            n_options = bytes;
            memcpy(options, file + at, bytes);
            memmove(file + at, file + at + padded, n_file - at - padded);
            return;
        }
        at += padded;
    }
    fail("no options");
}

static int write_json(const char *path)
{
    static const char seal[] = ",\"file_checksum\":\"";
    char *at;
    FILE *to;
    file[n_file] = '\0';
    at = strstr((char *)file, seal);
    if (at == NULL)
        fail("no checksum");
    *at = '\0';
    to = fopen(path, "wb");
    if (to == NULL)
        fail("cannot be written");
    fprintf(to, "%s%s%016" PRIx64 "\"}\n", (char *)file, seal,
            (uint64_t)XXH3_64bits(file, (size_t)(at - (char *)file)));
    return fclose(to) != 0;
}

int main(int argc, char **argv)
{
    FILE *f = argc < 3 ? NULL : fopen(argv[2], "rb");
    int models;
    if (f == NULL)
        fail("reseal state|models|old|json FILE [CHANGE...]");
    n_file = fread(file, 1, ROOM / 2, f);
    fclose(f);
    if (strcmp(argv[1], "json") == 0)
        return write_json(argv[2]);
    read_options(argv[1]);
    models = strcmp(argv[1], "models") == 0;
    if (strcmp(argv[1], "state") != 0)
        drop("xxh3", 4);
    if (strcmp(argv[1], "old") == 0)
        drop("version", 7);
    for (int i = 3; i < argc; i++)
        change(argv[i]);
    f = fopen(argv[2], "wb");
    if (f == NULL)
        fail("cannot be written");
    if (strcmp(argv[1], "state") == 0) {
        write_state(f);
    } else {
        memcpy(file, MAGIC, sizeof MAGIC);
        memcpy(file + sizeof MAGIC, options, n_options);
        fwrite(file, 1, sizeof MAGIC + n_options, f);
        if (models)
            fprintf(f, "xxh3=%016" PRIx64 "%c",
                    (uint64_t)XXH3_64bits(file, sizeof MAGIC + n_options), 0);
    }
    return fclose(f) != 0;
}
