/* One pool of threads for the process. Idle threads sleep; a forked child starts its own. */
#ifndef RUNOFF_POOL_H
#define RUNOFF_POOL_H
#include <stddef.h>

/* Memory that a thread keeps from one job to the next. */
struct memory {
    void *bytes;
    size_t size;
};

/* At least `size` bytes aligned to 64, contents undefined; NULL when there is no memory. */
void *memory_reserve(struct memory *memory, size_t size);

/* Calls work(argument, memory) on up to `threads` threads of the pool and returns when all calls have returned.
 *
 * Each call takes pieces of the job until none is left, so that it does not matter how many threads come. Any number of
 * threads may call pool_run at once: jobs are served in order of arrival, and the caller sleeps. Without threads (the
 * system refuses them) the caller works itself.
 */
void pool_run(int threads, void (*work)(void *argument, struct memory *memory), void *argument);

#endif
