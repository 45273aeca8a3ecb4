/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA failure becomes one sentence that names the GPU, says what failed, and what to do. It
 * needs no GPU: the errors are numbers. */
#include <check.h>
#include <cuda_runtime.h>
#include <string.h>

#include "gpu/team/gpu_devices.h"
#include "gpu/team/gpu_fail.h"
#include "tests/support/run_suite.h"

static const struct {
    cudaError_t error;
    int code;
    const char *text[3]; /* all of them are in the sentence */
} want[] = {
    { cudaErrorMemoryAllocation, TS_ENOMEM, { "out of memory", "gpu_memory" } },
    { cudaErrorInsufficientDriver, TS_ECUDA, { "driver is older than CUDA", "use cpu" } },
    { cudaErrorNoKernelImageForDevice, TS_ECUDA, { "--with-cuda-arch", "use cpu" } },
    { cudaErrorUnsupportedPtxVersion, TS_ECUDA, { "--with-cuda-arch", "use cpu" } },
    { cudaErrorDevicesUnavailable, TS_ECUDA, { "busy or unavailable", "gpus LIST", "use cpu" } },
    { cudaErrorECCUncorrectable, TS_ECUDA, { "the GPU failed (", "Xid", "gpus LIST" } },
    { cudaErrorNvlinkUncorrectable, TS_ECUDA, { "the GPU failed (", "Xid", "gpus LIST" } },
    { cudaErrorLaunchFailure, TS_ECUDA, { "the GPU failed (", "nvidia-smi", "or cpu" } },
    { cudaErrorIllegalAddress, TS_ECUDA, { "the GPU failed (", "nvidia-smi", "or cpu" } },
    { cudaErrorUnknown, TS_ECUDA, { "the GPU failed (", "nvidia-smi", "or cpu" } },
    { cudaErrorInvalidValue, TS_ECUDA, { "invalid argument" } },
};

START_TEST(a_failure_says_what_to_do)
{
    struct ts_err err = { 0 };
    ck_assert_int_eq(ts_gpu_fail(&err, want[_i].error, "row solves"), want[_i].code);
    ck_assert_int_eq(err.code, want[_i].code);
    ck_assert_int_eq(err.sys, want[_i].error);
    ck_assert_msg(strncmp(err.text, "GPU 0: row solves: ", 19) == 0, "%s", err.text);
    for (int i = 0; i < 3 && want[_i].text[i] != NULL; i++)
        ck_assert_msg(strstr(err.text, want[_i].text[i]) != NULL, "no \"%s\" in: %s",
                      want[_i].text[i], err.text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
    ck_assert_int_eq(ts_gpu_fail(NULL, want[_i].error, "row solves"), want[_i].code);
}
END_TEST

/* With or without a GPU: a reason wherever there is none. */
START_TEST(what_is_not_usable_has_a_reason)
{
    char why[160] = "";
    const int n = ts_gpu_count(why);
    if (n <= 0)
        ck_assert_str_ne(why, "");
    why[0] = '\0';
    ck_assert_int_eq(ts_gpu_usable(TS_GPU_MAX_DEVICES, why), 0);
    ck_assert_str_ne(why, "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gpu_fail");
    TCase *c = tcase_create("gpu_fail");
    tcase_add_loop_test(c, a_failure_says_what_to_do, 0, sizeof want / sizeof want[0]);
    tcase_add_test(c, what_is_not_usable_has_a_reason);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_NOFORK); /* a CUDA context does not survive a fork */
}
