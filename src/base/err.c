/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WHOLE_CHARS 12288u /* two paths of PATH_MAX and what is said of them */
#define HEAD_CHARS  300u   /* kept of the start of a sentence that is too long */

static int inside_character(char c) /* of UTF-8: not its first byte */
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* A sentence ends in what went wrong, and a path in the name of the file: of one that is too long the
 * middle is left out, at characters' bounds. */
static void keep_ends(const char *whole, size_t len, char *text, size_t size)
{
    static const char gap[] = "...";
    size_t head = HEAD_CHARS, tail;
    if (len < size) {
        memcpy(text, whole, len + 1);
        return;
    }
    while (head > 0 && inside_character(whole[head]))
        head--;
    tail = len - (size - 1 - head - (sizeof gap - 1));
    while (tail < len && inside_character(whole[tail]))
        tail++;
    memcpy(text, whole, head);
    memcpy(text + head, gap, sizeof gap - 1);
    memcpy(text + head + sizeof gap - 1, whole + tail, len - tail + 1);
}

/* Arguments may lie in err->text itself: it is written last. */
static int fail(struct ts_err *err, int code, int sys, const char *fmt, va_list ap)
{
    char whole[WHOLE_CHARS];
    size_t len;
    int n;
    if (err == NULL)
        return code;
    n = vsnprintf(whole, sizeof whole, fmt, ap);
    len = n < 0 ? 0 : (size_t)n < sizeof whole ? (size_t)n : sizeof whole - 1;
    whole[len] = '\0';
    if (sys != 0) {
        const char *why = strerror(sys);
        const size_t most = sizeof whole - strlen(why) - 3;
        len = len < most ? len : most;
        len += (size_t)snprintf(whole + len, sizeof whole - len, ": %s", why);
    }
    err->code = code;
    err->sys = sys;
    keep_ends(whole, len, err->text, sizeof err->text);
    return code;
}

int ts_fail(struct ts_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

int ts_vfail(struct ts_err *err, int code, const char *fmt, va_list ap)
{
    return fail(err, code, 0, fmt, ap);
}

int ts_fail_errno(struct ts_err *err, int code, const char *fmt, ...)
{
    const int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fail(err, code, saved, fmt, ap);
    va_end(ap);
    return code;
}
