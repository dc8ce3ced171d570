/* Weights as the kernels want them, packed once at load and shared by all threads. */
#ifndef RUNOFF_PACK_H
#define RUNOFF_PACK_H
#include "model.h"

/* The next `bytes` of an arena. */
static inline void *arena_take(struct arena *arena, size_t bytes)
{
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + 63) / 64 * 64;
    return piece;
}

/* Sizes as given, everything else zero; NULL when there is no memory. */
struct model *model_new(int layers, int heads, int hidden, int intermediate);
void model_free(struct model *model);

/* Room in the model for a layer of in x out; to be called in the order in which the layers are used. */
void linear_open(struct model *model, struct linear *linear, int in, int out);

/* Fills one panel with columns column .. column + 31 of a matrix stored as [in][width]. */
void linear_fill(struct linear *linear, int panel, const int8_t *matrix, int width, int column, const float *scale,
                 const float *bias);

/* Copy of `count` floats, or NULL. */
float *floats_copy(const float *from, int count);

#endif
