/* SPDX-License-Identifier: BSD-3-Clause */
/* err.h - failures: functions return a negative code, and write a message of one sentence to a
 * struct ts_err.
 *
 * The function that first detects a failure writes the message: the file, the position, what was
 * found and expected, and marks for names of settings (setting.h). Callers return code and message
 * unchanged. Only tools print, and only tools exit.
 *
 *   owner    the caller owns the struct ts_err; a NULL err is allowed and drops the message
 *   threads  one ts_err belongs to one thread at a time
 */
#ifndef TS_BASE_ERR_H
#define TS_BASE_ERR_H

#include <stdarg.h>

enum ts_code {
    TS_ENOMEM = -1,  /* out of memory, or out of the memory that the user allows */
    TS_EIO = -2,     /* a system call on a file failed */
    TS_EFORMAT = -3, /* input is not valid: text, shard, factor file */
    TS_ECUDA = -4,   /* a CUDA or NCCL call failed */
    TS_ELIMIT = -5,  /* the input is well-formed, but beyond the limits of this program */
    TS_EBUSY = -6,   /* another process uses a file, or it exists and must not be replaced */
    TS_EARG = -7,    /* the caller's request makes no sense (tools exit with code 1 or 2) */
    TS_ESTOP = -8,   /* the user asked to stop (SIGINT, SIGTERM) */
};

struct ts_err {
    int code;        /* a ts_code, 0 when nothing failed */
    int sys;         /* errno, cudaError_t or ncclResult_t, 0 when none */
    char text[1024]; /* one sentence, no newline */
};

/* Fills err (if not NULL) and returns code. A message that is too long is shortened in the middle,
 * so that the end of a long path and the reason remain. */
int ts_fail(struct ts_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

int ts_vfail(struct ts_err *err, int code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Fails with TS_ENOMEM: "NAME: out of memory". */
int ts_no_memory(struct ts_err *err, const char *name);

/* Like ts_fail, with errno: stores it in err->sys, and appends ": " and its text to the message. */
int ts_fail_errno(struct ts_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
