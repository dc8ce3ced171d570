#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "memory.h"

#define SPARES 4 /* callers whose memory is kept, some 4 MB each: more at once are rare, and may allocate */

struct job {
    void (*work)(void *, struct memory *);
    void *argument;
    int wanted;  /* threads that may still join */
    int working; /* threads inside work() */
    int drained; /* a thread found nothing left to take */
    pthread_cond_t finished;
    struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct job *queue; /* oldest first */
static int started;       /* threads of the pool */
static struct memory spare[SPARES]; /* of callers, for the next ones; under the lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;

void *memory_reserve(struct memory *memory, size_t size)
{
    if (memory->size < size) {
        free(memory->bytes);
        memory->bytes = memory_new(size);
        memory->size = memory->bytes ? size : 0;
    }
    return memory->bytes;
}

static struct job *joinable(void)
{
    struct job *job = queue;
    while (job && (job->drained || job->wanted == 0))
        job = job->next;
    return job;
}

/* Works on one job; the lock is held before and after. */
static void join(struct job *job, struct memory *memory)
{
    job->wanted--;
    job->working++;
    pthread_mutex_unlock(&lock);
    job->work(job->argument, memory);
    pthread_mutex_lock(&lock);
    job->drained = 1;
    if (--job->working == 0)
        pthread_cond_signal(&job->finished);
}

static void *run_thread(void *unused)
{
    struct memory memory = {NULL, 0};
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct job *job = joinable();
        if (job)
            join(job, &memory);
        else
            pthread_cond_wait(&arrived, &lock);
    }
    return NULL;
}

/* Starts threads up to `count`, deaf to signals, which belong to the interpreter's main thread. */
static void grow(int count)
{
    sigset_t all, before;
    pthread_attr_t detached;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (pthread_t thread; started < count; started++)
        if (pthread_create(&thread, &detached, run_thread, NULL))
            break;
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* The child has one thread: no pool, and nobody waits for the jobs of the parent. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&arrived, NULL);
    queue = NULL;
    started = 0;
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

static void append(struct job *job)
{
    struct job **end = &queue;
    while (*end)
        end = &(*end)->next;
    *end = job;
}

static void drop(struct job *job)
{
    struct job **at = &queue;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
}

/* Memory of an earlier caller, the largest there is, or none yet; the lock is held. */
static struct memory borrow(void)
{
    struct memory *best = spare;
    for (int i = 1; i < SPARES; i++)
        if (spare[i].size > best->size)
            best = &spare[i];
    const struct memory memory = *best;
    *best = (struct memory){NULL, 0};
    return memory;
}

/* Keeps a caller's memory in the place of the smallest, whose bytes it returns for the caller to free; the lock is held. */
static void *give_back(struct memory memory)
{
    struct memory *least = spare;
    for (int i = 1; i < SPARES; i++)
        if (spare[i].size < least->size)
            least = &spare[i];
    if (least->size >= memory.size)
        return memory.bytes;
    void *bytes = least->bytes;
    *least = memory;
    return bytes;
}

void pool_run(int threads, void (*work)(void *, struct memory *), void *argument)
{
    struct job job = {work, argument, threads - 1, 1, 0, PTHREAD_COND_INITIALIZER, NULL};
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    grow(threads - 1);
    struct memory memory = borrow();
    append(&job);
    if (threads == 2)
        pthread_cond_signal(&arrived);
    else if (threads > 2)
        pthread_cond_broadcast(&arrived);
    pthread_mutex_unlock(&lock);

    work(argument, &memory);

    pthread_mutex_lock(&lock);
    job.drained = 1;
    job.working--;
    while (job.working)
        pthread_cond_wait(&job.finished, &lock);
    drop(&job);
    void *bytes = give_back(memory);
    pthread_mutex_unlock(&lock);
    free(bytes);
    pthread_cond_destroy(&job.finished);
}
