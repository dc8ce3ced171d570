/* Postings: counted from the words of texts, moved when segments merge, and scored by BM25.
 *
 * A segment holds the terms of some neighbouring rows. Its rows are scored a block at a time, so that the block's sums
 * stay in the first cache levels: each term adds to the rows that it occurs in, always in the same order, then the block
 * is read for what belongs into the heap of the k best. Whatever a posting says is checked before it is used. */
#ifndef RUNOFF_BM25_H
#define RUNOFF_BM25_H

#include <stdint.h>
#include <string.h>

#define BM25_BLOCK 16384
#define BM25_MOST 255 /* counts of a term in a row stop here */

typedef struct {
    int64_t first_row, rows, terms;
    const int64_t *term_ends, *posting_ends;
    const unsigned char *text;
    const int32_t *lengths, *posting_rows;
    const uint8_t *posting_counts;
    int complete; /* whether all of its rows live */
} bm25_segment;

/* One term of the query in one segment: what is left of its postings. */
typedef struct {
    const int32_t *row, *end;
    const uint8_t *count;
    float weight;
} bm25_list;

/* The k best so far, the worst on top: the lowest score, of equal ones the last row. */
typedef struct {
    int64_t *rows;
    float *scores;
    int64_t size, room;
} bm25_heap;

/* Number of a term in a segment, -1 where it has none. */
static inline int64_t bm25_find(const bm25_segment *segment, const unsigned char *term, int64_t length)
{
    int64_t low = 0, high = segment->terms;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int64_t start = middle ? segment->term_ends[middle - 1] : 0;
        const int64_t size = segment->term_ends[middle] - start;
        int order = memcmp(segment->text + start, term, (size_t)(size < length ? size : length));
        if (!order)
            order = (size > length) - (size < length);
        if (!order)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static inline bm25_list bm25_postings(const bm25_segment *segment, int64_t term, float weight)
{
    const int64_t start = term ? segment->posting_ends[term - 1] : 0, end = segment->posting_ends[term];
    const bm25_list list = {segment->posting_rows + start, segment->posting_rows + end, segment->posting_counts + start,
                            weight};
    return list;
}

/* How many live rows a term occurs in; -1 where a row is none of the segment. */
static inline int64_t bm25_live(const bm25_segment *segment, int64_t term, const uint8_t *alive)
{
    const bm25_list list = bm25_postings(segment, term, 0);
    int64_t live = 0;
    if (segment->complete)
        return list.end - list.row;
    for (const int32_t *row = list.row; row < list.end; row++) {
        if ((uint64_t)*row >= (uint64_t)segment->rows)
            return -1;
        live += alive[segment->first_row + *row] != 0;
    }
    return live;
}

static inline int bm25_worse(const bm25_heap *heap, int64_t a, int64_t b)
{
    return heap->scores[a] < heap->scores[b] || (heap->scores[a] == heap->scores[b] && heap->rows[a] > heap->rows[b]);
}

static inline void bm25_swap(bm25_heap *heap, int64_t a, int64_t b)
{
    const int64_t row = heap->rows[a];
    const float score = heap->scores[a];
    heap->rows[a] = heap->rows[b], heap->scores[a] = heap->scores[b];
    heap->rows[b] = row, heap->scores[b] = score;
}

static inline void bm25_sink(bm25_heap *heap, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < heap->size; at = child) {
        if (child + 1 < heap->size && bm25_worse(heap, child + 1, child))
            child++;
        if (!bm25_worse(heap, child, at))
            return;
        bm25_swap(heap, at, child);
    }
}

/* The score that a later row must exceed. */
static inline float bm25_bar(const bm25_heap *heap)
{
    return heap->size == heap->room ? heap->scores[0] : 0;
}

static inline void bm25_offer(bm25_heap *heap, int64_t row, float score)
{
    if (heap->size < heap->room) {
        int64_t at = heap->size++;
        heap->rows[at] = row, heap->scores[at] = score;
        for (; at && bm25_worse(heap, at, (at - 1) / 2); at = (at - 1) / 2)
            bm25_swap(heap, at, (at - 1) / 2);
    } else {
        heap->rows[0] = row, heap->scores[0] = score;
        bm25_sink(heap, 0);
    }
}

/* Best first: the heap taken apart from its worst end. */
static inline int64_t bm25_sort(bm25_heap *heap)
{
    const int64_t found = heap->size;
    while (heap->size > 1) {
        heap->size--;
        bm25_swap(heap, 0, heap->size);
        bm25_sink(heap, 0);
    }
    return found;
}

/* What a count is weighed against in a row of some length: base + slope * length. */
typedef struct {
    float base, slope;
} bm25_norm;

/* Adds the postings of a list in rows start to start + size to sums, and moves the list on. lengths are from start on. */
static inline void bm25_add(bm25_list *list, int64_t start, int64_t size, const int32_t *lengths, bm25_norm norm,
                            float *sums)
{
    for (; list->row < list->end; list->row++, list->count++) {
        const uint64_t at = (uint64_t)(*list->row - start); /* a row before start is far outside, too */
        if (at >= (uint64_t)size)
            return;
        const float count = *list->count;
        sums[at] += list->weight * count / (count + (norm.base + norm.slope * (float)lengths[at]));
    }
}

/* Scores a segment's rows. alive and allowed are of the segment's rows, allowed may be NULL; sums has BM25_BLOCK zeros
 * and has them again afterwards. Returns 0 where postings are out of order or outside of the segment. */
static inline int bm25_score(const bm25_segment *segment, bm25_list *lists, int64_t terms, bm25_norm norm,
                             const uint8_t *alive, const uint8_t *allowed, float *sums, bm25_heap *heap)
{
    for (int64_t done = 0;;) {
        int64_t next = INT64_MAX;
        for (int64_t t = 0; t < terms; t++)
            if (lists[t].row < lists[t].end && *lists[t].row < next)
                next = *lists[t].row;
        if (next == INT64_MAX)
            return 1;
        if (next < done || next >= segment->rows)
            return 0;
        const int64_t start = next / BM25_BLOCK * BM25_BLOCK;
        const int64_t size = segment->rows - start < BM25_BLOCK ? segment->rows - start : BM25_BLOCK;
        for (int64_t t = 0; t < terms; t++)
            bm25_add(&lists[t], start, size, segment->lengths + start, norm, sums);
        for (int64_t i = 0; i < size; i++)
            if (sums[i] > bm25_bar(heap) && alive[start + i] && (!allowed || allowed[start + i]))
                bm25_offer(heap, segment->first_row + start + i, sums[i]);
        memset(sums, 0, (size_t)size * sizeof *sums);
        done = start + size;
    }
}

/* Adds to frequencies[t] the number of rows that term t occurs in. words holds the terms of all rows' words, row by row,
 * and ends where each row's end; last has -1 for each term. Returns 0 where a number is out of range. */
static inline int bm25_count(const int32_t *words, const int64_t *ends, int64_t rows, int64_t terms, int32_t *last,
                             int64_t *frequencies)
{
    for (int64_t row = 0, at = 0; row < rows; row++)
        for (; at < ends[row]; at++) {
            if ((uint64_t)words[at] >= (uint64_t)terms)
                return 0;
            frequencies[words[at]] += last[words[at]] != row;
            last[words[at]] = (int32_t)row;
        }
    return 1;
}

/* Writes the postings that were counted; next holds where each term's begin and is moved on, last has -1 for each. */
static inline void bm25_fill(const int32_t *words, const int64_t *ends, int64_t rows, int32_t *last, int64_t *next,
                             int32_t *posting_rows, uint8_t *posting_counts)
{
    for (int64_t row = 0, at = 0; row < rows; row++)
        for (; at < ends[row]; at++) {
            const int32_t term = words[at];
            if (last[term] == row) {
                posting_counts[next[term] - 1] += posting_counts[next[term] - 1] < BM25_MOST;
                continue;
            }
            last[term] = (int32_t)row;
            posting_rows[next[term]] = (int32_t)row;
            posting_counts[next[term]++] = 1;
        }
}

/* Copies a segment's postings to where next says for each of its terms (moved on; -1 leaves a term out). renumbered holds
 * the new number of each row, -1 for rows that go. Without posting_rows they are only counted. Returns 0 where a
 * posting is outside of the segment. */
static inline int bm25_move(const bm25_segment *segment, const int32_t *renumbered, int64_t *next, int32_t *posting_rows,
                            uint8_t *posting_counts)
{
    for (int64_t t = 0; t < segment->terms; t++) {
        bm25_list list = bm25_postings(segment, t, 0);
        for (; list.row < list.end && next[t] >= 0; list.row++, list.count++) {
            if ((uint64_t)*list.row >= (uint64_t)segment->rows)
                return 0;
            const int32_t row = renumbered[*list.row];
            if (row < 0)
                continue;
            if (posting_rows) {
                posting_rows[next[t]] = row;
                posting_counts[next[t]] = *list.count;
            }
            next[t]++;
        }
    }
    return 1;
}
#endif
