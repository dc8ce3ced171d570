/* Runs every kernel over many shapes, from several callers and in forked children, on models of random weights.
 *
 * It is built with sanitizers (`make sanitize`), which end it at the first wrong access, undefined operation or race; it
 * compares on its own: the integers of all kernels with each other, a sequence's output alone with that in any batch, the
 * logits of sequences that rested between layers with the others', and outputs between kernels within a tolerance.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "encoder.h"
#include "memory.h"
#include "pack.h"

#define VOCABULARY 50
#define TYPES 2
#define CALLERS 6
#define TOLERANCE 0.2f /* between kernels: floats that round another way move a byte here and there */

enum { KERNELS = 3 };
static const char *const names[KERNELS] = {"portable", "avx2", "avx512vnni"};

static void fail(const char *what, const char *kernel)
{
    fprintf(stderr, "driver: %s (kernel %s)\n", what, kernel);
    exit(1);
}

/* Numbers of a linear congruential generator, Knuth's MMIX constants; each caller has its own state. */
static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

static float draw_float(uint64_t *state, float low, float high)
{
    return low + (high - low) * (float)draw(state, 1u << 20) / (float)(1u << 20);
}

/* Blocks of just the size that is asked for, so that a read past their end is seen. */
static float *floats(uint64_t *state, int count, float low, float high)
{
    float *x = malloc(sizeof(float) * count);
    for (int i = 0; i < count; i++)
        x[i] = draw_float(state, low, high);
    return x;
}

static void fill_linear(struct model *model, struct linear *linear, uint64_t *state, int in, int out, int parts)
{
    int8_t *weights = malloc((size_t)in * out);
    if (linear_open(model, linear, in, parts * out))
        fail("no memory", model->kernel->name);
    for (int part = 0; part < parts; part++) {
        float *scale = floats(state, out, 0.01f / sqrtf((float)in), 0.03f / sqrtf((float)in));
        float *bias = floats(state, out, -0.5f, 0.5f);
        for (int i = 0; i < in * out; i++)
            weights[i] = (int8_t)((int)draw(state, 255) - 127);
        for (int panel = 0; panel < out / PANEL; panel++)
            if (linear_fill(model, linear, panel * parts + part, weights, out, panel * PANEL, scale, part == 1 ? NULL : bias))
                fail("no memory", model->kernel->name);
        free(scale);
        free(bias);
    }
    free(weights);
}

static void fill_norm(struct norm *norm, uint64_t *state, int hidden)
{
    norm->gain = floats(state, hidden, 0.5f, 1.5f);
    norm->shift = floats(state, hidden, -0.2f, 0.2f);
}

static struct table make_table(uint64_t *state, int rows, int hidden, int step)
{
    uint8_t *values = malloc((size_t)rows * hidden);
    for (int i = 0; i < rows * hidden; i++)
        values[i] = (uint8_t)draw(state, 256);
    struct table table = {values, floats(state, step ? rows : 1, 0.002f, 0.01f), step, 128, step ? 128 : 0};
    return table;
}

/* A cross-encoder, or a bi-encoder. */
static struct model *make_model(const struct kernel *kernel, uint64_t *state, int cross, int layers, int heads,
                                int intermediate)
{
    int hidden = heads * HEAD;
    struct model *model = model_new(kernel, layers, heads, hidden, intermediate);
    model->epsilon = 1e-12f;
    model->normalize = !cross;
    model->words = make_table(state, VOCABULARY, hidden, !cross);
    model->places = make_table(state, MAX_TOKENS, hidden, !cross);
    model->types = floats(state, TYPES * hidden, -0.1f, 0.1f);
    fill_norm(&model->embedding_norm, state, hidden);
    for (int i = 0; i < layers; i++) {
        struct layer *layer = &model->layer[i];
        fill_linear(model, &layer->qkv, state, hidden, hidden, 3);
        fill_linear(model, &layer->out, state, hidden, hidden, 1);
        fill_linear(model, &layer->up, state, hidden, intermediate, 1);
        fill_linear(model, &layer->down, state, intermediate, hidden, 1);
        fill_norm(&layer->attention_norm, state, hidden);
        fill_norm(&layer->output_norm, state, hidden);
    }
    if (cross) {
        fill_linear(model, &model->pooler, state, hidden, hidden, 1);
        model->classifier = floats(state, hidden, -0.2f, 0.2f);
        model->classifier_bias = 0.1f;
    }
    return model;
}

static void drop_model(struct model *model)
{
    free((void *)model->words.values);
    free((void *)model->words.scale);
    free((void *)model->places.values);
    free((void *)model->places.scale);
    model_free(model);
}

/* The same weights packed for each kernel that this CPU runs; NULL for the others. */
struct family {
    struct model *of[KERNELS];
};

static struct family make_family(uint64_t *state, int cross, int layers, int heads, int intermediate)
{
    struct family family = {{NULL}};
    uint64_t after = *state;
    for (int k = 0; k < KERNELS; k++) {
        const struct kernel *kernel = encoder_kernel(names[k]);
        uint64_t own = *state;
        if (!kernel)
            continue;
        family.of[k] = make_model(kernel, &own, cross, layers, heads, intermediate);
        after = own;
    }
    *state = after;
    return family;
}

static void drop_family(struct family family)
{
    for (int k = 0; k < KERNELS; k++)
        if (family.of[k])
            drop_model(family.of[k]);
}

/* The model of the best kernel. */
static const struct model *best(const struct family *family)
{
    const struct kernel *kernel = encoder_kernel(NULL);
    for (int k = 0; k < KERNELS; k++)
        if (family->of[k] && family->of[k]->kernel == kernel)
            return family->of[k];
    return NULL;
}

/* Sequences in blocks of just their size. */
struct texts {
    int count, width; /* width: floats of one output */
    int32_t *ids, *types;
    int64_t *starts;
};

static struct texts make_texts(uint64_t *state, const struct model *model, const int *lengths, int count)
{
    struct texts texts = {count, model->pooler.in ? 1 : model->hidden, NULL, NULL, malloc(sizeof(int64_t) * (count + 1))};
    texts.starts[0] = 0;
    for (int i = 0; i < count; i++)
        texts.starts[i + 1] = texts.starts[i] + lengths[i];
    texts.ids = malloc(sizeof(int32_t) * texts.starts[count]);
    texts.types = malloc(sizeof(int32_t) * texts.starts[count]);
    for (int64_t i = 0; i < texts.starts[count]; i++) {
        texts.ids[i] = (int32_t)draw(state, VOCABULARY);
        texts.types[i] = (int32_t)draw(state, TYPES);
    }
    return texts;
}

static void drop_texts(struct texts texts)
{
    free(texts.ids);
    free(texts.types);
    free(texts.starts);
}

static struct batch make_batch(const struct model *model, struct texts texts, int threads, float *out)
{
    struct batch batch = {.model = model, .kernel = model->kernel, .ids = texts.ids, .starts = texts.starts,
                          .types = model->pooler.in ? texts.types : NULL, .count = texts.count, .threads = threads,
                          .first = 0, .last = model->layers, .out = out};
    return batch;
}

static void must_run(struct batch batch)
{
    if (encoder_run(&batch))
        fail("no memory", batch.kernel->name);
}

/* Outputs of texts first .. first + count - 1; the caller frees them. */
static float *run(const struct model *model, struct texts texts, int first, int count, int threads)
{
    float *out = malloc(sizeof(float) * count * texts.width);
    uint64_t times[PARTS] = {0};
    struct batch batch = make_batch(model, texts, threads, out);
    batch.starts += first;
    batch.count = count;
    batch.times = count % 2 ? times : NULL;
    must_run(batch);
    return out;
}

/* Bit for bit the same alone as in the batch, on any number of threads. */
static float *check_texts(const struct model *model, struct texts texts)
{
    float *together = run(model, texts, 0, texts.count, 2);
    for (int i = 0; i < texts.count; i++) {
        float *alone = run(model, texts, i, 1, 1 + i % 3);
        if (memcmp(alone, together + (size_t)i * texts.width, sizeof(float) * texts.width))
            fail("another output alone than in a batch", model->kernel->name);
        free(alone);
    }
    for (int i = 0; i < texts.count * texts.width; i++)
        if (!isfinite(together[i]))
            fail("an output is not finite", model->kernel->name);
    return together;
}

/* A peek sees what the next layer makes of [CLS], bit for bit, where there is a layer for each. */
static void check_peek(struct batch part)
{
    size_t hidden = part.model->hidden, size = sizeof(float) * hidden;
    float *seen = malloc(part.count * size), *next = malloc(part.count * size);
    part.cls = seen;
    part.last = 1;
    must_run(part);
    part.cls = next;
    part.first = 1;
    part.last = 2;
    must_run(part);
    for (int64_t i = 0; i < part.count; i++)
        if (memcmp(seen + i * hidden, part.rest->x + part.starts[i] * hidden, size))
            fail("a peek is not what came", part.kernel->name);
    free(seen);
    free(next);
}

/* Sequences rest after layers, some are left behind, and the others get the output that they get without a rest. */
static void check_rests(uint64_t *state, const struct model *model, struct texts texts, const float *exact)
{
    int64_t tokens = texts.starts[texts.count], *chosen = malloc(sizeof(int64_t) * texts.count);
    size_t hidden = model->hidden;
    float *out = malloc(sizeof(float) * texts.count * texts.width), *cls = malloc(sizeof(float) * texts.count * hidden);
    struct rest rest = {malloc(sizeof(float) * tokens * hidden),
                        {malloc(tokens * hidden), malloc(sizeof(float) * tokens), malloc(sizeof(int32_t) * tokens)}};
    struct batch part = make_batch(model, texts, 3, out);
    part.rest = &rest;
    part.cls = cls;
    if (model->layers > 2)
        check_peek(part);
    for (int64_t i = 0; i < part.count; i++)
        chosen[i] = i;
    part.chosen = chosen;
    for (part.first = 0; part.first < model->layers; part.first = part.last) {
        part.last = part.first + 1 + (int)draw(state, model->layers - part.first);
        must_run(part);
        if (part.last < model->layers && part.count > 1) {
            int64_t left = draw(state, (uint32_t)part.count);
            chosen[left] = chosen[--part.count];
        }
    }
    for (int64_t i = 0; i < part.count; i++)
        if (memcmp(out + chosen[i] * texts.width, exact + chosen[i] * texts.width, sizeof(float) * texts.width))
            fail("another output after a rest", model->kernel->name);
    free(chosen);
    free(out);
    free(cls);
    free(rest.x);
    free(rest.bytes.values);
    free(rest.bytes.scale);
    free(rest.bytes.zero);
}

static void check_kernels(uint64_t *state, const struct family *family, struct texts texts)
{
    float *wanted = NULL;
    for (int k = 0; k < KERNELS; k++) {
        const struct model *model = family->of[k];
        if (!model)
            continue;
        float *found = check_texts(model, texts);
        check_rests(state, model, texts, found);
        for (int i = 0; wanted && i < texts.count * texts.width; i++)
            if (fabsf(found[i] - wanted[i]) > TOLERANCE)
                fail("far from the portable kernel", names[k]);
        if (wanted)
            free(found);
        else
            wanted = found;
    }
    free(wanted);
}

/* The products of bytes, and the bytes that are made of floats: the same integers from all kernels. */
static void check_integers(uint64_t *state, const struct family *family, int rows)
{
    const struct linear *shape = &family->of[0]->layer[0].qkv;
    int in = shape->in, out = shape->out;
    uint8_t *bytes[2] = {malloc((size_t)rows * in), malloc((size_t)rows * in)};
    int32_t *sums[2] = {malloc(sizeof(int32_t) * rows * out), malloc(sizeof(int32_t) * rows * out)};
    float *x = floats(state, rows * in, -3.0f, 3.0f), *scale = malloc(sizeof(float) * rows);
    int32_t *zero = malloc(sizeof(int32_t) * rows);
    for (int k = 0; k < KERNELS; k++) {
        const struct model *model = family->of[k];
        struct bytes to = {bytes[k > 0], scale, zero};
        if (!model)
            continue;
        model->kernel->quantise(x, rows, in, to);
        if (memcmp(bytes[0], to.values, (size_t)rows * in))
            fail("other bytes than the portable kernel", names[k]);
        memset(to.values, 255, in); /* the largest sums that there are */
        model->kernel->products(&model->layer[0].qkv, to.values, rows, sums[k > 0]);
        if (memcmp(sums[0], sums[k > 0], sizeof(int32_t) * rows * out))
            fail("other products than the portable kernel", names[k]);
        memset(bytes[0], 255, in);
        model->kernel->quantise(x, rows, in, (struct bytes){bytes[0], scale, zero});
    }
    for (int i = 0; i < 2; i++) {
        free(bytes[i]);
        free(sums[i]);
    }
    free(x);
    free(scale);
    free(zero);
}

struct caller {
    pthread_t thread;
    const struct model *model;
    uint64_t state;
    int rounds;
};

static void *call(void *argument)
{
    struct caller *caller = argument;
    for (int round = 0; round < caller->rounds; round++) {
        int lengths[9], count = 1 + (int)draw(&caller->state, 9);
        for (int i = 0; i < count; i++)
            lengths[i] = 1 + (int)draw(&caller->state, draw(&caller->state, 8) ? 40 : 300);
        struct texts texts = make_texts(&caller->state, caller->model, lengths, count);
        free(check_texts(caller->model, texts));
        drop_texts(texts);
    }
    return NULL;
}

static void check_callers(const struct model *model, int rounds)
{
    struct caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){0, model, 77 + (uint64_t)i, rounds};
        pthread_create(&callers[i].thread, NULL, call, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
}

/* Children of a process whose pool sleeps: beside busy callers, a child inherits the sanitizer's locked allocator. */
static void check_forks(const struct model *model, int forks)
{
    for (int i = 0; i < forks; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            struct caller alone = {0, model, 5, 1};
            call(&alone);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status)
            fail("a forked child failed", "best");
    }
}

int main(int count, char **arguments)
{
    static const int edges[] = {1, 2, 3, 31, 32, 33, 255, 256, 511, 512};
    int rounds = count > 1 ? atoi(arguments[1]) : 10, forks = count > 2 ? atoi(arguments[2]) : 5;
    uint64_t state = 1;
    for (int cross = 0; cross < 2; cross++) {
        for (int heads = 1; heads < 4; heads++) {
            struct family family = make_family(&state, cross, 1 + heads % 3, heads, heads * 64 - 32);
            for (int rows = 1; rows < 28; rows++)
                check_integers(&state, &family, rows);
            if (heads == 1) {
                struct texts texts = make_texts(&state, family.of[0], edges, 10);
                check_kernels(&state, &family, texts);
                drop_texts(texts);
            }
            for (int round = 0; round < rounds; round++) {
                int lengths[6], texts_count = 1 + (int)draw(&state, 6);
                for (int i = 0; i < texts_count; i++)
                    lengths[i] = 1 + (int)draw(&state, 70);
                struct texts texts = make_texts(&state, family.of[0], lengths, texts_count);
                check_kernels(&state, &family, texts);
                drop_texts(texts);
            }
            check_callers(best(&family), rounds);
            check_forks(best(&family), forks);
            drop_family(family);
        }
    }
    for (int k = 0; k < KERNELS; k++)
        printf("%s: %s\n", names[k], encoder_kernel(names[k]) ? "sound" : "not run, this CPU lacks it");
    return 0;
}
