/* Sums of products of 16-bit pairs, two vectors of them by four numbers, step by step: with AVX2 both scores and the mixing
 * of values are these. asm, since gcc would copy each sum after adding to it, and both products before both additions,
 * since in turns they are slower.
 */
#define DOTS_STEP(d, gap) \
    "vpbroadcastd " #d "*" #gap "(%[numbers]), %[y]\n\t" \
    "vpmaddwd %[y], %[one], %[x]\n\t" \
    "vpmaddwd %[y], %[two], %[y]\n\t" \
    "vpaddd %[x], %[a" #d "], %[a" #d "]\n\t" \
    "vpaddd %[y], %[b" #d "], %[b" #d "]\n\t"

/* Adds to a0..a3 and b0..b3 what `count` steps give: vectors lie one after the other, the numbers of a step are `gap` bytes
 * apart, and those of the next one begin `step` bytes further. */
#define DOTS(from, by, count, gap, step) \
    { \
        const int32_t *vector = (from), *number = (by); \
        ptrdiff_t left = count; \
        vi one, two, x, y; \
        __asm__("1:\n\t" \
                "vmovdqu (%[vectors]), %[one]\n\t" \
                "vmovdqu 32(%[vectors]), %[two]\n\t" \
                "add $64, %[vectors]\n\t" \
                DOTS_STEP(0, gap) DOTS_STEP(1, gap) DOTS_STEP(2, gap) DOTS_STEP(3, gap) \
                "add $" #step ", %[numbers]\n\t" \
                "dec %[left]\n\t" \
                "jne 1b" \
                : [a0] "+x"(a0), [a1] "+x"(a1), [a2] "+x"(a2), [a3] "+x"(a3), [b0] "+x"(b0), [b1] "+x"(b1), \
                  [b2] "+x"(b2), [b3] "+x"(b3), [one] "=&x"(one), [two] "=&x"(two), [x] "=&x"(x), [y] "=&x"(y), \
                  [vectors] "+r"(vector), [numbers] "+r"(number), [left] "+r"(left) \
                : \
                : "memory", "cc"); \
    }
