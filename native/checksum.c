/* Sum up a snapshot's files: the CRC-32 of zlib, with the processor's multiplication of polynomials.
 *
 * The bytes are a polynomial, and the sum is what it leaves when divided by that of the CRC. This
 * stays the same if a block is added further on, multiplied by what its distance leaves. So blocks
 * are folded onto those that follow them, until the last 16 bytes are divided by a table:
 * <https://www.intel.com/content/dam/www/public/us/en/documents/white-papers/fast-crc-computation-generic-polynomials-pclmulqdq-paper.pdf>
 */
#include "module.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define POLYNOMIAL 0xedb88320u /* of zlib: the lowest bit is of the highest power */
#define WAYS 4                 /* sums at a time, as a product is late by some cycles */
#define NARROW (WAYS * sizeof(__m128i))
#define WIDE (WAYS * sizeof(__m512i))
#define ALONE_BYTES (64 * 1024) /* from which on other threads of Python may run */
#define NARROW_CODE __attribute__((target("pclmul,sse2")))
#define WIDE_CODE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse2")))

/* What folds 16 bytes over so many. */
typedef struct {
    uint64_t first, second;
} Fold;

static uint32_t table[256];
static Fold over_block, over_narrow, over_wide;
static int is_wide;

static uint32_t times_x(uint32_t value) { return (value >> 1) ^ (value & 1 ? POLYNOMIAL : 0); }

/* Return what a power of x leaves. */
static uint64_t left_of(size_t power)
{
    uint32_t value = 1u << 31;
    while (power-- > 0)
        value = times_x(value);
    return (uint64_t)value << 1;
}

static Fold fold_over(size_t bytes)
{
    return (Fold){left_of(8 * bytes + 32), left_of(8 * bytes - 32)};
}

static void prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        table[byte] = byte;
        for (int bit = 0; bit < 8; bit++)
            table[byte] = times_x(table[byte]);
    }
    over_block = fold_over(sizeof(__m128i));
    over_narrow = fold_over(NARROW);
    over_wide = fold_over(WIDE);
}

static uint32_t sum_by_table(const uint8_t *bytes, size_t count, uint32_t sum)
{
    while (count-- > 0)
        sum = (sum >> 8) ^ table[(sum ^ *bytes++) & 0xff];
    return sum;
}

NARROW_CODE static __m128i loaded(Fold fold)
{
    return _mm_set_epi64x((long long)fold.second, (long long)fold.first);
}

NARROW_CODE static inline __m128i folded(__m128i sum, __m128i fold, __m128i next)
{
    const __m128i first = _mm_clmulepi64_si128(sum, fold, 0x00);
    const __m128i second = _mm_clmulepi64_si128(sum, fold, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

/* Sum up at least NARROW bytes. */
NARROW_CODE static uint32_t sum_narrow(const uint8_t *bytes, size_t count, uint32_t sum)
{
    const __m128i *block = (const __m128i *)bytes, far = loaded(over_narrow), near = loaded(over_block);
    __m128i sums[WAYS];
    for (int way = 0; way < WAYS; way++)
        sums[way] = _mm_loadu_si128(block++);
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)sum));
    for (count -= NARROW; count >= NARROW; count -= NARROW)
        for (int way = 0; way < WAYS; way++)
            sums[way] = folded(sums[way], far, _mm_loadu_si128(block++));
    __m128i last = sums[0];
    for (int way = 1; way < WAYS; way++)
        last = folded(last, near, sums[way]);
    for (; count >= sizeof last; count -= sizeof last)
        last = folded(last, near, _mm_loadu_si128(block++));
    uint8_t left[sizeof last];
    _mm_storeu_si128((__m128i *)left, last);
    return sum_by_table((const uint8_t *)block, count, sum_by_table(left, sizeof left, 0));
}

/* Sum up at least WIDE bytes. */
WIDE_CODE static uint32_t sum_wide(const uint8_t *bytes, size_t count, uint32_t sum)
{
    const __m512i far = _mm512_broadcast_i32x4(loaded(over_wide));
    __m512i sums[WAYS];
    for (int way = 0; way < WAYS; way++, bytes += sizeof far)
        sums[way] = _mm512_loadu_si512(bytes);
    sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)sum)));
    for (count -= WIDE; count >= WIDE; count -= WIDE)
        for (int way = 0; way < WAYS; way++, bytes += sizeof far) {
            const __m512i first = _mm512_clmulepi64_epi128(sums[way], far, 0x00);
            const __m512i second = _mm512_clmulepi64_epi128(sums[way], far, 0x11);
            const __m512i moved = _mm512_xor_si512(first, second);
            sums[way] = _mm512_xor_si512(moved, _mm512_loadu_si512(bytes));
        }
    uint8_t left[WIDE];
    memcpy(left, sums, sizeof left);
    sum = sum_narrow(left, sizeof left, 0);
    return count < NARROW ? sum_by_table(bytes, count, sum) : sum_narrow(bytes, count, sum);
}

static uint32_t sum_up(const uint8_t *bytes, size_t count, uint32_t sum)
{
    if (is_wide && count >= WIDE)
        return sum_wide(bytes, count, sum);
    return count < NARROW ? sum_by_table(bytes, count, sum) : sum_narrow(bytes, count, sum);
}

static PyObject *crc32(PyObject *self, PyObject *arguments)
{
    (void)self;
    Py_buffer data;
    unsigned int value = 0;
    if (!PyArg_ParseTuple(arguments, "y*|I", &data, &value))
        return NULL;
    if (data.len < ALONE_BYTES) {
        value = ~sum_up(data.buf, (size_t)data.len, ~value);
    } else {
        Py_BEGIN_ALLOW_THREADS
        value = ~sum_up(data.buf, (size_t)data.len, ~value);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(value);
}

static PyMethodDef methods[] = {
    {"crc32", crc32, METH_VARARGS, "Return the checksum of data after those of a checksum."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module)
{
    if (!__builtin_cpu_supports("pclmul")) {
        PyErr_SetString(PyExc_ImportError, "this processor multiplies no polynomials");
        return -1;
    }
    is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    prepare();
    return add_sources(module);
}

#else

static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};

static int fill(PyObject *module)
{
    (void)module;
    PyErr_SetString(PyExc_ImportError, "it is for other processors");
    return -1;
}

#endif

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "checksum",
    .m_doc = "Checksums by the processor's multiplication of polynomials.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_checksum(void) { return PyModuleDef_Init(&definition); }
