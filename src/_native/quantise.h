/* Rows of float32 to rows of unsigned bytes, each with its own scale and zero point; layer norm; embeddings.
 *
 * scale = (largest - smallest) / 255 with zero inside the range, zero = round(-smallest / scale),
 * byte = min(round(x / scale) + zero, 255). Halves go to the even neighbour.
 */

#define NOTHING 1e-30f /* a range that is taken for none: its inverse might overflow */

static inline void quantise_row(const float *x, int width, uint8_t *values, float *scale, int32_t *zero)
{
    vf low = vf_set(0.0f), high = vf_set(0.0f);
    for (int i = 0; i < width; i += LANES) {
        vf v = vf_load(x + i);
        low = vf_min(low, v);
        high = vf_max(high, v);
    }
    float smallest = vf_smallest(low), range = vf_largest(high) - smallest;
    float inverse = range > NOTHING ? 255.0f / range : 0.0f;
    *scale = range > NOTHING ? range / 255.0f : 1.0f;
    *zero = (int32_t)lrintf(-smallest * inverse);
    vf factor = vf_set(inverse);
    vi offset = vi_set(*zero), most = vi_set(255);
    for (int i = 0; i < width; i += PANEL) {
        vi bytes[PANEL / LANES];
        for (int j = 0; j < PANEL / LANES; j++)
            bytes[j] = vi_min(vi_add(vi_round(vf_mul(vf_load(x + i + j * LANES), factor)), offset), most);
        bytes_store(values + i, bytes);
    }
}

static void quantise(const float *x, int rows, int width, struct bytes to)
{
    for (int r = 0; r < rows; r++)
        quantise_row(x + (size_t)r * width, width, to.values + (size_t)r * width, to.scale + r, to.zero + r);
}

static inline void norm_row(const struct norm *norm, float epsilon, float *x, int width)
{
    vf sum = vf_set(0.0f), square = vf_set(0.0f);
    for (int i = 0; i < width; i += LANES)
        sum = vf_add(sum, vf_load(x + i));
    vf mean = vf_set(vf_sum(sum) / (float)width);
    for (int i = 0; i < width; i += LANES) {
        vf d = vf_sub(vf_load(x + i), mean);
        square = vf_fma(d, d, square);
    }
    vf factor = vf_set(1.0f / sqrtf(vf_sum(square) / (float)width + epsilon));
    for (int i = 0; i < width; i += LANES) {
        vf d = vf_mul(vf_sub(vf_load(x + i), mean), factor);
        vf_store(x + i, vf_fma(d, vf_load(norm->gain + i), vf_load(norm->shift + i)));
    }
}

static void normalise(const struct norm *norm, float epsilon, float *x, int rows, int width, struct bytes to)
{
    for (int r = 0; r < rows; r++) {
        float *row = x + (size_t)r * width;
        norm_row(norm, epsilon, row, width);
        quantise_row(row, width, to.values + (size_t)r * width, to.scale + r, to.zero + r);
    }
}

static inline vf table_load(const struct table *table, int row, int width, int column)
{
    const uint8_t *bytes = table->values + (size_t)row * width + column;
    vi value = vi_sub(vi_xor(vi_from_bytes(bytes), vi_set(table->flip)), vi_set(table->zero));
    return vf_mul(vf_from(value), vf_set(table->scale[row * table->step]));
}

/* One sequence: word + type + place, then layer norm. */
static void embed(const struct model *model, const int32_t *ids, const int32_t *types, int rows, float *x,
                  struct bytes to)
{
    int width = model->hidden;
    for (int place = 0; place < rows; place++) {
        float *row = x + (size_t)place * width;
        const float *type = model->types + (types ? types[place] * width : 0);
        for (int i = 0; i < width; i += LANES) {
            vf sum = vf_add(table_load(&model->words, ids[place], width, i), vf_load(type + i));
            vf_store(row + i, vf_add(sum, table_load(&model->places, place, width, i)));
        }
    }
    normalise(&model->embedding_norm, model->epsilon, x, rows, width, to);
}

/* Mean over the rows, scaled to unit length on request. */
static void mean(const float *x, int rows, int width, int normalize, float *out)
{
    vf square = vf_set(0.0f), count = vf_set((float)rows);
    for (int i = 0; i < width; i += LANES) {
        vf sum = vf_set(0.0f);
        for (int r = 0; r < rows; r++)
            sum = vf_add(sum, vf_load(x + (size_t)r * width + i));
        sum = vf_div(sum, count);
        vf_store(out + i, sum);
        square = vf_fma(sum, sum, square);
    }
    float length = sqrtf(vf_sum(square));
    vf factor = vf_set(normalize && length > 1e-12f ? 1.0f / length : 1.0f);
    for (int i = 0; i < width; i += LANES)
        vf_store(out + i, vf_mul(vf_load(out + i), factor));
}
