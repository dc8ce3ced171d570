/* Packs panels for tiles_grouped.h: deals quads of inputs into groups whose sums keep to the limits that it explains. */

#define PAIR_LIMIT 128
#define SPAN_LIMIT 257

/* What quads can add to each 16-bit sum of a strip, those of the first pairs, then those of the second: weights without
 * their signs, and the negative ones among them. */
struct load {
    int16_t span[SUMS], down[SUMS];
};

/* The load of a quad, rows w, w + width, ... of a matrix, under a pairing; 0 when one of its products could saturate. */
static int load_of(const int8_t *w, ptrdiff_t width, const uint8_t *order, struct load *load)
{
    int16_t over = 0;
    for (int pair = 0; pair < 2; pair++) {
        const int8_t *one = w + order[2 * pair] * width, *other = w + order[2 * pair + 1] * width;
        int16_t *span = load->span + pair * COLUMNS, *downs = load->down + pair * COLUMNS;
        for (int c = 0; c < COLUMNS; c++) {
            int16_t a = one[c], b = other[c], up = (a > 0 ? a : 0) + (b > 0 ? b : 0), down = up - a - b;
            span[c] = up + down;
            downs[c] = down;
            over |= (up > PAIR_LIMIT) | (down > PAIR_LIMIT);
        }
    }
    return !over;
}

/* Adds a quad's load to a group's if it fits. */
static int fits(struct load *group, const struct load *quad)
{
    int16_t over = 0;
    for (int i = 0; i < SUMS; i++)
        over |= (int16_t)(group->span[i] + quad->span[i]) > SPAN_LIMIT;
    if (over)
        return 0;
    for (int i = 0; i < SUMS; i++) {
        group->span[i] += quad->span[i];
        group->down[i] += quad->down[i];
    }
    return 1;
}

/* A quad of inputs: where it begins, how its inputs are paired, and the group that has it, -1 for none. */
struct dealt {
    int place, pairing, heaviest, group;
};

static struct dealt quad_of(const int8_t *matrix, int width, int place, struct load *load)
{
    struct dealt quad = {place, 0, 0, -1};
    int16_t heaviest = 0;
    while (quad.pairing < PAIRINGS && !load_of(matrix + (ptrdiff_t)place * width, width, pairings[quad.pairing], load))
        quad.pairing++;
    for (int i = 0; i < SUMS; i++)
        heaviest = load->span[i] > heaviest ? load->span[i] : heaviest;
    quad.heaviest = heaviest;
    return quad;
}

/* The kind of groups that may have a quad. */
enum kind { WIDE, PLAIN, SHUFFLED };

static enum kind kind_of(const struct dealt *quad)
{
    return quad->pairing == PAIRINGS ? WIDE : quad->pairing ? SHUFFLED : PLAIN;
}

static int by_heaviest(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    return x->heaviest != y->heaviest ? y->heaviest - x->heaviest : x->place - y->place;
}

static int by_group(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    return x->group != y->group ? x->group - y->group : x->place - y->place;
}

struct group_of_quads {
    struct load load;
    enum kind kind;
    int quads, number;
};

/* Groups in the order of use. */
static int by_size(const void *a, const void *b)
{
    const struct group_of_quads *x = a, *y = b;
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    return x->quads != y->quads ? x->quads - y->quads : x->number - y->number;
}

/* Deals quads into groups, the heaviest first, each into the first group with room; returns how many groups there are.
 * `ranks` is room for as many numbers as there are quads. */
static int deal(struct dealt *dealt, const struct load *loads, int quads, struct group_of_quads *groups, int *ranks)
{
    int count = 0;
    qsort(dealt, quads, sizeof *dealt, by_heaviest);
    for (int i = 0; i < quads; i++) {
        enum kind kind = kind_of(dealt + i);
        const struct load *load = loads + dealt[i].place / 4;
        int group = 0;
        if (kind == WIDE)
            continue;
        while (group < count && (groups[group].kind != kind || !fits(&groups[group].load, load)))
            group++;
        if (group == count)
            groups[count++] = (struct group_of_quads){*load, kind, 0, group};
        groups[group].quads++;
        dealt[i].group = group;
    }
    qsort(groups, count, sizeof *groups, by_size);
    for (int i = 0; i < count; i++)
        ranks[groups[i].number] = i;
    for (int i = 0; i < quads; i++)
        if (dealt[i].group >= 0)
            dealt[i].group = ranks[dealt[i].group];
    qsort(dealt, quads, sizeof *dealt, by_group);
    return count;
}

static int8_t *write_quad(const int8_t *matrix, int width, const struct dealt *quad, int8_t *to)
{
    for (int c = 0; c < COLUMNS; c++)
        for (int i = 0; i < 4; i++)
            *to++ = matrix[(ptrdiff_t)(quad->place + pairings[quad->pairing][i]) * width + c];
    return to;
}

static int8_t *write_wide(const int8_t *matrix, int width, int k, int8_t *to)
{
    int16_t *numbers = (int16_t *)to;
    for (int odd = 0; odd < 2; odd++)
        for (int c = 0; c < COLUMNS; c++)
            for (int i = 0; i < 2; i++)
                *numbers++ = matrix[(ptrdiff_t)(k + 2 * i + odd) * width + c];
    return to + 2 * QUAD_BYTES;
}

/* Where the 16-bit sums of a group start, and the opposite to where the 32-bit sums do. */
static int8_t *write_offsets(const struct load *group, int32_t *start, int8_t *to)
{
    int16_t *numbers = (int16_t *)to;
    for (int i = 0; i < SUMS; i++) {
        int column = i % COLUMNS, offset = 255 * group->down[i] - 32768;
        numbers[2 * column + i / COLUMNS] = (int16_t)offset;
        start[column] -= offset;
    }
    return to + QUAD_BYTES;
}

static size_t write_strip(const int8_t *matrix, int width, const struct dealt *dealt, int quads,
                          const struct group_of_quads *groups, int count, int8_t *to)
{
    struct strip *strip = (struct strip *)to;
    int8_t *w = to + HEAD_BYTES(count, quads);
    int32_t *sizes = (int32_t *)(strip + 1), *places = sizes + count;
    memset(to, 0, w - to);
    for (; quads && dealt->group < 0; dealt++, quads--, strip->wide++) {
        *places++ = dealt->place;
        w = write_wide(matrix, width, dealt->place, w);
    }
    strip->quads = quads;
    for (int i = 0; i < count; i++) {
        *sizes++ = groups[i].quads;
        strip->plain += groups[i].kind == PLAIN;
        strip->shuffled += groups[i].kind == SHUFFLED;
        w = write_offsets(&groups[i].load, strip->start, w);
        for (int q = 0; q < groups[i].quads; q++, dealt++) {
            *places++ = dealt->place + dealt->pairing;
            w = write_quad(matrix, width, dealt, w);
        }
    }
    strip->bytes = (int32_t)(w - to);
    return w - to;
}

static size_t pack_strip(const int8_t *matrix, int in, int width, int8_t *to)
{
    int quads = in / 4;
    size_t bytes = 0;
    struct load *loads = malloc(quads * sizeof *loads);
    struct dealt *dealt = malloc(quads * sizeof *dealt);
    struct group_of_quads *groups = malloc(quads * sizeof *groups);
    int *ranks = malloc(quads * sizeof *ranks);
    if (loads && dealt && groups && ranks) {
        for (int i = 0; i < quads; i++)
            dealt[i] = quad_of(matrix, width, 4 * i, loads + i);
        int count = deal(dealt, loads, quads, groups, ranks);
        bytes = write_strip(matrix, width, dealt, quads, groups, count, to);
    }
    free(loads);
    free(dealt);
    free(groups);
    free(ranks);
    return bytes;
}

/* Packs columns column .. column + PANEL - 1 of a matrix [in][width] to `to`; returns the bytes used, 0 without memory. */
static size_t pack_panel(const int8_t *matrix, int in, int width, int column, int8_t *to)
{
    size_t used = 0;
    for (int c = 0; c < PANEL; c += COLUMNS) {
        size_t bytes = pack_strip(matrix + column + c, in, width, to + used);
        if (!bytes)
            return 0;
        used += bytes;
    }
    return used;
}
