/* gemm_mma_any.cuh - the tensor-core GEMM with every option of gemm_any but strict sums: E4M3 operands, scales, D
 * transposed or E4M3, SwiGLU. sm_80 and up.
 *
 * FP16 and BF16 are multiplied as gemm_mma does it. E4M3 is copied as it lies, by cp.async, into a ring in which each
 * thread has 16 codes of A and of B a stage, of its own; one slice ahead of the products they become FP16, exactly, and
 * go where gemm_mma would have them. There are two such slices: one is multiplied while the other is made. A code is
 * widened once for all warps: at a fragment's load it would be for each warp of a row or column of warps. */
#ifndef HAL_GEMM_MMA_ANY_CUH
#define HAL_GEMM_MMA_ANY_CUH

#include "gemm_any.cuh"
#include "gemm_mma.cuh"

/* FP16 of four codes, 2^8 times too small: exponent and mantissa where FP16 has theirs, so that subnormal numbers are
 * subnormal. The code of NaN, and no other, carries into the exponent's upper bit, and all its bits are set. */
__device__ __forceinline__ void widen_codes(uint32_t codes, uint32_t &low, uint32_t &high)
{
    const uint32_t carried = (codes & 0x7f7f7f7fu) + 0x01010101u;
    const uint32_t rest = (carried & 0x80808080u) | (codes & 0x7f7f7f7fu);
    low = (__byte_perm(codes, 0, 0x1404) & 0x80008000u) | __byte_perm(rest, 0, 0x1404) >> 1;
    high = (__byte_perm(codes, 0, 0x3424) & 0x80008000u) | __byte_perm(rest, 0, 0x3424) >> 1;
}

__device__ __forceinline__ uint4 read_words(uint32_t from)
{
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from)
                 : "memory");
    return words;
}

__device__ __forceinline__ void write_words(uint32_t to, const uint4 &words)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
                 : "memory");
}

/* A thread's 16 codes of each slice of an operand: EXTENT rows of A (or columns of B) by DEPTH of k. */
template <bool DEEP, int EXTENT, int DEPTH, int THREADS> struct CodeSlice {
    typedef MmaSlice<DEEP, EXTENT, DEPTH, THREADS> Place; /* where they go as FP16 */
    static const uint32_t WIDE = Place::BYTES;
    static const int CHUNKS = DEEP ? DEPTH / 16 : 4; /* that neighbouring threads copy of a line */
    static_assert(EXTENT * DEPTH == THREADS * 16 && DEPTH == 32, "each of 16 codes; 128 threads for 64 of each line");

    const uint8_t *next;
    uint64_t step;        /* bytes to the next slice */
    uint32_t line, chunk; /* in a slice */
    uint32_t left;        /* rows or columns of the matrix from this thread's first on */
    bool wide;            /* cp.async can copy it */

    /* This thread's first row of A or column of B in the tile. Stores of eight neighbours fall on all 32 banks. */
    static __device__ __forceinline__ uint32_t spot()
    {
        return DEEP ? threadIdx.x / CHUNKS : (threadIdx.x % 4 + threadIdx.x / 128 * 4) * 16;
    }

    /* `index`: the row or column of the matrix that is spot() of the tile. */
    __device__ __forceinline__ CodeSlice(const uint8_t *matrix, uint64_t ld, uint32_t index, uint32_t size)
        : step(DEEP ? DEPTH : DEPTH * ld), line(DEEP ? spot() : threadIdx.x / 4 % DEPTH),
          chunk(DEEP ? threadIdx.x % CHUNKS : spot() / 16), left(index < size ? size - index : 0)
    {
        next = DEEP ? matrix + index * ld + chunk * 16 : matrix + line * ld + index;
        wide = (((uintptr_t)matrix | ld) & 15) == 0;
    }

    /* Start copying the next slice; `depth` of k are left at it. Outside the matrix there are zeros. */
    __device__ __forceinline__ void fetch(uint32_t to, uint32_t depth)
    {
        const uint32_t before = DEEP ? chunk * 16 : line, there = depth > before ? depth - before : 0;
        const uint32_t count = DEEP ? (left ? min(there, 16u) : 0) : (there ? min(left, 16u) : 0);
        if (wide)
            copy_async(to, next, count);
        else
            copy_codes(to, count);
        next += step;
    }

    __device__ __forceinline__ void write(uint32_t slice, const uint4 &codes) const
    {
        uint4 low, high;
        widen_codes(codes.x, low.x, low.y);
        widen_codes(codes.y, low.z, low.w);
        widen_codes(codes.z, high.x, high.y);
        widen_codes(codes.w, high.z, high.w);
        write_words(slice + Place::at(line, 2 * chunk), low);
        write_words(slice + Place::at(line, 2 * chunk + 1), high);
    }

  private:
    __device__ __forceinline__ void copy_codes(uint32_t to, uint32_t count) const
    {
        uint32_t word[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            word[i] = 0;
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                word[i] |= 4 * i + j < count ? (uint32_t)next[4 * i + j] << 8 * j : 0;
        }
        write_words(to, make_uint4(word[0], word[1], word[2], word[3]));
    }
};

/* All products of a warp, from codes: STAGES slices of them, behind two of FP16. */
template <int STAGES, int STEPS, class CODES_A, class CODES_B, class WARP, int ROWS, int BLOCKS>
__device__ __forceinline__ void multiply_codes(CODES_A a, CODES_B b, const WARP &products, uint32_t shared, uint32_t k,
                                               float (&sum)[ROWS][BLOCKS][4])
{
    const uint32_t DEPTH = 16 * STEPS, WIDE_A = CODES_A::WIDE, WIDE = WIDE_A + CODES_B::WIDE, STAGE = WIDE / 2;
    const uint32_t slices = (k + DEPTH - 1) / DEPTH;
    const uint32_t ring = shared + 2 * WIDE + threadIdx.x * 16, last = ring + (STAGES - 1) * STAGE;
    static_assert(STEPS == 2, "half of the next slice is made behind each step");
#pragma unroll 1
    for (uint32_t s = 0; s < STAGES - 1; s++) {
        if (s < slices) {
            a.fetch(ring + s * STAGE, k - s * DEPTH);
            b.fetch(ring + s * STAGE + WIDE_A / 2, k - s * DEPTH);
        }
        copy_async_commit(); /* empty at the end, so that the count below stays right */
    }
    copy_async_wait<STAGES - 2>();
    a.write(shared, read_words(ring));
    b.write(shared + WIDE_A, read_words(ring + WIDE_A / 2));

    uint32_t stage = ring, free_stage = last, wide = shared, other = shared + WIDE;
#pragma unroll 1
    for (uint32_t s = 0; s < slices; s++) {
        __syncthreads(); /* slice s is there for all, and all are done with the one before */
        if (s + STAGES - 1 < slices) {
            a.fetch(free_stage, k - (s + STAGES - 1) * DEPTH);
            b.fetch(free_stage + WIDE_A / 2, k - (s + STAGES - 1) * DEPTH);
        }
        copy_async_commit();
        free_stage = stage;
        stage = stage == last ? ring : stage + STAGE;
        copy_async_wait<STAGES - 2>();
        uint4 codes_a = make_uint4(0, 0, 0, 0), codes_b = codes_a;
        if (s + 1 < slices) {
            codes_a = read_words(stage);
            codes_b = read_words(stage + WIDE_A / 2);
        }
        products.multiply_step(F16(), sum, wide, wide + WIDE_A, 0);
        a.write(other, codes_a);
        products.multiply_step(F16(), sum, wide, wide + WIDE_A, 1);
        b.write(other + WIDE_A, codes_b);
        const uint32_t made = other;
        other = wide;
        wide = made;
    }
    __syncthreads(); /* the epilogue uses the memory */
}

/* Four neighbours of a row of D or, where that is transposed, of a column: the steps of AnyOutput, each rounded. UNIT:
 * what sums are multiplied by first. */
template <uint32_t UNIT> struct MmaAnyOutput : GemmOutput {
    const float *scale_a, *scale_b, *scale_d;
    const hal_gemm_args &args;
    bool down;

    __device__ __forceinline__ MmaAnyOutput(ALL_SPANS, const hal_gemm_args &args_, uint32_t problem)
        : GemmOutput(args_, c, d, bias, residual, problem),
          scale_a(scale_a + problem * HAL_JOIN64(args_.stride_scale_a)),
          scale_b(scale_b + problem * HAL_JOIN64(args_.stride_scale_b)),
          scale_d(scale_d + problem * HAL_JOIN64(args_.stride_scale_d)), args(args_),
          down((args_.flags & GEMM_TRANS_D) != 0)
    {
    }

    /* `up`: what SwiGLU multiplies by. */
    __device__ __forceinline__ void finish(uint32_t row, uint32_t column, float (&value)[4], float (&up)[4]) const
    {
        if (row >= m || column >= n)
            return;
        const uint32_t count = min(down ? m - row : n - column, 4u);
        const bool four = wide && count == 4;
        scale(row, column, count, 0, value);
        if (args.flags & GEMM_PAIR) {
            scale(row, column, count, 1, up);
            gate(value, up);
        }
        combine_each(row, column, count, four, value);
        if (type_d == HAL_KERNEL_F8E4M3)
            round_four(value);
        const uint64_t at = down ? column * ldd + row : row * ldd + column;
        if (GEMM_SCALE_D(args.flags))
            store_codes(at, row, count, four, value);
        else
            store(at, count, four, value);
    }

  private:
    __device__ __forceinline__ void scale(uint32_t row, uint32_t column, uint32_t count, uint32_t part,
                                          float (&value)[4]) const
    {
        const uint32_t of_a = GEMM_SCALE_A(args.flags), of_b = GEMM_SCALE_B(args.flags);
        const bool alternate = (args.flags & GEMM_INTERLEAVED) != 0;
        const uint32_t next = alternate ? 2 : 1, first = column * next + part * (alternate ? 1 : n);
        float by_a = 0, by_b = 0;
        if (of_a)
            by_a = scale_a[of_a == GEMM_SCALE_EACH ? row : 0];
        if (of_b)
            by_b = scale_b[of_b == GEMM_SCALE_EACH ? first : alternate ? 0 : part];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (i > 0 && i < count && down && of_a == GEMM_SCALE_EACH)
                by_a = scale_a[row + i];
            if (i > 0 && i < count && !down && of_b == GEMM_SCALE_EACH)
                by_b = scale_b[first + i * next];
            value[i] = HM_MUL(value[i], (float)UNIT);
            if (of_a)
                value[i] = HM_MUL(value[i], by_a);
            if (of_b)
                value[i] = HM_MUL(value[i], by_b);
            value[i] = HM_MUL(alpha, value[i]);
        }
    }

    __device__ __forceinline__ void gate(float (&value)[4], float (&up)[4]) const
    {
        round_four(value);
        round_four(up);
#pragma unroll 1
        for (uint32_t i = 0; i < 4; i++) {
            const float x = hm_fast_times_sigmoid(value[0], HM_MUL(args.swiglu_alpha, value[0]));
            turn(value, HM_MUL(round_to(between, x), up[0]));
            turn(up, up[0]);
        }
    }

    /* The first goes, the others move up, `last` comes last. */
    static __device__ __forceinline__ void turn(float (&value)[4], float last)
    {
        value[0] = value[1], value[1] = value[2], value[2] = value[3], value[3] = last;
    }

    /* Of a column, one row after the other. */
    __device__ __forceinline__ void combine_each(uint32_t row, uint32_t column, uint32_t count, bool four,
                                                 float (&value)[4]) const
    {
#pragma unroll 1
        for (uint32_t i = 0; i < (down ? 4u : 1u); i++) {
            float now[4] = {value[0], value[1], value[2], value[3]};
            if (i < count)
                combine(row + i, column, down ? 1 : count, four && !down, now);
#pragma unroll
            for (int j = 0; j < 4; j++)
                value[j] = !down ? now[j] : j < 3 ? value[j + 1] : now[0];
        }
    }

    __device__ __forceinline__ void store_codes(uint64_t at, uint32_t row, uint32_t count, bool four,
                                                float (&value)[4]) const
    {
        uint32_t codes = 0;
        float by = scale_d[row];
#pragma unroll 1
        for (uint32_t i = 0; i < count; i++) {
            if (down)
                by = scale_d[row + i];
            codes |= hm_quantize(value[0], by) << 8 * i;
            turn(value, value[0]);
        }
        if (four) {
            *(uint32_t *)((uint8_t *)d + at) = codes;
            return;
        }
#pragma unroll 1
        for (uint32_t i = 0; i < count; i++)
            ((uint8_t *)d)[at + i] = (uint8_t)(codes >> 8 * i);
    }
};

/* Four sums of a row. */
template <int WARP_N>
__device__ __forceinline__ void held_four(const float *held, uint32_t row, uint32_t column, float (&value)[4])
{
    const float4 four = *(const float4 *)(held + mma_place<WARP_N>(row, column));
    value[0] = four.x, value[1] = four.y, value[2] = four.z, value[3] = four.w;
}

/* A warp's sums go through its part of shared memory, all at once: the options need the registers. SwiGLU's gate and up
 * have 16 columns each, or alternate. */
template <int WARP_M, int WARP_N, class OUTPUT>
__device__ __forceinline__ void mma_finish_any(const OUTPUT &output, const float (&sum)[WARP_M / 16][WARP_N / 8][4],
                                               float *shared, uint32_t row, uint32_t column, bool pair, bool alternate)
{
    const uint32_t width = pair ? WARP_N / 2 : WARP_N; /* columns of D */
    float *held = shared + threadIdx.x / 32 * WARP_M * WARP_N;
    static_assert(WARP_N == 32, "a lane has a column where D is transposed");
#pragma unroll
    for (int i = 0; i < WARP_M / 16; i++)
        mma_keep<WARP_N>(sum[i], shared_address(held + i * 16 * WARP_N));
    __syncwarp();
#pragma unroll 1
    for (uint32_t i = threadIdx.x % 32; i < WARP_M / 4 * width; i += 32) {
        const uint32_t x = output.down ? i % width : i * 4 % width;
        uint32_t r = output.down ? i / width * 4 : i * 4 / width;
        if (pair && !output.down) /* half rows of neighbours but one fall on all banks */
            r = (r & ~3u) | (r & 1) << 1 | (r >> 1 & 1);
        float value[4], up[4] = {};
        if (output.down) {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                value[j] = held[mma_place<WARP_N>(r + j, alternate ? 2 * x : x)];
                if (pair)
                    up[j] = held[mma_place<WARP_N>(r + j, alternate ? 2 * x + 1 : x + width)];
            }
        } else {
            held_four<WARP_N>(held, r, alternate ? 2 * x : x, value);
            if (pair)
                held_four<WARP_N>(held, r, alternate ? 2 * x + 4 : x + width, up);
            if (alternate) {
                const float first[4] = {value[0], value[2], up[0], up[2]};
                const float second[4] = {value[1], value[3], up[1], up[3]};
#pragma unroll
                for (int j = 0; j < 4; j++)
                    value[j] = first[j], up[j] = second[j];
            }
        }
        output.finish(row + r, column + x, value, up);
    }
}

/* Where a thread's part of B lies, which is `spot` columns into a tile of TILE_N. Columns for an element of D are one,
 * or gate and up: 16 of each in turn in the tile, from wherever they lie, or each in turn where a row of B has them so.
 */
template <class BITS, bool TRANS_B, int TILE_N> struct AnyColumns {
    bool pair, alternate;
    GemmPlace place;
    const BITS *matrix;
    uint64_t ld;
    uint32_t first, size; /* of the tile in the matrix, and of that */
    uint32_t back;        /* how much closer than `spot` to the first the thread's is */

    __device__ __forceinline__ AnyColumns(const void *b, const void *up, const hal_gemm_args &args, uint32_t tile_m,
                                          uint32_t spot)
        : ld(HAL_JOIN64(args.ldb))
    {
        const bool interleaved = (args.flags & GEMM_INTERLEAVED) != 0;
        pair = (args.flags & GEMM_PAIR) != 0, alternate = interleaved && !TRANS_B;
        place = gemm_place(args, tile_m, pair ? TILE_N / 2 : TILE_N);
        const bool split = pair && !alternate, second = split && spot / 16 % 2;
        matrix = gemm_operand<BITS>(second && !interleaved ? up : b, args.stride_b, place.problem) +
                 (second && interleaved ? ld : 0);
        ld *= split && interleaved ? 2 : 1;
        first = place.column * (alternate ? 2 : 1), size = args.n * (alternate ? 2 : 1);
        back = split ? (spot + 16) / 32 * 16 : 0;
    }
};

/* MmaSlice for such columns. */
template <bool DEEP, int EXTENT, int DEPTH, int THREADS> struct AnySlice : MmaSlice<DEEP, EXTENT, DEPTH, THREADS> {
    typedef MmaSlice<DEEP, EXTENT, DEPTH, THREADS> Slice;
    typedef AnyColumns<uint16_t, DEEP, EXTENT> Columns;
    static_assert(!DEEP || Slice::STEP % 32 == 0, "a thread's lines are all of gate, or all of up");

    static __device__ __forceinline__ uint32_t spot()
    {
        return DEEP ? threadIdx.x / Slice::CHUNKS : threadIdx.x % Slice::CHUNKS * 8;
    }

    __device__ __forceinline__ AnySlice(const Columns &c)
        : Slice(c.matrix - c.back * (DEEP ? c.ld : 1), c.ld, c.first, c.size + c.back)
    {
        if (DEEP && c.pair)
            this->apart /= 2;
    }
};

template <class TYPE, bool TRANS_A, bool TRANS_B, int TILE_M, int TILE_N, int TILE_K, int WARP_M, int WARP_N,
          int STAGES>
__device__ __forceinline__ void gemm_mma_any(ALL_SPANS, const hal_gemm_args &args)
{
    const int THREADS = 32 * (TILE_M / WARP_M) * (TILE_N / WARP_N);
    typedef MmaSlice<!TRANS_A, TILE_M, TILE_K, THREADS> SliceA;
    typedef AnySlice<TRANS_B, TILE_N, TILE_K, THREADS> SliceB;
    static_assert(STAGES * (TILE_M + TILE_N) * TILE_K * 2 >= TILE_M * TILE_N * sizeof(float), "the sums fit");
    const typename SliceB::Columns columns(b, up, args, TILE_M, SliceB::spot());
    const GemmPlace &place = columns.place;
    mma_tile<TYPE, TRANS_A, TRANS_B, TILE_M, TILE_N, TILE_K, WARP_M, WARP_N, STAGES>(
        SliceA(gemm_operand<uint16_t>(a, args.stride_a, place.problem), HAL_JOIN64(args.lda), place.row, args.m),
        SliceB(columns), args.k,
        [&](const float(&sum)[WARP_M / 16][WARP_N / 8][4], float *shared, uint32_t row, uint32_t column) {
            const MmaAnyOutput<1> output(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args,
                                         place.problem);
            mma_finish_any<WARP_M, WARP_N>(output, sum, shared, place.row + row,
                                           place.column + (columns.pair ? column / 2 : column), columns.pair,
                                           columns.alternate);
        });
}

template <bool TRANS_A, bool TRANS_B, int TILE_M, int TILE_N, int TILE_K, int WARP_M, int WARP_N, int STAGES>
__device__ __forceinline__ void gemm_mma_codes(ALL_SPANS, const hal_gemm_args &args)
{
    const int WARPS_M = TILE_M / WARP_M, THREADS = 32 * WARPS_M * (TILE_N / WARP_N);
    typedef CodeSlice<!TRANS_A, TILE_M, TILE_K, THREADS> CodesA;
    typedef CodeSlice<TRANS_B, TILE_N, TILE_K, THREADS> CodesB;
    static_assert((STAGES + 4) * (TILE_M + TILE_N) * TILE_K >= TILE_M * TILE_N * sizeof(float), "the sums fit");
    extern __shared__ __align__(128) uint8_t gemm_shared[];

    const AnyColumns<uint8_t, TRANS_B, TILE_N> columns(b, up, args, TILE_M, CodesB::spot());
    const GemmPlace &place = columns.place;
    const uint32_t warp = threadIdx.x / 32, warp_row = warp % WARPS_M * WARP_M;
    const uint32_t warp_column = warp / WARPS_M * WARP_N;
    float sum[WARP_M / 16][WARP_N / 8][4] = {};
    multiply_codes<STAGES, TILE_K / 16>(
        CodesA(gemm_operand<uint8_t>(a, args.stride_a, place.problem), HAL_JOIN64(args.lda), place.row + CodesA::spot(),
               args.m),
        CodesB(columns.matrix, columns.ld, columns.first + CodesB::spot() - columns.back, columns.size),
        MmaWarp<TRANS_A, TRANS_B, typename CodesA::Place, typename CodesB::Place>(warp_row, warp_column),
        shared_address(gemm_shared), args.k, sum);

    const MmaAnyOutput<65536> output(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args, place.problem);
    mma_finish_any<WARP_M, WARP_N>(output, sum, (float *)gemm_shared, place.row + warp_row,
                                   place.column + (columns.pair ? warp_column / 2 : warp_column), columns.pair,
                                   columns.alternate);
}

#endif
