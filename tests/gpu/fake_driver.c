/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_driver.c - a libcuda.so.1 for check_gpu_driver.sh: a driver of the CUDA version
 * FAKE_CUDA_VERSION (13000 is 13.0) whose start gives the error FAKE_CUDA_INIT. It has no more than
 * a program asks before it knows that it cannot go on; every other function says that it is not
 * supported. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

enum { CUDA_ERROR_NOT_SUPPORTED = 801 };

static int number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atoi(text);
}

int cuDriverGetVersion(int *version)
{
    *version = number("FAKE_CUDA_VERSION");
    return 0;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return number("FAKE_CUDA_INIT");
}

static int not_supported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_SUPPORTED;
}

int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *status)
{
    Dl_info self;
    (void)version, (void)flags;
    *ret = NULL;
    if (dladdr((void *)(uintptr_t)cuDriverGetVersion, &self) != 0)
        *ret = dlsym(dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
    if (*ret == NULL)
        *ret = (void *)(uintptr_t)not_supported;
    if (status != NULL)
        *status = 0;
    return 0;
}

int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, ret, version, flags, NULL);
}
