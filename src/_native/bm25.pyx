# cython: freethreading_compatible=True
"""Postings and BM25 over buffers that the caller owns. `runoff.lexical` is the face: it checks, allocates and raises."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc

cdef extern from "bm25.h" nogil:
    enum: BM25_BLOCK
    ctypedef struct bm25_segment:
        int64_t first_row, rows, terms
        const int64_t* term_ends
        const int64_t* posting_ends
        const uint8_t* text
        const int32_t* lengths
        const int32_t* posting_rows
        const uint8_t* posting_counts
        int complete
    ctypedef struct bm25_list:
        pass
    ctypedef struct bm25_norm:
        float base, slope
    ctypedef struct bm25_heap:
        int64_t* rows
        float* scores
        int64_t size, room
    int64_t bm25_find(const bm25_segment*, const uint8_t*, int64_t)
    bm25_list bm25_postings(const bm25_segment*, int64_t, float)
    int64_t bm25_live(const bm25_segment*, int64_t, const uint8_t*)
    int64_t bm25_sort(bm25_heap*)
    int bm25_score(const bm25_segment*, bm25_list*, int64_t, bm25_norm, const uint8_t*, const uint8_t*, float*,
                   bm25_heap*)
    int bm25_count(const int32_t*, const int64_t*, int64_t, int64_t, int32_t*, int64_t*)
    void bm25_fill(const int32_t*, const int64_t*, int64_t, int32_t*, int64_t*, int32_t*, uint8_t*)
    int bm25_move(const bm25_segment*, const int32_t*, int64_t*, int32_t*, uint8_t*)


cdef bm25_segment segment_of(tuple part):
    """Pointers into arrays whose offsets the face has checked; an empty array gives none."""
    cdef bm25_segment segment
    cdef const int64_t[::1] term_ends = part[2]
    cdef const int64_t[::1] posting_ends = part[3]
    cdef const uint8_t[::1] text = part[4]
    cdef const int32_t[::1] posting_rows = part[5]
    cdef const uint8_t[::1] posting_counts = part[6]
    cdef const int32_t[::1] lengths = part[1]
    segment.first_row, segment.rows, segment.terms, segment.complete = part[0], lengths.shape[0], term_ends.shape[0], part[7]
    segment.lengths = &lengths[0] if lengths.shape[0] else NULL
    segment.term_ends = &term_ends[0] if term_ends.shape[0] else NULL
    segment.posting_ends = &posting_ends[0] if posting_ends.shape[0] else NULL
    segment.text = &text[0] if text.shape[0] else NULL
    segment.posting_rows = &posting_rows[0] if posting_rows.shape[0] else NULL
    segment.posting_counts = &posting_counts[0] if posting_counts.shape[0] else NULL
    return segment


cdef class Segments:
    """Neighbouring segments, searched as one. It never changes, so that any number of threads may use it.

    `parts` has what `segment_of` takes for each segment; `alive` (as bytes) is of all rows; a count is weighed
    against `base + slope * length`.
    """

    cdef bm25_segment* segments
    cdef Py_ssize_t count
    cdef object parts
    cdef const uint8_t[::1] alive
    cdef bm25_norm norm

    def __cinit__(self, list parts, const uint8_t[::1] alive, float base, float slope):
        self.parts = parts
        self.count = len(parts)
        self.alive = alive
        self.norm = bm25_norm(base, slope)
        self.segments = <bm25_segment*>malloc(max(1, self.count) * sizeof(bm25_segment))
        if not self.segments:
            raise MemoryError
        for i, part in enumerate(parts):
            self.segments[i] = segment_of(part)

    def __dealloc__(self):
        free(self.segments)

    def find(self, const uint8_t[::1] term, int64_t[::1] numbers):
        """Write the term's number in each segment (-1: none) into `numbers`; returns how many live rows have it.

        Minus one means that a segment has a posting outside of its rows.
        """
        cdef int64_t live, found = 0
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.count):
                numbers[i] = bm25_find(&self.segments[i], &term[0], term.shape[0])
                live = bm25_live(&self.segments[i], numbers[i], &self.alive[0]) if numbers[i] >= 0 else 0
                if live < 0:
                    found = -1
                    break
                found += live
        return found

    def search(
        self,
        const int64_t[:, ::1] numbers,
        const float[::1] weights,
        const uint8_t[::1] allowed,
        int64_t[::1] rows,
        float[::1] scores,
    ):
        """Write the best rows, best first, and their scores; returns how many there are.

        `numbers` has a row for each term of the query, in the order in which its weights are to be added; `rows` and
        `scores` have as many places as rows are wanted, at least one. Minus one means that postings are damaged.
        """
        cdef bm25_heap heap = bm25_heap(&rows[0], &scores[0], 0, rows.shape[0])
        cdef Py_ssize_t i, t, terms = numbers.shape[0], found
        cdef int64_t first
        cdef int sound = 1
        cdef const uint8_t* mask = &allowed[0] if allowed is not None and allowed.shape[0] else NULL
        cdef float* sums = <float*>calloc(BM25_BLOCK, sizeof(float))
        cdef bm25_list* lists = <bm25_list*>malloc(max(1, terms) * sizeof(bm25_list))
        try:
            if not sums or not lists:
                raise MemoryError
            with nogil:
                for i in range(self.count):
                    found = 0
                    for t in range(terms):
                        if numbers[t, i] >= 0:
                            lists[found] = bm25_postings(&self.segments[i], numbers[t, i], weights[t])
                            found += 1
                    if found and sound:
                        first = self.segments[i].first_row
                        sound = bm25_score(&self.segments[i], lists, found, self.norm, &self.alive[first],
                                           mask + first if mask else NULL, sums, &heap)
            return bm25_sort(&heap) if sound else -1
        finally:
            free(sums)
            free(lists)


def count(const int32_t[::1] words, const int64_t[::1] ends, int32_t[::1] last, int64_t[::1] frequencies):
    """Add to `frequencies` how many rows each term occurs in; `last` has -1 for each. False: a number out of range."""
    cdef int64_t rows = ends.shape[0], terms = last.shape[0]
    cdef bint sound
    if not rows or not words.shape[0]:
        return True
    with nogil:
        sound = bm25_count(&words[0], &ends[0], rows, terms, &last[0], &frequencies[0])
    return sound


def fill(
    const int32_t[::1] words,
    const int64_t[::1] ends,
    int32_t[::1] last,
    int64_t[::1] next,
    int32_t[::1] posting_rows,
    uint8_t[::1] posting_counts,
):
    """Write the postings that `count` found room for, from where `next` says for each term; `last` has -1 again."""
    if not posting_rows.shape[0]:
        return
    with nogil:
        bm25_fill(&words[0], &ends[0], ends.shape[0], &last[0], &next[0], &posting_rows[0], &posting_counts[0])


def move(tuple part, const int32_t[::1] renumbered, int64_t[::1] next, int32_t[::1] posting_rows,
         uint8_t[::1] posting_counts):
    """Copy a segment's postings to where `next` says for each of its terms, or move `next` on alone where
    `posting_rows` is empty. `renumbered` has the new number of each row, -1 for those that go. False: damaged.
    """
    cdef bm25_segment segment = segment_of(part)
    cdef bint sound, write = posting_rows.shape[0] > 0
    if not segment.terms or not segment.rows:
        return True
    with nogil:
        sound = bm25_move(&segment, &renumbered[0], &next[0], &posting_rows[0] if write else NULL,
                          &posting_counts[0] if write else NULL)
    return sound
