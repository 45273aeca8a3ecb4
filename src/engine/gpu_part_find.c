/* SPDX-License-Identifier: BSD-3-Clause */
/* Returns the GPU part (gpu_part_find.h). Only this file depends on whether it is linked in. */
#include "config.h"

#include "engine/gpu_part_find.h"

#include <pthread.h>
#include <stddef.h>

#include "engine/gpu_part_open.h"

#ifdef HAVE_CUDA
int ts_gpu_part_find(const struct ts_gpu_part **ret, struct ts_err *why)
{
    (void)why;
    *ret = &ts_gpu_part;
    return 1;
}
#else
static struct {
    pthread_once_t once;
    const struct ts_gpu_part *part;
    int found;
    struct ts_err why;
} it = { .once = PTHREAD_ONCE_INIT };

static void open_it(void)
{
    it.found = ts_gpu_part_open(&it.part, &it.why);
}

int ts_gpu_part_find(const struct ts_gpu_part **ret, struct ts_err *why)
{
    pthread_once(&it.once, open_it);
    *ret = it.part;
    if (it.found <= 0 && why != NULL)
        *why = it.why;
    return it.found;
}
#endif
