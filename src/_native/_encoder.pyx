# cython: freethreading_compatible=True
"""The int8 encoder over buffers that the caller owns. Nothing is checked here: `runoff.native` is the face."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

cdef extern from "model.h" nogil:
    enum: HEAD, PANEL, MAX_TOKENS, ATTEND_SCRATCH
    struct bytes_ "bytes":
        uint8_t *values
        float *scale
        int32_t *zero
    struct linear:
        int inputs "in"
        int out
    struct bytes_rows "bytes":
        uint8_t *values
        float *scale
        int32_t *zero
    struct norm:
        const float *gain
        const float *shift
    struct table:
        const uint8_t *values
        const float *scale
        int step
        int zero
        uint8_t flip
    struct layer:
        linear qkv, out, up, down
        norm attention_norm, output_norm
    struct model:
        int layers, heads, hidden, intermediate
        float epsilon
        table words, places
        float *types
        norm embedding_norm
        layer *layer
        linear pooler
        float *classifier
        float classifier_bias
        int normalize
    struct head:
        const uint8_t *query
        const float *query_scale
        const int8_t *key
        const float *key_scale
        const int32_t *key_start
        const float *value
        int queries, keys
    struct kernel:
        const char *name
        void products(const linear *, const uint8_t *, int, int32_t *)
        void quantise(const float *, int, int, bytes_)
        void embed(const model *, const int32_t *, const int32_t *, int, float *, bytes_)
        void normalise(const norm *, float, float *, int, int, bytes_)
        void linear(const linear *, bytes_, int, float *)
        void linear_add(const linear *, bytes_, int, float *)
        void linear_gelu(const linear *, bytes_, int, float *)
        void project_query(const linear *, int, bytes_, int, uint8_t *, float *)
        void project_key(const linear *, int, bytes_, int, int8_t *, float *, int32_t *)
        void project_value(const linear *, int, bytes_, int, float *)
        void attend(const head *, float *, int, void *)
        void mean(const float *, int, int, int, float *)

cdef extern from "pack.h" nogil:
    model *model_new(const kernel *, int layers, int heads, int hidden, int intermediate)
    void model_free(model *)
    int linear_open(model *, linear *, int inputs, int out)
    int linear_fill(model *, linear *, int panel, const int8_t *, int width, int column, const float *scale,
                    const float *bias)
    float *floats_copy(const float *, int count)

cdef extern from "encoder.h" nogil:
    enum: PARTS
    struct rest:
        float *x
        bytes_rows bytes
    struct batch:
        const model *model
        const kernel *kernel
        const int32_t *ids
        const int32_t *types
        const int64_t *starts
        const int64_t *chosen
        int64_t count
        int threads
        int first, last
        const rest *rest
        float *cls
        float *out
        uint64_t *times
    int encoder_run(const batch *)
    const kernel *encoder_kernel(const char *)

PARTS_NAMES = ("embed", "project", "attend", "out", "up", "down", "norm", "quantise", "pool")
LIMITS = {"head": HEAD, "panel": PANEL, "tokens": MAX_TOKENS}


def kernel_name(str wanted=None):
    """Name of the kernel (the best one for None), or None when this CPU does not run it."""
    cdef bytes name = wanted.encode() if wanted is not None else b""
    cdef const kernel *found = encoder_kernel(<const char *>name if name else NULL)
    return found.name.decode() if found != NULL else None


cdef class Encoder:
    """A model's packed weights and the kernel that runs them."""

    cdef object __weakref__
    cdef model *model
    cdef const kernel *kernel
    cdef list kept

    def __cinit__(self, str kernel, int layers, int heads, int hidden, int intermediate, float epsilon, bint normalize):
        cdef bytes name = kernel.encode()
        self.kernel = encoder_kernel(name)
        self.model = model_new(self.kernel, layers, heads, hidden, intermediate)
        self.kept = []
        if self.model == NULL:
            raise MemoryError
        self.model.epsilon = epsilon
        self.model.normalize = normalize

    def __dealloc__(self):
        model_free(self.model)

    def set_tables(self, tuple words, tuple places, const float[:, ::1] types):
        """Word and place tables, each (uint8 [rows, hidden], float32 scales, zero point, flip), kept; types are copied."""
        self._table(&self.model.words, words)
        self._table(&self.model.places, places)
        self.model.types = floats_copy(&types[0, 0], types.size)
        if self.model.types == NULL:
            raise MemoryError

    cdef _table(self, table *to, tuple parts):
        cdef const uint8_t[:, ::1] values = parts[0]
        cdef const float[::1] scale = parts[1]
        self.kept.append((values, scale))
        to.values, to.scale = &values[0, 0], &scale[0]
        to.step, to.zero, to.flip = scale.shape[0] > 1, parts[2], parts[3]

    def set_linear(self, int index, str which, *parts):
        """Pack a linear layer from (int8 [in, out], scales [out], bias [out] or None) parts: three for `qkv`, else one."""
        cdef linear *to = self._linear(index, which)
        cdef int i, count = len(parts)
        if linear_open(self.model, to, parts[0][0].shape[0], count * parts[0][0].shape[1]):
            raise MemoryError
        for i in range(count):
            self._fill(to, i, count, parts[i])

    cdef linear *_linear(self, int index, str which):
        cdef layer *of = &self.model.layer[index]
        if which == "qkv":
            return &of.qkv
        if which == "out":
            return &of.out
        if which == "up":
            return &of.up
        return &of.down if which == "down" else &self.model.pooler

    cdef _fill(self, linear *to, int part, int parts, tuple tensors):
        cdef const int8_t[:, ::1] matrix = tensors[0]
        cdef const float[::1] scale = tensors[1]
        cdef const float[::1] shift = tensors[2]
        cdef int panel, width = matrix.shape[1]
        for panel in range(width // PANEL):
            if linear_fill(self.model, to, panel * parts + part, &matrix[0, 0], width, panel * PANEL, &scale[0],
                           &shift[0] if shift is not None else NULL):
                raise MemoryError

    def set_norm(self, int index, str which, const float[::1] gain, const float[::1] shift):
        """Copy a layer norm: `embedding`, `attention` or `output`."""
        cdef norm *to = self._norm(index, which)
        to.gain = floats_copy(&gain[0], gain.shape[0])
        to.shift = floats_copy(&shift[0], shift.shape[0])
        if to.gain == NULL or to.shift == NULL:
            raise MemoryError

    cdef norm *_norm(self, int index, str which):
        if which == "embedding":
            return &self.model.embedding_norm
        cdef layer *of = &self.model.layer[index]
        return &of.attention_norm if which == "attention" else &of.output_norm

    def set_classifier(self, const float[::1] weights, float bias):
        """Copy the last layer of a cross-encoder."""
        self.model.classifier = floats_copy(&weights[0], weights.shape[0])
        self.model.classifier_bias = bias
        if self.model.classifier == NULL:
            raise MemoryError

    def run(self, const int32_t[::1] ids, const int32_t[::1] types, const int64_t[::1] starts, int threads,
            float[::1] out, uint64_t[::1] times=None):
        """Logits or vectors of packed sequences into `out`; `times`, if given, adds up nanoseconds by part."""
        cdef batch job
        cdef int failed
        job.model, job.kernel = self.model, self.kernel
        job.ids, job.types, job.starts = &ids[0], &types[0] if types is not None else NULL, &starts[0]
        job.chosen, job.count, job.threads, job.out = NULL, starts.shape[0] - 1, threads, &out[0]
        job.first, job.last, job.rest, job.cls = 0, self.model.layers, NULL, NULL
        job.times = &times[0] if times is not None else NULL
        with nogil:
            failed = encoder_run(&job)
        if failed:
            raise MemoryError

    def advance(self, const int32_t[::1] ids, const int32_t[::1] types, const int64_t[::1] starts,
                const int64_t[::1] chosen, int first, int last, float[:, ::1] x, uint8_t[:, ::1] values,
                float[::1] scale, int32_t[::1] zero, int threads, float[::1] out):
        """Take the chosen sequences from layer `first` to `last`, from and to the states at rest.

        Into `out` go logits [sequences] after the last layer, else [CLS] states [sequences * hidden] one layer on.
        """
        cdef batch job
        cdef rest states
        cdef int failed
        states.x, states.bytes.values = &x[0, 0], &values[0, 0]
        states.bytes.scale, states.bytes.zero = &scale[0], &zero[0]
        job.model, job.kernel = self.model, self.kernel
        job.ids, job.types, job.starts = &ids[0], &types[0] if types is not None else NULL, &starts[0]
        job.chosen, job.count, job.threads, job.out = &chosen[0], chosen.shape[0], threads, &out[0]
        job.cls = &out[0]
        job.first, job.last, job.rest, job.times = first, last, &states, NULL
        with nogil:
            failed = encoder_run(&job)
        if failed:
            raise MemoryError

    def products(self, int index, str which, const uint8_t[:, ::1] rows, int32_t[:, ::1] out):
        """Exact integer products of byte rows with a packed layer, its columns in packed order: for tests."""
        self.kernel.products(self._linear(index, which), &rows[0, 0], rows.shape[0], &out[0, 0])


include "stages.pxi"
