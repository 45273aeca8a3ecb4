/* SPDX-License-Identifier: BSD-3-Clause */
/* bits_isa.c - kernels of an instruction set that is asked for, in programs that tests/bits builds.
 *
 * These programs are linked with --wrap for both functions of base/machine/isa.h. $TS_BITS_ISA is
 * the best instruction set that the program may use: 0 portable, 1 AVX2, 2 AVX-512. Without it all
 * are used.
 *
 *   threads  any thread
 *   errors   none
 */
#include <stdlib.h>

#if __has_include("base/machine/isa.h")
#include "base/machine/isa.h"
#else /* of a commit whose folders had no folders in them */
#include "base/isa.h"
#endif

int __real_ts_isa_here(enum ts_isa isa);
int __wrap_ts_isa_here(enum ts_isa isa);
enum ts_isa __wrap_ts_isa_best(void);

int __wrap_ts_isa_here(enum ts_isa isa)
{
    const char *most = getenv("TS_BITS_ISA");
    return (most == NULL || (int)isa <= atoi(most)) && __real_ts_isa_here(isa);
}

enum ts_isa __wrap_ts_isa_best(void)
{
    enum ts_isa isa = TS_ISA_AVX512;
    while (!__wrap_ts_isa_here(isa))
        isa--;
    return isa;
}
