#include "config.h"

#include "tools/tstream_gpu.h"

#include <string.h>

#include "cpu/cpu_backend.h"
#ifdef HAVE_CUDA
#include "gpu/gpu_backend.h"
#include "gpu/gpu_devices.h"
#endif

int tstream_processor_choose(const struct tstream_processor *want, const struct ts_backend **ret,
                             int *device, struct ts_err *err)
{
    const int asked = want->gpus != NULL && strcmp(want->gpus, "0") != 0;
    char why[160] = "this program was built without CUDA";
    *device = -1;
    if (want->gpus != NULL && strcmp(want->gpus, "0") != 0 && strcmp(want->gpus, "1") != 0)
        return ts_fail(err, TS_EARG,
                       "--gpus %s: a run uses one GPU or none; CUDA_VISIBLE_DEVICES says which",
                       want->gpus);
    if (asked && want->cpu)
        return ts_fail(err, TS_EARG, "--cpu and --gpus %s exclude each other", want->gpus);
#ifdef HAVE_CUDA
    if (!want->cpu && (want->gpus == NULL || asked))
        *device = ts_gpu_first(why);
    if (*device >= 0) {
        *ret = &ts_backend_gpu;
        return 0;
    }
#endif
    if (asked)
        return ts_fail(err, TS_ECUDA, "--gpus %s: %s", want->gpus, why);
    if (want->device_bytes > 0 && !want->cpu && want->gpus == NULL)
        return ts_fail(err, TS_ECUDA, "--gpu-memory: %s", why);
    *ret = &ts_backend_cpu;
    return 0;
}
