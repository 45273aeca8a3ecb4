#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int ts_fail(struct ts_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    if (err == NULL)
        return code;
    err->code = code;
    err->sys = 0;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return code;
}

int ts_fail_errno(struct ts_err *err, int code, const char *fmt, ...)
{
    const int saved = errno;
    va_list ap;
    size_t len;
    if (err == NULL)
        return code;
    err->code = code;
    err->sys = saved;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    len = strlen(err->text);
    snprintf(err->text + len, sizeof err->text - len, ": %s", strerror(saved));
    return code;
}
