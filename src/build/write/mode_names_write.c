/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes NAME.tsh/modes, which has the names of the modes and the first index of the input (0 or
 * 1). */
#include "build/write/mode_names_write.h"

#include <string.h>
#include <xxhash.h>

#include "format/mode_names.h"

#define MAX_BYTES (sizeof(struct ts_disk_modes) + (TS_MAX_ORDER + 1) * (TS_MODE_NAME_MAX + 1) + 8)

int ts_mode_names_write(const struct ts_build_dir *dir, uint32_t order, uint32_t base,
                        const char *const name[], uint64_t index_hash, struct ts_err *err)
{
    struct ts_disk_modes h = {
        .version = TS_FORMAT_VERSION, .order = order, .index_hash = index_hash, .base = base
    };
    char buf[MAX_BYTES], *at = buf + sizeof h;
    uint64_t hash;
    int any = base != 1;
    for (uint32_t i = 0; i <= order; i++) {
        const size_t n = name[i] == NULL ? 0 : strlen(name[i]);
        if (n > TS_MODE_NAME_MAX || (n > 0 && strchr(name[i], '\n') != NULL))
            return ts_fail(err, TS_EARG, "the name of a mode must be one line of at most %u bytes",
                           TS_MODE_NAME_MAX);
        if (n > 0)
            memcpy(at, name[i], n);
        at += n;
        *at++ = '\n';
        any |= n > 0;
    }
    if (!any)
        return 0;
    memcpy(h.magic, TS_MODES_MAGIC, sizeof h.magic);
    h.text_bytes = (uint64_t)(at - buf) - sizeof h;
    memcpy(buf, &h, sizeof h);
    hash = XXH3_64bits(buf, (size_t)(at - buf));
    memcpy(at, &hash, sizeof hash);
    return ts_build_dir_write(dir, TS_MODES_NAME, buf, (size_t)(at - buf) + sizeof hash, err);
}
