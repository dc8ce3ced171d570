/* Allocation in large aligned blocks. */
#ifndef RUNOFF_MEMORY_H
#define RUNOFF_MEMORY_H
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define HUGE_PAGE ((size_t)1 << 21) /* bytes, of x86-64 and most arm64 systems */

/* Zeroed memory, 64-byte aligned; on huge pages where it is large and the system has them. NULL when there is none. */
static inline void *memory_new(size_t size)
{
    size_t alignment = size >= HUGE_PAGE ? HUGE_PAGE : 64;
    size = (size + 63) / 64 * 64;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, size))
        return NULL;
#if defined(MADV_HUGEPAGE)
    if (size >= HUGE_PAGE)
        madvise(memory, size, MADV_HUGEPAGE);
#endif
    return memset(memory, 0, size);
}
#endif
