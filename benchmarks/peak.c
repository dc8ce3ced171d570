/* How many bytes a core multiplies in a second: one instruction from registers, again and again, in independent chains.
 *
 * With AVX-512 VNNI that is vpdpbusd, which also adds up to 32 bits. With AVX2 it is vpmaddubsw, which only adds two
 * products in 16 bits: whoever wants a sum of more needs another instruction for each, and `summed` is with that.
 */
#include <immintrin.h>
#include <stdint.h>

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) /* more than latency x throughput */
#define COUNT 12

__attribute__((target("avx512f,avx512vnni"))) static void vnni(int64_t steps)
{
#define ZERO(i) __m512i sum##i = _mm512_setzero_si512();
#define STEP(i) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(sum##i) : "v"(x));
    __m512i x = _mm512_set1_epi8(1);
    CHAINS(ZERO)
    for (int64_t i = 0; i < steps; i++) {
        CHAINS(STEP)
    }
#undef STEP
}

__attribute__((target("avx2"))) static void avx2(int64_t steps)
{
#define STEP(i) \
    { \
        __m256i product; \
        __asm__ volatile("vpmaddubsw %1, %1, %0" : "=x"(product) : "x"(x)); \
    }
    __m256i x = _mm256_set1_epi8(1);
    for (int64_t i = 0; i < steps; i++) {
        CHAINS(STEP)
    }
}

/* Two products before both additions: in turns they are slower (src/_native/tiles_grouped.h). */
__attribute__((target("avx2"))) static void avx2_summed(int64_t steps)
{
#define SUM(i) __m256i sum##i = _mm256_setzero_si256();
#define PAIR(i, j) \
    { \
        __m256i p, q; \
        __asm__ volatile("vpmaddubsw %4, %4, %2\n\tvpmaddubsw %4, %4, %3\n\t" \
                         "vpaddw %2, %0, %0\n\tvpaddw %3, %1, %1" \
                         : "+x"(sum##i), "+x"(sum##j), "=&x"(p), "=&x"(q) \
                         : "x"(x)); \
    }
    __m256i x = _mm256_set1_epi8(1);
    CHAINS(SUM)
    for (int64_t i = 0; i < steps; i++) {
        PAIR(0, 1) PAIR(2, 3) PAIR(4, 5) PAIR(6, 7) PAIR(8, 9) PAIR(10, 11)
    }
}

/* Spends `steps` steps on the calling thread; returns the operations done, two for each multiply-add. */
int64_t peak_run(int64_t steps, int summed)
{
    if (__builtin_cpu_supports("avx512vnni")) {
        vnni(steps);
        return steps * COUNT * 64 * 2;
    }
    (summed ? avx2_summed : avx2)(steps);
    return steps * COUNT * 32 * 2;
}
