/* Sequences that rest between layers, on a small random model, for the sanitizers: `make sanitize`.
 *
 * Buffers are exactly as large as the encoder may use, each its own allocation, so that a step outside of one is seen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder.h"
#include "pack.h"

enum { LAYERS = 4, HEADS = 2, HIDDEN = 64, WIDE = 96, WORDS = 50, SEQUENCES = 13, ROUNDS = 6 };

static uint32_t state = 1;

static int draw(int below)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)below);
}

static float *floats(int count, float scale)
{
    float *values = malloc(sizeof(float) * count);
    for (int i = 0; i < count; i++)
        values[i] = scale * (float)(draw(2001) - 1000) / 1000.0f;
    return values;
}

static void fill(struct model *model, struct linear *linear, int in, int out)
{
    int8_t *matrix = malloc((size_t)in * out);
    float *scale = floats(out, 0.01f), *bias = floats(out, 0.1f);
    for (int i = 0; i < in * out; i++)
        matrix[i] = (int8_t)(draw(255) - 127);
    linear_open(model, linear, in, out);
    for (int panel = 0; panel < out / PANEL; panel++)
        linear_fill(linear, panel, matrix, out, panel * PANEL, scale, bias);
    free(matrix);
    free(scale);
    free(bias);
}

static struct norm norm(void)
{
    struct norm made = {floats(HIDDEN, 1.0f), floats(HIDDEN, 1.0f)};
    return made;
}

static struct table table(int rows)
{
    uint8_t *values = malloc((size_t)rows * HIDDEN);
    for (int i = 0; i < rows * HIDDEN; i++)
        values[i] = (uint8_t)draw(256);
    struct table made = {values, floats(1, 0.01f), 0, 128, 0, rows};
    return made;
}

static struct model *random_model(void)
{
    struct model *model = model_new(LAYERS, HEADS, HIDDEN, WIDE);
    model->epsilon = 1e-12f;
    model->words = table(WORDS);
    model->places = table(MAX_TOKENS);
    model->types = floats(2 * HIDDEN, 0.1f);
    model->embedding_norm = norm();
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &model->layer[i];
        fill(model, &layer->qkv, HIDDEN, 3 * HIDDEN);
        fill(model, &layer->out, HIDDEN, HIDDEN);
        fill(model, &layer->up, HIDDEN, WIDE);
        fill(model, &layer->down, WIDE, HIDDEN);
        layer->attention_norm = norm();
        layer->output_norm = norm();
    }
    fill(model, &model->pooler, HIDDEN, HIDDEN);
    model->classifier = floats(HIDDEN, 1.0f);
    return model;
}

static void must(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "layers: %s\n", what);
        exit(1);
    }
}

/* Takes a shrinking choice of sequences on, layer by layer; the logits of those left have to be the exact ones. */
static void stop_and_go(struct batch whole, const float *exact, struct rest *rest)
{
    int64_t chosen[SEQUENCES];
    float *logits = malloc(sizeof(float) * SEQUENCES), *peeked = malloc(sizeof(float) * SEQUENCES * HIDDEN);
    struct batch part = whole;
    part.count = 0;
    for (int64_t i = 0; i < SEQUENCES; i++)
        chosen[part.count++] = i;
    part.chosen = chosen;
    part.rest = rest;
    part.out = logits;
    part.cls = peeked;
    for (int first = 0; first < LAYERS; first = part.last) {
        part.first = first;
        part.last = first + 1 + draw(LAYERS - first);
        must(encoder_run(&part) == 0, "no memory");
        if (part.last < LAYERS && part.count > 1)
            chosen[draw((int)part.count - 1)] = chosen[part.count - 1], part.count--;
    }
    for (int64_t i = 0; i < part.count; i++)
        must(!memcmp(&logits[chosen[i]], &exact[chosen[i]], sizeof(float)), "a logit is not the exact one");
    free(logits);
    free(peeked);
}

/* What a peek sees is what the next layer makes of [CLS], bit for bit. */
static void peek(struct batch whole, struct rest *rest)
{
    float *seen = malloc(sizeof(float) * SEQUENCES * HIDDEN), *next = malloc(sizeof(float) * SEQUENCES * HIDDEN);
    struct batch part = whole;
    part.rest = rest;
    part.last = 1;
    part.cls = seen;
    must(encoder_run(&part) == 0, "no memory");
    part.first = 1;
    part.last = 2;
    part.cls = next;
    must(encoder_run(&part) == 0, "no memory");
    for (int64_t i = 0; i < SEQUENCES; i++)
        must(!memcmp(seen + i * HIDDEN, rest->x + whole.starts[i] * HIDDEN, sizeof(float) * HIDDEN), "a peek is not what came");
    free(seen);
    free(next);
}

static void run(const struct model *model, const struct kernel *kernel)
{
    int64_t starts[SEQUENCES + 1] = {0};
    for (int i = 0; i < SEQUENCES; i++)
        starts[i + 1] = starts[i] + (i == 5 ? MAX_TOKENS : 1 + draw(120));
    int64_t tokens = starts[SEQUENCES];
    int32_t *ids = malloc(sizeof *ids * tokens), *types = calloc(tokens, sizeof *types);
    for (int64_t i = 0; i < tokens; i++)
        ids[i] = draw(WORDS);
    float *exact = malloc(sizeof(float) * SEQUENCES);
    struct rest rest = {malloc(sizeof(float) * tokens * HIDDEN),
                        {malloc((size_t)tokens * HIDDEN), malloc(sizeof(float) * tokens), malloc(sizeof(int32_t) * tokens)}};
    struct batch whole = {.model = model, .kernel = kernel, .ids = ids, .types = types, .starts = starts,
                          .count = SEQUENCES, .threads = 3, .first = 0, .last = LAYERS, .out = exact};
    must(encoder_run(&whole) == 0, "no memory");
    stop_and_go(whole, exact, &rest);
    peek(whole, &rest);
    free(ids);
    free(types);
    free(exact);
    free(rest.x);
    free(rest.bytes.values);
    free(rest.bytes.scale);
    free(rest.bytes.zero);
}

int main(void)
{
    static const char *const names[] = {"avx512vnni", "avx2", "portable"};
    struct model *model = random_model();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct kernel *kernel = encoder_kernel(names[i]);
        for (int round = 0; kernel && round < ROUNDS; round++)
            run(model, kernel);
        printf("%s: %s\n", names[i], kernel ? "passed" : "not on this CPU");
    }
    free((void *)model->words.values);
    free((void *)model->words.scale);
    free((void *)model->places.values);
    free((void *)model->places.scale);
    model_free(model);
    return 0;
}
