/* Walks a graph of neighbours (HNSW: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using
 * hierarchical navigable small world graphs", IEEE TPAMI 42(4), 2020) over half-precision vectors that lie elsewhere.
 *
 * The graph is a mapped file. Whatever it says is checked before it is used, so that no walk ever leaves it. */
#ifndef RUNOFF_HNSW_H
#define RUNOFF_HNSW_H

#include "scan.h"

#define HNSW_WIDEST 256 /* most neighbours of a row */
#define HNSW_SEEN 0x80000000u
#define HNSW_LINE 64 /* bytes that come from memory at once */

/* Some rows, ascending, and the neighbours of each: `width` numbers, filled up with -1. */
typedef struct {
    const int32_t *rows, *links; /* rows of NULL are all rows */
    int64_t count, width;
} hnsw_level;

typedef struct {
    int64_t rows, entry, levels;
    const hnsw_level *level; /* level[0] is the ground, which has every row */
} hnsw_graph;

/* One of the best rows so far; HNSW_SEEN is set in `row` once its neighbours were looked at. */
typedef struct {
    float score;
    uint32_t row;
} hnsw_found;

static inline const int32_t *hnsw_links(const hnsw_level *level, int64_t row)
{
    if (!level->rows)
        return level->links + row * level->width;
    int64_t low = 0, high = level->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (level->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < level->count && level->rows[low] == row ? level->links + low * level->width : NULL;
}

static inline void hnsw_fetch(const uint16_t *vector, int64_t dimensions)
{
    for (int64_t at = 0; at < dimensions; at += HNSW_LINE / (int64_t)sizeof *vector)
        __builtin_prefetch(vector + at);
}

/* Puts a row among the best, which are in order: the highest score first, of equal ones the first row. Returns its place,
 * or `room` where it is not one of them. */
static inline int64_t hnsw_offer(hnsw_found *found, int64_t *size, int64_t room, float score, uint32_t row)
{
    int64_t low = 0, high = *size;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const uint32_t other = found[middle].row & ~HNSW_SEEN;
        if (found[middle].score > score || (found[middle].score == score && other < row))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == room)
        return room;
    *size += *size < room;
    memmove(found + low + 1, found + low, (size_t)(*size - 1 - low) * sizeof *found);
    found[low].score = score, found[low].row = row;
    return low;
}

/* The row nearest to the query that is reached from the entry by steps to nearer ones, level by level down to the
 * ground; -1 where the graph is damaged. */
static inline int64_t hnsw_descend(const hnsw_graph *graph, scan_kernel kernel, const uint16_t *vectors,
                                   int64_t dimensions, const float *query)
{
    int64_t at = graph->entry;
    if ((uint64_t)at >= (uint64_t)graph->rows)
        return -1;
    float best = kernel(vectors + at * dimensions, query, dimensions);
    for (int64_t number = graph->levels - 1; number > 0; number--) {
        const hnsw_level *level = &graph->level[number];
        for (int64_t from = -1; from != at;) {
            const int32_t *links = hnsw_links(level, from = at);
            if (!links)
                return -1;
            for (int64_t i = 0; i < level->width && links[i] >= 0; i++) {
                if (links[i] >= graph->rows)
                    return -1;
                const float score = kernel(vectors + links[i] * dimensions, query, dimensions);
                if (score > best)
                    best = score, at = links[i];
            }
        }
    }
    return at;
}

/* Finds about the `room` rows that are nearest to the query, best first, by going on from the best row whose neighbours
 * were not looked at while there is one. vectors are those of the graph's rows; visited has a zero bit for each row.
 * Returns how many were found, -1 where the graph is damaged. */
static inline int64_t hnsw_walk(const hnsw_graph *graph, int number, const uint16_t *vectors, int64_t dimensions,
                                const float *query, uint8_t *visited, hnsw_found *found, int64_t room)
{
    const scan_kernel kernel = scan_choose(number);
    const hnsw_level *ground = graph->level;
    int64_t size = 0, next = 0, at = hnsw_descend(graph, kernel, vectors, dimensions, query);
    if (at < 0)
        return -1;
    visited[at / 8] |= (uint8_t)(1 << at % 8);
    hnsw_offer(found, &size, room, kernel(vectors + at * dimensions, query, dimensions), (uint32_t)at);
    while (next < size) {
        int32_t fresh[HNSW_WIDEST];
        int64_t count = 0;
        if (found[next].row & HNSW_SEEN) {
            next++;
            continue;
        }
        const int32_t *links = hnsw_links(ground, found[next].row);
        found[next].row |= HNSW_SEEN;
        for (int64_t i = 0; i < ground->width && links[i] >= 0; i++) {
            const int32_t row = links[i];
            if (row >= graph->rows)
                return -1;
            if (visited[row / 8] >> row % 8 & 1)
                continue;
            visited[row / 8] |= (uint8_t)(1 << row % 8);
            fresh[count++] = row;
        }
        if (count)
            hnsw_fetch(vectors + fresh[0] * dimensions, dimensions);
        for (int64_t i = 0; i < count; i++) {
            if (i + 1 < count)
                hnsw_fetch(vectors + fresh[i + 1] * dimensions, dimensions);
            const float score = kernel(vectors + fresh[i] * dimensions, query, dimensions);
            if (size == room && !(score >= found[size - 1].score))
                continue;
            const int64_t place = hnsw_offer(found, &size, room, score, (uint32_t)fresh[i]);
            if (place < next)
                next = place;
        }
    }
    return size;
}
#endif
