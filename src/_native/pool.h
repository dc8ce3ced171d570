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

/* Calls work(argument, memory) on the caller's thread and on up to `threads` - 1 threads of the pool, and returns when all
 * calls have returned.
 *
 * Each call takes pieces of the job until none is left, so that it does not matter how many threads come. Any number of
 * threads may call pool_run at once: each works on its own job, so that a short one never waits for a long one, and the
 * threads of the pool help in order of arrival. Without threads (the system refuses them) the caller works alone.
 */
void pool_run(int threads, void (*work)(void *argument, struct memory *memory), void *argument);

#endif
