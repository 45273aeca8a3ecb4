/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoder for AVX2: the portable code, compiled for machines that also have POPCNT and BMI2. */
#include "format/blocks/unpack.h"

#ifdef __x86_64__
#include "base/machine/target_avx2.h"
#include "format/blocks/unpack_scalar.h"

void ts_unpack_avx2(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                    struct ts_unpacked *ret)
{
    unpack_scalar(conf, at, ret);
}

#include "base/machine/target_pop.h"
#else

void ts_unpack_avx2(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                    struct ts_unpacked *ret)
{
    ts_unpack_portable(conf, at, ret);
}
#endif
