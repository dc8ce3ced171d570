/* From tokens to scores.
 *
 * A thread takes a group of sequences (a few hundred tokens) through all layers before it takes the next one, so that
 * activations stay in its cache and threads never wait for one another. Nothing in a row's arithmetic depends on the
 * rows beside it, and attention sees one sequence only: a result is the same in every batch, order and thread count.
 */
#include "encoder.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool.h"

/* Weights are read once for each group, activations stay in the caches while it is worked on: more tokens save on the one,
 * fewer on the other. A token of MiniLM is 1.5 kB of state, as much of attention's output, 0.4 kB of bytes. */
#ifndef GROUP_TOKENS
#define GROUP_TOKENS 384 /* tokens of a group, unless one sequence is longer */
#endif
/* The same for the feed-forward layer, whose rows are four times as wide: 7.7 kB each in MiniLM. */
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 96 /* rows that go through it together: a whole number of tiles of any kernel */
#endif

/* What a thread needs for one group. `rows` is all tokens, or the [CLS] tokens in the last layer of a cross-encoder. */
struct workspace {
    float *x, *cls_x;            /* states [rows][hidden] */
    struct bytes bytes, cls_bytes; /* the same, quantised */
    float *context;              /* attention's output [rows][hidden] */
    struct bytes context_bytes;  /* [BLOCK_ROWS][hidden] */
    float *wide;                 /* feed-forward [BLOCK_ROWS][intermediate] */
    struct bytes wide_bytes;
    uint8_t *query; /* one head of the group: [rows][HEAD] */
    int8_t *key;
    float *value, *query_scale, *key_scale;
    int32_t *key_start;
    void *scratch;
    uint64_t *times, clock;
};

/* Sequences of a group: rows start[i] .. start[i + 1] of the workspace. */
struct group {
    int count;
    int64_t sequence[MAX_TOKENS];
    int start[MAX_TOKENS + 1];
    int first[MAX_TOKENS + 1]; /* 0, 1, 2, ...: starts where only [CLS] rows are left */
};

struct dealer {
    const struct batch *batch;
    int64_t *order; /* sequences, longest first */
    int64_t next, tokens_left;
    pthread_mutex_t lock;
};

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void lap(struct workspace *w, enum part part)
{
    if (w->times) {
        uint64_t now = nanoseconds();
        w->times[part] += now - w->clock;
        w->clock = now;
    }
}

/* Hands out pieces of one allocation, 64-byte aligned; with base NULL it only counts. */
struct arena {
    char *base;
    size_t used;
};

static void *arena_take(struct arena *arena, size_t bytes)
{
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + 63) / 64 * 64;
    return piece;
}

static struct bytes carve_bytes(struct arena *arena, size_t rows, size_t width)
{
    struct bytes bytes;
    bytes.values = arena_take(arena, rows * width);
    bytes.scale = arena_take(arena, rows * sizeof(float));
    bytes.zero = arena_take(arena, rows * sizeof(int32_t));
    return bytes;
}

static void lay_out(struct workspace *w, const struct model *model, struct arena *arena)
{
    size_t rows = MAX_TOKENS, state = rows * model->hidden * sizeof(float);
    w->x = arena_take(arena, state);
    w->cls_x = arena_take(arena, state);
    w->context = arena_take(arena, state);
    w->bytes = carve_bytes(arena, rows, model->hidden);
    w->cls_bytes = carve_bytes(arena, rows, model->hidden);
    w->context_bytes = carve_bytes(arena, BLOCK_ROWS, model->hidden);
    w->wide = arena_take(arena, (size_t)BLOCK_ROWS * model->intermediate * sizeof(float));
    w->wide_bytes = carve_bytes(arena, BLOCK_ROWS, model->intermediate);
    w->query = arena_take(arena, rows * HEAD);
    w->key = arena_take(arena, rows * HEAD);
    w->value = arena_take(arena, rows * HEAD * sizeof(float));
    w->query_scale = arena_take(arena, rows * sizeof(float));
    w->key_scale = arena_take(arena, rows * sizeof(float));
    w->key_start = arena_take(arena, rows * sizeof(int32_t));
    w->scratch = arena_take(arena, ATTEND_SCRATCH);
}

static int open_workspace(struct workspace *w, const struct model *model, struct memory *memory)
{
    struct arena arena = {NULL, 0};
    lay_out(w, model, &arena);
    arena.base = memory_reserve(memory, arena.used);
    arena.used = 0;
    if (arena.base)
        lay_out(w, model, &arena);
    return arena.base ? 0 : -1;
}

static struct bytes bytes_from(struct bytes bytes, int64_t row, int width)
{
    bytes.values += row * width;
    bytes.scale += row;
    bytes.zero += row;
    return bytes;
}

/* Rows whose states a layer computes. */
struct rows {
    int count;
    const int *start; /* of each sequence */
    float *x;
    struct bytes bytes;
};

/* Attention of all heads: for each, its three products over the group, then each sequence by itself. */
static void attention(const struct batch *batch, const struct layer *layer, struct workspace *w, const struct group *group,
                      const struct rows *rows)
{
    const struct kernel *kernel = batch->kernel;
    int tokens = group->start[group->count], hidden = batch->model->hidden;
    for (int h = 0; h < batch->model->heads; h++) {
        kernel->project_query(&layer->qkv, 3 * h, rows->bytes, rows->count, w->query, w->query_scale);
        kernel->project_key(&layer->qkv, 3 * h + 1, w->bytes, tokens, w->key, w->key_scale, w->key_start);
        kernel->project_value(&layer->qkv, 3 * h + 2, w->bytes, tokens, w->value);
        lap(w, PART_PROJECT);
        for (int i = 0; i < group->count; i++) {
            int q = rows->start[i], k = group->start[i];
            struct head head = {w->query + q * HEAD, w->query_scale + q, w->key + k * HEAD, w->key_scale + k,
                                w->key_start + k, w->value + k * HEAD, rows->start[i + 1] - q, group->start[i + 1] - k};
            kernel->attend(&head, w->context + (size_t)q * hidden + h * HEAD, hidden, w->scratch);
        }
        lap(w, PART_ATTEND);
    }
}

/* Output projection and feed-forward, a block of rows at a time, each with its residual and norm. */
static void feed_forward(const struct batch *batch, const struct layer *layer, struct workspace *w, const struct rows *rows)
{
    const struct model *model = batch->model;
    const struct kernel *kernel = batch->kernel;
    int hidden = model->hidden;
    for (int first = 0, n; first < rows->count; first += n) {
        int rest = rows->count - first, blocks = (rest + BLOCK_ROWS - 1) / BLOCK_ROWS;
        n = (rest + blocks - 1) / blocks;
        float *x = rows->x + (size_t)first * hidden;
        struct bytes bytes = bytes_from(rows->bytes, first, hidden);
        kernel->quantise(w->context + (size_t)first * hidden, n, hidden, w->context_bytes);
        lap(w, PART_QUANTISE);
        kernel->linear_add(&layer->out, w->context_bytes, n, x);
        lap(w, PART_OUT);
        kernel->normalise(&layer->attention_norm, model->epsilon, x, n, hidden, bytes);
        lap(w, PART_NORM);
        kernel->linear_gelu(&layer->up, bytes, n, w->wide);
        lap(w, PART_UP);
        kernel->quantise(w->wide, n, model->intermediate, w->wide_bytes);
        lap(w, PART_QUANTISE);
        kernel->linear_add(&layer->down, w->wide_bytes, n, x);
        lap(w, PART_DOWN);
        kernel->normalise(&layer->output_norm, model->epsilon, x, n, hidden, bytes);
        lap(w, PART_NORM);
    }
}

static void embed_group(const struct batch *batch, struct workspace *w, const struct group *group)
{
    int hidden = batch->model->hidden;
    for (int i = 0; i < group->count; i++) {
        int64_t at = batch->starts[group->sequence[i]];
        int first = group->start[i];
        batch->kernel->embed(batch->model, batch->ids + at, batch->types ? batch->types + at : NULL,
                             group->start[i + 1] - first, w->x + (size_t)first * hidden,
                             bytes_from(w->bytes, first, hidden));
    }
    lap(w, PART_EMBED);
}

static void copy_rows(const struct batch *batch, float *to_x, struct bytes to, const float *x, struct bytes from, int rows)
{
    size_t values = (size_t)rows * batch->model->hidden;
    memcpy(to_x, x, values * sizeof(float));
    memcpy(to.values, from.values, values);
    memcpy(to.scale, from.scale, rows * sizeof(float));
    memcpy(to.zero, from.zero, rows * sizeof(int32_t));
}

/* Puts the states of a group to rest after a layer, or takes them up again: bytes too, so that nothing is rounded twice. */
static void rest_group(const struct batch *batch, struct workspace *w, const struct group *group, int resume)
{
    int hidden = batch->model->hidden;
    for (int i = 0; i < group->count; i++) {
        int first = group->start[i], rows = group->start[i + 1] - first;
        int64_t at = batch->starts[group->sequence[i]];
        float *x = w->x + (size_t)first * hidden, *resting = batch->rest->x + at * hidden;
        struct bytes bytes = bytes_from(w->bytes, first, hidden), kept = bytes_from(batch->rest->bytes, at, hidden);
        if (resume)
            copy_rows(batch, x, bytes, resting, kept, rows);
        else
            copy_rows(batch, resting, kept, x, bytes, rows);
    }
    lap(w, PART_EMBED);
}

/* Copies the first row of each sequence to where the last layer works on these alone. */
static struct rows keep_cls(const struct model *model, struct workspace *w, const struct group *group)
{
    size_t width = model->hidden;
    for (int i = 0; i < group->count; i++) {
        int from = group->start[i];
        memcpy(w->cls_x + i * width, w->x + from * width, width * sizeof(float));
        memcpy(w->cls_bytes.values + i * width, w->bytes.values + from * width, width);
        w->cls_bytes.scale[i] = w->bytes.scale[from];
        w->cls_bytes.zero[i] = w->bytes.zero[from];
    }
    struct rows rows = {group->count, group->first, w->cls_x, w->cls_bytes};
    return rows;
}

/* Pooler and classifier of BERT: tanh(x W + b) . c + d. The bi-encoder takes the mean instead. */
static void pool_group(const struct batch *batch, struct workspace *w, const struct group *group, const struct rows *rows)
{
    const struct model *model = batch->model;
    int hidden = model->hidden;
    if (model->pooler.in)
        batch->kernel->linear(&model->pooler, rows->bytes, rows->count, w->context);
    for (int i = 0; i < group->count; i++) {
        if (model->pooler.in) {
            const float *pooled = w->context + (size_t)i * hidden;
            float logit = model->classifier_bias;
            for (int c = 0; c < hidden; c++)
                logit += tanhf(pooled[c]) * model->classifier[c];
            batch->out[group->sequence[i]] = logit;
        } else {
            batch->kernel->mean(rows->x + (size_t)rows->start[i] * hidden, rows->start[i + 1] - rows->start[i], hidden,
                                model->normalize, batch->out + group->sequence[i] * hidden);
        }
    }
    lap(w, PART_POOL);
}

/* One layer more for the [CLS] rows alone, which costs a fraction of it: what an exit wants to know. */
static void peek(const struct batch *batch, struct workspace *w, const struct group *group)
{
    const struct layer *layer = &batch->model->layer[batch->last];
    struct rows rows = keep_cls(batch->model, w, group);
    size_t hidden = batch->model->hidden;
    attention(batch, layer, w, group, &rows);
    feed_forward(batch, layer, w, &rows);
    for (int i = 0; i < group->count; i++)
        memcpy(batch->cls + group->sequence[i] * hidden, rows.x + i * hidden, hidden * sizeof(float));
}

static void run_group(const struct batch *batch, struct workspace *w, const struct group *group)
{
    const struct model *model = batch->model;
    struct rows rows = {group->start[group->count], group->start, w->x, w->bytes};
    if (w->times)
        w->clock = nanoseconds();
    if (batch->first == 0)
        embed_group(batch, w, group);
    else
        rest_group(batch, w, group, 1);
    for (int i = batch->first; i < batch->last; i++) {
        if (model->pooler.in && i == model->layers - 1)
            rows = keep_cls(model, w, group);
        attention(batch, &model->layer[i], w, group, &rows);
        feed_forward(batch, &model->layer[i], w, &rows);
    }
    if (batch->last == model->layers) {
        pool_group(batch, w, group, &rows);
    } else {
        rest_group(batch, w, group, 0);
        peek(batch, w, group);
    }
}

static int64_t length_of(const struct batch *batch, int64_t sequence)
{
    return batch->starts[sequence + 1] - batch->starts[sequence];
}

/* Takes the next group: the fewer tokens are left, the smaller, so that all threads end together. */
static int take_group(struct dealer *dealer, struct group *group)
{
    const struct batch *batch = dealer->batch;
    pthread_mutex_lock(&dealer->lock);
    int64_t goal = dealer->tokens_left / (2 * batch->threads);
    group->count = 0;
    group->start[0] = 0;
    while (dealer->next < batch->count) {
        int64_t sequence = dealer->order[dealer->next], length = length_of(batch, sequence);
        int taken = group->start[group->count];
        if (group->count && (taken >= goal || taken + length > GROUP_TOKENS))
            break;
        group->sequence[group->count++] = sequence;
        group->start[group->count] = taken + (int)length;
        dealer->next++;
    }
    dealer->tokens_left -= group->start[group->count];
    pthread_mutex_unlock(&dealer->lock);
    return group->count;
}

static void work(void *argument, struct memory *memory)
{
    struct dealer *dealer = argument;
    struct workspace w = {0};
    struct group group;
    uint64_t times[PARTS] = {0};
    if (open_workspace(&w, dealer->batch->model, memory))
        return; /* its share is left to the others */
    w.times = dealer->batch->times ? times : NULL;
    for (int i = 0; i <= MAX_TOKENS; i++)
        group.first[i] = i;
    while (take_group(dealer, &group))
        run_group(dealer->batch, &w, &group);
    if (w.times) {
        pthread_mutex_lock(&dealer->lock);
        for (int i = 0; i < PARTS; i++)
            dealer->batch->times[i] += times[i];
        pthread_mutex_unlock(&dealer->lock);
    }
}

static int64_t sequence_at(const struct batch *batch, int64_t place)
{
    return batch->chosen ? batch->chosen[place] : place;
}

/* Longest first, equal lengths in the order given: one pass of counting sort. Returns the number of tokens. */
static int64_t sort_by_length(const struct batch *batch, int64_t *order)
{
    int64_t at[MAX_TOKENS + 2] = {0}, tokens = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t length = length_of(batch, sequence_at(batch, i));
        at[MAX_TOKENS - length + 1]++;
        tokens += length;
    }
    for (int length = 1; length <= MAX_TOKENS; length++)
        at[length] += at[length - 1];
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t sequence = sequence_at(batch, i);
        order[at[MAX_TOKENS - length_of(batch, sequence)]++] = sequence;
    }
    return tokens;
}

int encoder_run(const struct batch *batch)
{
    struct dealer dealer = {batch, NULL, 0, 0, PTHREAD_MUTEX_INITIALIZER};
    if (batch->count == 0)
        return 0;
    dealer.order = malloc(sizeof(int64_t) * batch->count);
    if (!dealer.order)
        return -1;
    dealer.tokens_left = sort_by_length(batch, dealer.order);
    pool_run(batch->threads, work, &dealer);
    free(dealer.order);
    pthread_mutex_destroy(&dealer.lock);
    return dealer.next < batch->count ? -1 : 0;
}

const struct kernel *encoder_kernel(const char *name)
{
    static const struct kernel *const kernels[] = {
#if defined(__x86_64__)
        &kernel_avx512vnni, &kernel_avx2,
#endif
        &kernel_portable,
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if ((!name || !strcmp(name, kernels[i]->name)) && kernels[i]->supported())
            return kernels[i];
    return NULL;
}
