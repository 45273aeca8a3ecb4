/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses which of several files a sample of the input reads. */
#include "source/file_sample.h"

#include <sys/stat.h>

void ts_file_sample_count(struct ts_file_sample *s, uint64_t read, uint64_t size)
{
    if (ts_file_sample_is_on(s) && size > 0)
        s->due += (double)read / s->share - (double)size;
}

uint32_t ts_file_sample_next(struct ts_file_sample *s, const char *const paths[], uint32_t n_paths,
                             uint32_t next)
{
    struct stat st;
    while (s->due > 0 && next < n_paths && stat(paths[next], &st) == 0 && S_ISREG(st.st_mode) &&
           (double)st.st_size <= s->due) {
        s->due -= (double)st.st_size;
        next++;
    }
    return next;
}
