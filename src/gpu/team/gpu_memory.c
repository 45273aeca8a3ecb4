/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks NVML how much memory of a device is in use. NVML is loaded at run time. Without it the
 * functions return 0. */
#include "gpu/team/gpu_memory.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdlib.h>

/* The declarations of nvml.h that are used here. Not every CUDA toolkit has that header. The
 * library comes with the driver and is loaded at run time. */
struct nvml_memory {
    unsigned long long total, free, used;
};
typedef int nvml_init_fn(void);
typedef int nvml_handle_fn(const char *pci_bus_id, void **device);
typedef int nvml_memory_fn(void *device, struct nvml_memory *memory);

struct ts_gpu_memory {
    void *library;
    nvml_init_fn *shutdown;
    nvml_handle_fn *handle;
    nvml_memory_fn *info;
};

struct ts_gpu_memory *ts_gpu_memory_open(void)
{
    struct ts_gpu_memory *m = calloc(1, sizeof *m);
    nvml_init_fn *init;
    if (m == NULL)
        return NULL;
    m->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (m->library == NULL)
        goto none;
    init = (nvml_init_fn *)dlsym(m->library, "nvmlInit_v2");
    m->shutdown = (nvml_init_fn *)dlsym(m->library, "nvmlShutdown");
    m->handle = (nvml_handle_fn *)dlsym(m->library, "nvmlDeviceGetHandleByPciBusId_v2");
    m->info = (nvml_memory_fn *)dlsym(m->library, "nvmlDeviceGetMemoryInfo");
    if (init != NULL && m->shutdown != NULL && m->handle != NULL && m->info != NULL && init() == 0)
        return m;
    dlclose(m->library);
none:
    free(m);
    return NULL;
}

void ts_gpu_memory_close(struct ts_gpu_memory *m)
{
    if (m == NULL)
        return;
    m->shutdown();
    dlclose(m->library);
    free(m);
}

static int ask(const struct ts_gpu_memory *m, int device, struct nvml_memory *ret)
{
    char bus[32];
    void *handle;
    return m != NULL && cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess &&
           m->handle(bus, &handle) == 0 && m->info(handle, ret) == 0;
}

int ts_gpu_memory_used(const struct ts_gpu_memory *m, int device, uint64_t *ret)
{
    struct nvml_memory memory;
    if (!ask(m, device, &memory))
        return 0;
    *ret = memory.used;
    return 1;
}

int ts_gpu_memory_free(const struct ts_gpu_memory *m, int device, uint64_t *ret)
{
    struct nvml_memory memory;
    if (!ask(m, device, &memory))
        return 0;
    *ret = memory.free;
    return 1;
}

int ts_gpu_memory_has_context(int device)
{
    typedef int state_fn(int device, unsigned *flags, int *active);
    typedef int device_fn(int *device, int ordinal);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    int handle, active = 0;
    unsigned flags;
    device_fn *get;
    state_fn *state;
    if (library == NULL)
        return 0;
    get = (device_fn *)dlsym(library, "cuDeviceGet");
    state = (state_fn *)dlsym(library, "cuDevicePrimaryCtxGetState");
    if (get == NULL || state == NULL || get(&handle, device) != 0 ||
        state(handle, &flags, &active) != 0)
        active = 0;
    dlclose(library);
    return active;
}
