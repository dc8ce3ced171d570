#include "pack.h"

#include "memory.h"

/* Sizes only: see linear_open for the pieces. */
static void linears_lay_out(struct model *model)
{
    struct linear unused;
    for (int i = 0; i < model->layers; i++) {
        linear_open(model, &unused, model->hidden, 3 * model->hidden);
        linear_open(model, &unused, model->hidden, model->hidden);
        linear_open(model, &unused, model->hidden, model->intermediate);
        linear_open(model, &unused, model->intermediate, model->hidden);
    }
    linear_open(model, &unused, model->hidden, model->hidden);
}

struct model *model_new(int layers, int heads, int hidden, int intermediate)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->heads = heads;
    model->hidden = hidden;
    model->intermediate = intermediate;
    model->layer = calloc(layers, sizeof *model->layer);
    model->layers = model->layer ? layers : 0;
    linears_lay_out(model);
    model->weights.base = memory_new(model->weights.used);
    model->numbers.base = memory_new(model->numbers.used);
    model->weights.used = model->numbers.used = 0;
    if (model->layer && model->weights.base && model->numbers.base)
        return model;
    model_free(model);
    return NULL;
}

static void norm_free(struct norm *norm)
{
    free((void *)norm->gain);
    free((void *)norm->shift);
}

void model_free(struct model *model)
{
    if (!model)
        return;
    for (int i = 0; i < model->layers; i++) {
        struct layer *layer = &model->layer[i];
        norm_free(&layer->attention_norm);
        norm_free(&layer->output_norm);
    }
    free(model->weights.base);
    free(model->numbers.base);
    norm_free(&model->embedding_norm);
    free(model->types);
    free(model->classifier);
    free(model->layer);
    free(model);
}

void linear_open(struct model *model, struct linear *linear, int in, int out)
{
    linear->in = in;
    linear->out = out;
    linear->weights = arena_take(&model->weights, (size_t)in * out);
    linear->scale = arena_take(&model->numbers, sizeof(float) * out);
    linear->bias = arena_take(&model->numbers, sizeof(float) * out);
    linear->sums = arena_take(&model->numbers, sizeof(float) * out);
}

static int sum_column(const int8_t *matrix, int rows, int width, int column)
{
    int sum = 0;
    for (int k = 0; k < rows; k++)
        sum += matrix[(size_t)k * width + column];
    return sum;
}

void linear_fill(struct linear *linear, int panel, const int8_t *matrix, int width, int column, const float *scale,
                 const float *bias)
{
    int8_t *to = linear->weights + (size_t)panel * PANEL * linear->in;
    for (int k = 0; k < linear->in; k++)
        for (int c = 0; c < PANEL; c++)
            to[(k / 4 * PANEL + c) * 4 + k % 4] = matrix[(size_t)k * width + column + c];
    for (int c = 0; c < PANEL; c++) {
        int at = panel * PANEL + c;
        linear->scale[at] = scale[column + c];
        linear->bias[at] = bias ? bias[column + c] : 0.0f;
        linear->sums[at] = (float)sum_column(matrix, linear->in, width, column + c) * scale[column + c];
    }
}

float *floats_copy(const float *from, int count)
{
    float *to = memory_new(sizeof(float) * count);
    if (to)
        memcpy(to, from, sizeof(float) * count);
    return to;
}
