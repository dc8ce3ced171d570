#include "pack.h"

#include "memory.h"

/* Memory is taken in blocks of huge pages: weights are read through, panel by panel, once for every group of tokens. */
struct block {
    struct block *next;
    char *bytes;
    size_t used, size;
};

/* `size` bytes, 64-byte aligned, of which the caller may keep fewer by lowering blocks->used. */
static void *block_take(struct model *model, size_t size)
{
    struct block *block = model->blocks;
    if (!block || block->size - block->used < size) {
        block = calloc(1, sizeof *block);
        if (!block)
            return NULL;
        block->size = size > HUGE_PAGE ? size : HUGE_PAGE;
        block->bytes = memory_new(block->size);
        if (!block->bytes) {
            free(block);
            return NULL;
        }
        block->next = model->blocks;
        model->blocks = block;
    }
    void *piece = block->bytes + block->used;
    block->used += (size + 63) / 64 * 64;
    return piece;
}

static void blocks_free(struct block *block)
{
    while (block) {
        struct block *next = block->next;
        free(block->bytes);
        free(block);
        block = next;
    }
}

struct model *model_new(const struct kernel *kernel, int layers, int heads, int hidden, int intermediate)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->kernel = kernel;
    model->heads = heads;
    model->hidden = hidden;
    model->intermediate = intermediate;
    model->layers = layers;
    model->layer = calloc(layers, sizeof *model->layer);
    if (model->layer)
        return model;
    free(model);
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
    blocks_free(model->blocks);
    norm_free(&model->embedding_norm);
    free(model->types);
    free(model->classifier);
    free(model->layer);
    free(model);
}

int linear_open(struct model *model, struct linear *linear, int in, int out)
{
    size_t panels = sizeof(struct panel) * (out / PANEL + 1), numbers = sizeof(float) * out;
    linear->in = in;
    linear->out = out;
    linear->panels = block_take(model, panels);
    linear->scale = block_take(model, numbers);
    linear->bias = block_take(model, numbers);
    linear->sums = block_take(model, numbers);
    if (!linear->panels || !linear->scale || !linear->bias || !linear->sums)
        return -1;
    linear->panels[out / PANEL] = (struct panel){NULL, 0};
    return 0;
}

static int sum_column(const int8_t *matrix, int rows, int width, int column)
{
    int sum = 0;
    for (int k = 0; k < rows; k++)
        sum += matrix[(size_t)k * width + column];
    return sum;
}

int linear_fill(struct model *model, struct linear *linear, int panel, const int8_t *matrix, int width, int column,
                const float *scale, const float *bias)
{
    int8_t *packed = block_take(model, PACKED_MOST(linear->in));
    size_t bytes = packed ? model->kernel->pack_panel(matrix, linear->in, width, column, packed) : 0;
    if (!bytes)
        return -1;
    model->blocks->used = (size_t)((char *)packed - model->blocks->bytes) + (bytes + 63) / 64 * 64;
    linear->panels[panel] = (struct panel){packed, bytes};
    for (int c = 0; c < PANEL; c++) {
        int at = panel * PANEL + c;
        linear->scale[at] = scale[column + c];
        linear->bias[at] = bias ? bias[column + c] : 0.0f;
        linear->sums[at] = (float)sum_column(matrix, linear->in, width, column + c) * scale[column + c];
    }
    return 0;
}

float *floats_copy(const float *from, int count)
{
    float *to = memory_new(sizeof(float) * count);
    if (to)
        memcpy(to, from, sizeof(float) * count);
    return to;
}
