/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the index of each row of a model, and computes signatures of models. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/setting.h"
#include "base/num.h"
#include "model/model_read.h"

#define SIGNED_BYTES 65536u /* bytes at each end of a file that are part of its signature */

/* Reads the next number of modeK.index. Numbers count from 1, and must be larger than `before`. */
static int read_index(FILE *f, const char *name, uint64_t line, uint64_t before, uint64_t *ret,
                      struct ts_err *err)
{
    uint64_t x = 0;
    int c = getc_unlocked(f), digits = 0;
    for (; c >= '0' && c <= '9' && x <= TS_MAX_DIM; c = getc_unlocked(f), digits++)
        x = 10 * x + (uint64_t)(c - '0');
    if (ferror(f))
        return ts_fail_errno(err, TS_EIO, "%s: line %" PRIu64 ": cannot be read", name, line);
    if (digits == 0 || (c != '\n' && c != EOF) || x <= before || x > TS_MAX_DIM)
        return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": no index above %" PRIu64, name, line,
                       before);
    *ret = x;
    return 0;
}

static int memory_index(const struct ts_model *m, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const uint64_t n = m->n_rows[mode], *index = m->memory.index(m->memory.from, mode);
    if (index == NULL)
        return 0;
    *ret = malloc(n * sizeof **ret);
    if (*ret == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " indices", n);
    memcpy(*ret, index, n * sizeof **ret);
    return 0;
}

/* Opens a stream at the start of an open file. The descriptor stays open when the stream is
 * closed. */
static FILE *stream_of(int fd)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = own < 0 || lseek(own, 0, SEEK_SET) != 0 ? NULL : fdopen(own, "rb");
    if (f == NULL && own >= 0)
        close(own);
    return f;
}

int ts_model_index(const struct ts_model *m, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const uint64_t n = m->n_rows[mode];
    uint64_t *index = NULL, last = 0;
    char *name = NULL;
    FILE *f;
    int rc = 0;
    *ret = NULL;
    if (m->kind == TS_MODEL_MEMORY)
        return memory_index(m, mode, ret, err);
    if (m->index_fd[mode] < 0)
        return 0;
    if (asprintf(&name, "%s/mode%u.index", m->path, mode + 1) < 0)
        return ts_no_memory(err, m->path);
    f = stream_of(m->index_fd[mode]);
    if (f == NULL) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be opened", name);
        free(name);
        return rc;
    }
    index = malloc(n * sizeof *index);
    if (index == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for %" PRIu64 " indices", name, n);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        rc = read_index(f, name, i + 1, last, &last, err);
        index[i] = last - 1;
    }
    if (rc == 0 && getc_unlocked(f) != EOF)
        rc = ts_fail(err, TS_EFORMAT, "%s: more indices than the %" PRIu64 " row%s of " TS_NTH_MODE,
                     name, n, ts_num_plural(n), mode + 1);
    if (rc == 0)
        *ret = index;
    else
        free(index);
    fclose(f);
    free(name);
    return rc;
}

/* Adds the size, the beginning and the end of a file to a hash. Returns 0 if it is not a regular
 * file, or cannot be read. */
static int add_file(XXH3_state_t *hash, FILE *file, char *piece)
{
    const int fd = fileno(file);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    XXH3_64bits_update(hash, &st.st_size, sizeof st.st_size);
    for (int end = 0; end < 2; end++) {
        const off_t at = end && st.st_size > SIGNED_BYTES ? st.st_size - SIGNED_BYTES : 0;
        const ssize_t n = pread(fd, piece, SIGNED_BYTES, at);
        if (n < 0)
            return 0;
        XXH3_64bits_update(hash, piece, (size_t)n);
    }
    return 1;
}

uint64_t ts_model_sign(const struct ts_model *m)
{
    XXH3_state_t *hash = XXH3_createState();
    char *piece = malloc(SIGNED_BYTES);
    int there = hash != NULL && piece != NULL && m->kind != TS_MODEL_MEMORY;
    uint64_t ret = 0;
    if (there) {
        XXH3_64bits_reset(hash);
        XXH3_64bits_update(hash, m->weight, m->rank * sizeof *m->weight);
        if (m->kind == TS_MODEL_KTENSOR)
            there = m->file != NULL && add_file(hash, m->file, piece);
        for (uint32_t k = 0; k < m->order && there && m->kind != TS_MODEL_KTENSOR; k++)
            there = add_file(hash, m->part[k], piece);
        ret = there ? XXH3_64bits_digest(hash) : 0;
    }
    free(piece);
    XXH3_freeState(hash);
    return ret;
}
