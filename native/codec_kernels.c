/* Encode and decode single precision in one pass of the processor's vector instructions.
 *
 * workbench/engine/exchange/codecs.py has the same in NumPy, and says what the bytes mean; this
 * writes the same bytes (half precision: that of PyTorch's conversion). Every operation is a single
 * rounding of IEEE 754 in the same order as there, so sums and errors are equal to the last bit.
 *
 * A block of 30,000 numbers is passed twice while the cache has it: for its largest number, and to
 * encode it. The functions check sizes and types, and run without Python's lock.
 */
#include "module.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_KERNELS 1
#define VECTOR __attribute__((target("avx2,f16c")))
#define EACH VECTOR static inline __attribute__((always_inline))
#else
#define HAS_KERNELS 0
#endif

/* The codecs, in the order of CODECS below. */
enum { INT8, HALF, BFLOAT16 };

#define HEADER 4      /* bytes of a block's scale, before its numbers */
#define LANES 8       /* numbers in a vector */
#define HALF_MOST 14  /* exponent of two that half precision's largest number gets */

/* What one call works on. Optional parts are NULL. */
typedef struct {
    float *values;        /* the numbers; become what was encoded */
    const uint8_t *came;  /* optional: encoded numbers to add first */
    uint8_t *wire;        /* becomes the encoded numbers */
    float *lost;          /* optional: becomes what encoding lost, of the sum of all ranks */
    float *mean;          /* optional: becomes the decoded numbers */
    Py_ssize_t size;      /* numbers */
    Py_ssize_t block;     /* the most numbers with one scale */
    float share;          /* by which the sum is multiplied */
    float ranks;          /* by which the loss is multiplied */
} Work;

static int width_of(int codec) { return codec == INT8 ? 1 : 2; }

#if HAS_KERNELS

/* Return eight encoded numbers, multiplied by their scale. */
EACH __m256 loaded(int codec, const uint8_t *from, __m256 scale)
{
    if (codec == INT8) {
        __m128i eight = _mm_loadl_epi64((const __m128i *)from);
        return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), scale);
    }
    __m128i eight = _mm_loadu_si128((const __m128i *)from);
    if (codec == HALF)
        return _mm256_mul_ps(_mm256_cvtph_ps(eight), scale);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
}

/* Write eight numbers; `inverse` is that of their scale. */
EACH void stored(int codec, uint8_t *to, __m256 values, __m256 inverse)
{
    if (codec == INT8) {
        __m256i wide = _mm256_cvtps_epi32(_mm256_mul_ps(values, inverse));
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(wide),
                                        _mm256_extracti128_si256(wide, 1));
        _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(words, words));
    } else if (codec == HALF) {
        __m128i eight = _mm256_cvtps_ph(_mm256_mul_ps(values, inverse), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)to, eight);
    } else {
        __m256i wide = _mm256_add_epi32(_mm256_castps_si256(values), _mm256_set1_epi32(0x8000));
        wide = _mm256_srli_epi32(wide, 16);
        _mm_storeu_si128((__m128i *)to, _mm_packus_epi32(_mm256_castsi256_si128(wide),
                                                         _mm256_extracti128_si256(wide, 1)));
    }
}

EACH float scale_of(int codec, float largest)
{
    if (codec == INT8)
        return fmaxf(largest / 127.0f, FLT_MIN);
    if (codec == HALF) {
        int exponent;
        frexpf(largest, &exponent);
        exponent -= HALF_MOST;
        return ldexpf(1.0f, exponent < -126 ? -126 : exponent);
    }
    return 1.0f;
}

EACH __m256 read_scale(int codec, const uint8_t *header)
{
    float scale = 1.0f;
    if (codec != BFLOAT16)
        memcpy(&scale, header, sizeof scale);
    return _mm256_set1_ps(scale);
}

/* Encode one block; return whether all of its sums are finite. */
EACH int encode_block(int codec, float *values, Py_ssize_t size, const uint8_t *came,
                      uint8_t *wire, float *lost, float *mean, const Work *work)
{
    const int width = width_of(codec);
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256 share = _mm256_set1_ps(work->share), ranks = _mm256_set1_ps(work->ranks);
    const int adds = came != NULL, scales = work->share != 1.0f;
    __m256 coming = _mm256_setzero_ps(), largest = _mm256_setzero_ps();
    __m256 unordered = _mm256_setzero_ps();
    float room[LANES], most[LANES];
    uint8_t bytes[2 * LANES];

    if (adds) {
        coming = read_scale(codec, came);
        came += HEADER;
    }
    for (Py_ssize_t at = 0; at < size; at += LANES) {
        const Py_ssize_t left = size - at;
        float *here = values + at;
        __m256 sum;
        if (left >= LANES) {
            sum = _mm256_loadu_ps(here);
            if (adds)
                sum = _mm256_add_ps(sum, loaded(codec, came + at * width, coming));
        } else {
            memset(room, 0, sizeof room);
            memcpy(room, here, left * sizeof *here);
            sum = _mm256_loadu_ps(room);
            if (adds) {
                memset(bytes, 0, sizeof bytes);
                memcpy(bytes, came + at * width, left * width);
                sum = _mm256_add_ps(sum, loaded(codec, bytes, coming));
            }
        }
        if (scales)
            sum = _mm256_mul_ps(sum, share);
        unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(sum, sum, _CMP_UNORD_Q));
        largest = _mm256_max_ps(largest, _mm256_and_ps(sum, magnitude));
        if (!adds && !scales)
            continue;
        if (left >= LANES) {
            _mm256_storeu_ps(here, sum);
        } else {
            _mm256_storeu_ps(room, sum);
            memcpy(here, room, left * sizeof *here);
        }
    }
    float greatest = 0.0f;
    _mm256_storeu_ps(most, largest);
    for (int lane = 0; lane < LANES; lane++)
        greatest = fmaxf(greatest, most[lane]);
    if (_mm256_movemask_ps(unordered) || !isfinite(greatest))
        return 0;

    const float unit = scale_of(codec, greatest);
    const __m256 scale = _mm256_set1_ps(unit), inverse = _mm256_set1_ps(1.0f / unit);
    if (codec != BFLOAT16)
        memcpy(wire, &unit, sizeof unit);
    wire += HEADER;
    for (Py_ssize_t at = 0; at < size; at += LANES) {
        const Py_ssize_t left = size - at;
        const int whole = left >= LANES;
        uint8_t *to = whole ? wire + at * width : bytes;
        __m256 sum;
        if (whole) {
            sum = _mm256_loadu_ps(values + at);
        } else {
            memset(room, 0, sizeof room);
            memcpy(room, values + at, left * sizeof *values);
            sum = _mm256_loadu_ps(room);
        }
        stored(codec, to, sum, inverse);
        if (!whole)
            memcpy(wire + at * width, bytes, left * width);
        if (lost == NULL && mean == NULL)
            continue;
        const __m256 decoded = loaded(codec, to, scale);
        const __m256 error = _mm256_mul_ps(_mm256_sub_ps(sum, decoded), ranks);
        if (whole) {
            if (lost != NULL)
                _mm256_storeu_ps(lost + at, error);
            if (mean != NULL)
                _mm256_storeu_ps(mean + at, decoded);
            continue;
        }
        if (lost != NULL) {
            _mm256_storeu_ps(room, error);
            memcpy(lost + at, room, left * sizeof *lost);
        }
        if (mean != NULL) {
            _mm256_storeu_ps(room, decoded);
            memcpy(mean + at, room, left * sizeof *mean);
        }
    }
    return 1;
}

EACH int encode_all(int codec, const Work *work)
{
    const Py_ssize_t step = HEADER + work->block * width_of(codec);
    Py_ssize_t there = 0;
    for (Py_ssize_t at = 0; at < work->size; at += work->block, there += step) {
        const Py_ssize_t left = work->size - at, size = left < work->block ? left : work->block;
        if (!encode_block(codec, work->values + at, size, work->came ? work->came + there : NULL,
                          work->wire + there, work->lost ? work->lost + at : NULL,
                          work->mean ? work->mean + at : NULL, work))
            return 0;
    }
    return 1;
}

EACH void decode_all(int codec, const Work *work)
{
    const int width = width_of(codec);
    const uint8_t *wire = work->came;
    for (Py_ssize_t at = 0; at < work->size; at += work->block) {
        const Py_ssize_t left = work->size - at, size = left < work->block ? left : work->block;
        const __m256 scale = read_scale(codec, wire);
        float *values = work->values + at;
        Py_ssize_t i = 0;
        wire += HEADER;
        for (; i + LANES <= size; i += LANES)
            _mm256_storeu_ps(values + i, loaded(codec, wire + i * width, scale));
        if (i < size) {
            float room[LANES];
            uint8_t bytes[2 * LANES] = {0};
            memcpy(bytes, wire + i * width, (size - i) * width);
            _mm256_storeu_ps(room, loaded(codec, bytes, scale));
            memcpy(values + i, room, (size - i) * sizeof *values);
        }
        wire += size * width;
    }
}

/* One copy of the loops for each codec, without a choice inside of them. */
VECTOR static int encode_by(int codec, const Work *work)
{
    switch (codec) {
    case INT8: return encode_all(INT8, work);
    case HALF: return encode_all(HALF, work);
    default: return encode_all(BFLOAT16, work);
    }
}

VECTOR static void decode_by(int codec, const Work *work)
{
    switch (codec) {
    case INT8: decode_all(INT8, work); break;
    case HALF: decode_all(HALF, work); break;
    default: decode_all(BFLOAT16, work);
    }
}

static int is_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
}

#else

static int encode_by(int codec, const Work *work) { (void)codec, (void)work; return 0; }
static void decode_by(int codec, const Work *work) { (void)codec, (void)work; }
static int is_supported(void) { return 0; }

#endif

/* The buffers of a call's arguments: values, wire, came, lost, mean. */
enum { VALUES, WIRE, CAME, LOST, MEAN, BUFFERS };

static void release(Py_buffer *buffers)
{
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&buffers[i]); /* does nothing for one that was not taken */
}

static int take(PyObject *from, Py_buffer *buffer, Py_ssize_t nbytes, int writable)
{
    if (PyObject_GetBuffer(from, buffer, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0)
        return -1;
    if (nbytes >= 0 && buffer->len != nbytes) {
        PyErr_Format(PyExc_ValueError, "a buffer has %zd bytes in place of %zd", buffer->len, nbytes);
        return -1;
    }
    return 0;
}

/* Take the buffers that are not None, and limit the block to what there is; on failure nothing is
 * held. */
static int take_all(int codec, Py_ssize_t *block, PyObject *const *from, const int *writable,
                    Py_buffer *buffers)
{
    memset(buffers, 0, BUFFERS * sizeof *buffers);
    if (codec < INT8 || codec > BFLOAT16 || *block <= 0) {
        PyErr_SetString(PyExc_ValueError, "there is no such codec, or a block is empty");
        return -1;
    }
    if (from[WIRE] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "there is no buffer for what is encoded");
        return -1;
    }
    if (!is_supported()) {
        PyErr_SetString(PyExc_RuntimeError, "this processor lacks AVX2 or F16C");
        return -1;
    }
    if (take(from[VALUES], &buffers[VALUES], -1, writable[VALUES]) < 0)
        goto failed;
    const Py_ssize_t nbytes = buffers[VALUES].len, size = nbytes / (Py_ssize_t)sizeof(float);
    if (*block > size)
        *block = size > 0 ? size : 1;
    const Py_ssize_t encoded = size * width_of(codec) + (size + *block - 1) / *block * HEADER;
    for (int i = WIRE; i < BUFFERS; i++)
        if (from[i] != NULL && from[i] != Py_None &&
            take(from[i], &buffers[i], i == WIRE || i == CAME ? encoded : nbytes, writable[i]) < 0)
            goto failed;
    return 0;
failed:
    release(buffers);
    return -1;
}

PyDoc_STRVAR(encode_doc,
"encode(codec, block, values, wire, came, lost, mean, ranks)\n--\n\n"
"Encode single precision; false, and zeros everywhere, if a number is not finite.");

static PyObject *encode(PyObject *module, PyObject *arguments)
{
    static const int writable[BUFFERS] = {1, 1, 0, 1, 1};
    PyObject *from[BUFFERS] = {NULL};
    Py_buffer buffers[BUFFERS];
    int codec, ranks, finite;
    Py_ssize_t block;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "inOOOOOi", &codec, &block, &from[VALUES], &from[WIRE],
                          &from[CAME], &from[LOST], &from[MEAN], &ranks))
        return NULL;
    if (take_all(codec, &block, from, writable, buffers) < 0)
        return NULL;
    Work work = {
        .values = buffers[VALUES].buf, .came = buffers[CAME].buf, .wire = buffers[WIRE].buf,
        .lost = buffers[LOST].buf, .mean = buffers[MEAN].buf, .block = block,
        .size = buffers[VALUES].len / (Py_ssize_t)sizeof(float),
        .share = 1.0f / (float)ranks, .ranks = (float)ranks,
    };
    Py_BEGIN_ALLOW_THREADS
    finite = encode_by(codec, &work);
    if (!finite) {
        memset(work.wire, 0, buffers[WIRE].len);
        if (work.lost != NULL)
            memset(work.lost, 0, buffers[LOST].len);
        if (work.mean != NULL)
            memset(work.mean, 0, buffers[MEAN].len);
    }
    Py_END_ALLOW_THREADS
    release(buffers);
    return PyBool_FromLong(finite);
}

PyDoc_STRVAR(decode_doc,
"decode(codec, block, wire, values)\n--\n\n"
"Decode what encode has encoded.");

static PyObject *decode(PyObject *module, PyObject *arguments)
{
    static const int writable[BUFFERS] = {1, 0, 0, 0, 0};
    PyObject *from[BUFFERS] = {NULL};
    Py_buffer buffers[BUFFERS];
    int codec;
    Py_ssize_t block;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "inOO", &codec, &block, &from[WIRE], &from[VALUES]))
        return NULL;
    if (take_all(codec, &block, from, writable, buffers) < 0)
        return NULL;
    Work work = {
        .values = buffers[VALUES].buf, .came = buffers[WIRE].buf, .block = block,
        .size = buffers[VALUES].len / (Py_ssize_t)sizeof(float),
    };
    Py_BEGIN_ALLOW_THREADS
    decode_by(codec, &work);
    Py_END_ALLOW_THREADS
    release(buffers);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS, encode_doc},
    {"decode", decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module)
{
    if (add_sources(module) < 0 || PyModule_AddIntMacro(module, INT8) < 0 || PyModule_AddIntMacro(module, HALF) < 0 ||
        PyModule_AddIntMacro(module, BFLOAT16) < 0)
        return -1;
    PyObject *supported = PyBool_FromLong(is_supported());
    const int done = PyModule_AddObjectRef(module, "IS_SUPPORTED", supported);
    Py_DECREF(supported);
    return done;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "codec_kernels",
    .m_doc = "Codecs of gradients by the processor's vector instructions.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_codec_kernels(void) { return PyModuleDef_Init(&definition); }
