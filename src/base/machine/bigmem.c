/* SPDX-License-Identifier: BSD-3-Clause */
/* Large blocks of memory, mapped from the kernel. Blocks that are large enough are aligned for huge
 * pages. */
#include "base/machine/bigmem.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}

size_t ts_bigmem_cost(size_t bytes)
{
    const size_t page = page_bytes();
    assert(bytes <= SIZE_MAX / 4);
    return (bytes + TS_BIGMEM_SLACK + page - 1) / page * page;
}

/* Returns a mapping of `size` bytes whose address is a multiple of TS_BIGMEM_HUGE, or MAP_FAILED.
 * It maps more bytes and unmaps both ends. */
static void *map_aligned(size_t size)
{
    const size_t more = size + TS_BIGMEM_HUGE;
    char *base = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *start;
    size_t head;
    if (base == MAP_FAILED)
        return MAP_FAILED;
    head = (size_t)(-(uintptr_t)base % TS_BIGMEM_HUGE);
    start = base + head;
    if (head > 0)
        munmap(base, head);
    munmap(start + size, TS_BIGMEM_HUGE - head);
    return start;
}

int ts_bigmem_new(size_t bytes, const char *purpose, void **ret, struct ts_err *err)
{
    void *addr = MAP_FAILED;
    errno = ENOMEM;
    if (bytes <= SIZE_MAX / 4) {
        const size_t size = ts_bigmem_cost(bytes);
        if (bytes >= TS_BIGMEM_HUGE)
            addr = map_aligned(size);
        if (addr == MAP_FAILED) /* the block is small, or a limit on addresses leaves no room to
                                 * align it */
            addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (addr != MAP_FAILED && bytes >= TS_BIGMEM_HUGE)
            (void)madvise(addr, size, MADV_HUGEPAGE); /* a failure costs only speed */
    }
    if (addr == MAP_FAILED)
        return ts_fail_errno(err, TS_ENOMEM, "no memory for the %zu bytes of %s", bytes, purpose);
    *ret = addr;
    return 0;
}

void ts_bigmem_free(void *addr, size_t bytes)
{
    if (addr != NULL)
        munmap(addr, ts_bigmem_cost(bytes));
}
