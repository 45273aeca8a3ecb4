#include "cpu/kernel.h"

#include "cpu/kernel_isa.h"

enum ts_kernel_isa ts_kernel_best(void)
{
    return TS_ISA_PORTABLE;
}

ts_kernel_fn *ts_kernel_get(enum ts_kernel_isa isa, enum ts_precision precision)
{
    if (isa == TS_ISA_PORTABLE)
        return precision == TS_FLOAT32 ? ts_kernel_portable_f32 : ts_kernel_portable_f64;
    return NULL;
}
