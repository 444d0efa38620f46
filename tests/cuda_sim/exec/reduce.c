/* reduce.c - the arithmetic of cp.reduce.async.bulk on memory that other workers use at the same time.
 * Facts: PTX ISA "cp.reduce.async.bulk" (operations and their types; the additions round to nearest even, f16 and bf16
 * keep subnormal numbers, f32 in global memory flushes none either: "atom", add.f32). */
#include "bulk.h"
#include "numeric.h"

bool reduce_is_known(bulk_reduce reduce, ptx_type type)
{
    bool word = ptx_type_size(type) == 4, wide = ptx_type_size(type) == 8, half = type == PTX_F16 || type == PTX_BF16;
    bool is_signed = ptx_type_is_signed(type), is_float = ptx_type_is_float(type);
    switch (reduce) {
    case BULK_COPY:
        return true;
    case BULK_ADD:
        return half || type == PTX_F32 || type == PTX_F64 || ((word || wide) && !is_float);
    case BULK_MIN:
    case BULK_MAX:
        return half || ((word || wide) && !is_float);
    case BULK_INC:
    case BULK_DEC:
        return word && !is_float && !is_signed;
    case BULK_AND:
    case BULK_OR:
    case BULK_XOR:
        return (word || wide) && !is_float;
    }
    return false;
}

static double decode(ptx_type type, uint64_t bits)
{
    switch ((int)type) {
    case PTX_F16:
        return sim_decode_f16((uint32_t)bits);
    case PTX_BF16:
        return sim_decode_bf16((uint32_t)bits);
    case PTX_F32:
        return sim_float((uint32_t)bits);
    default:
        return sim_double(bits);
    }
}

static uint64_t float_result(bulk_reduce reduce, ptx_type type, uint64_t old, uint64_t with)
{
    double a = decode(type, old), b = decode(type, with);
    if (reduce == BULK_ADD) {
        return type == PTX_F64 ? sim_bits64(a + b) : sim_encode(sim_odd_add(a, b), type, SIM_RN, false);
    }
    /* A number wins over NaN, and -0 is less than +0. */
    if (a != a || b != b) {
        return a != a ? with : old;
    }
    bool less = a < b || (a == b && signbit(a));
    return less == (reduce == BULK_MIN) ? old : with;
}

static uint64_t integer_result(bulk_reduce reduce, ptx_type type, uint64_t old, uint64_t with)
{
    bool is_signed = ptx_type_is_signed(type), wide = ptx_type_size(type) == 8;
    int64_t a = wide ? (int64_t)old : (int32_t)old, b = wide ? (int64_t)with : (int32_t)with;
    bool less = is_signed ? a < b : old < with;
    switch (reduce) {
    case BULK_COPY:
        break;
    case BULK_ADD:
        return old + with;
    case BULK_MIN:
        return less ? old : with;
    case BULK_MAX:
        return less ? with : old;
    case BULK_INC:
        return old >= with ? 0 : old + 1;
    case BULK_DEC:
        return old == 0 || old > with ? with : old - 1;
    case BULK_AND:
        return old & with;
    case BULK_OR:
        return old | with;
    case BULK_XOR:
        return old ^ with;
    }
    return with;
}

static uint64_t result(bulk_reduce reduce, ptx_type type, uint64_t old, uint64_t with)
{
    return ptx_type_is_float(type) ? float_result(reduce, type, old, with) : integer_result(reduce, type, old, with);
}

static void reduce_16(bulk_reduce reduce, ptx_type type, uint16_t *to, uint16_t with)
{
    uint16_t old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(to, &old, (uint16_t)result(reduce, type, old, with), false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

static void reduce_32(bulk_reduce reduce, ptx_type type, uint32_t *to, uint32_t with)
{
    uint32_t old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(to, &old, (uint32_t)result(reduce, type, old, with), false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

static void reduce_64(bulk_reduce reduce, ptx_type type, uint64_t *to, uint64_t with)
{
    uint64_t old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(to, &old, result(reduce, type, old, with), false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

void reduce_span(bulk_reduce reduce, ptx_type type, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    uint32_t size = ptx_type_size(type);
    if (reduce == BULK_COPY) {
        memcpy(to, from, bytes);
        return;
    }
    for (uint32_t at = 0; at < bytes; at += size) {
        uint64_t with = 0;
        memcpy(&with, from + at, size);
        void *place = to + at;
        switch (size) {
        case 2:
            reduce_16(reduce, type, place, (uint16_t)with);
            break;
        case 4:
            reduce_32(reduce, type, place, (uint32_t)with);
            break;
        default:
            reduce_64(reduce, type, place, with);
            break;
        }
    }
}
