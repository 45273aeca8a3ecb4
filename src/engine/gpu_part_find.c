/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the GPU part: the only place that knows whether it is linked in. */
#include "config.h"

#include "engine/gpu_part_find.h"

#include <stddef.h>

int ts_gpu_part_find(const struct ts_gpu_part **ret, struct ts_err *why)
{
#ifdef HAVE_CUDA
    (void)why;
    *ret = &ts_gpu_part;
    return 1;
#else
    *ret = NULL;
    ts_fail(why, TS_ECUDA, "this program was built without CUDA");
    return 0;
#endif
}
