/* Weights as the kernels want them, packed once at load and shared by all threads. */
#ifndef RUNOFF_PACK_H
#define RUNOFF_PACK_H
#include "model.h"

/* Sizes as given, everything else zero; NULL when there is no memory. */
struct model *model_new(const struct kernel *kernel, int layers, int heads, int hidden, int intermediate);
void model_free(struct model *model);

/* Makes room for the numbers of a layer of in x out; -1 when there is no memory. */
int linear_open(struct model *model, struct linear *linear, int in, int out);

/* Fills one panel with columns column .. column + PANEL - 1 of a matrix stored as [in][width]; -1 without memory. */
int linear_fill(struct model *model, struct linear *linear, int panel, const int8_t *matrix, int width, int column,
                const float *scale, const float *bias);

/* Copy of `count` floats, or NULL. */
float *floats_copy(const float *from, int count);

#endif
