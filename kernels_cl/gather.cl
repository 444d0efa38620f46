/* gather.cl - row ids[i] of a table becomes row i of y. Constants: DTYPE_T DTYPE_Y INT64, as flags say, THREADS of a
 * group (1 on CPU devices) and TILE, the columns that it takes. */
#include "kernel_convert.h"
#include "rows.clh"

#define SPANS                                                                                                          \
    global const uchar *t_span, ulong t_offset, global const uchar *ids_span, ulong ids_offset, global uchar *y_span,  \
        ulong y_offset

/* Negative ids are beyond any table. */
ulong id_of(global const int *ids, uint i)
{
    return INT64 ? (ulong)(uint)ids[2 * (ulong)i] | (ulong)(uint)ids[2 * (ulong)i + 1] << 32 : (ulong)(long)ids[i];
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void gather(SPANS, hal_gather_args args)
{
    const uint row = get_group_id(1) + args.group_base[1];
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE, end = min(column0 + TILE, args.columns);
    const ulong id = id_of((global const int *)(ids_span + ids_offset), row);
    const bool known = id < args.table_rows;
    const ulong t_row = (known ? id : 0) * JOIN(args.ldt), y_row = row * JOIN(args.ldy);
    for (uint c = column0 + 8 * get_local_id(0); c < end; c += 8 * THREADS) {
        const uint count = min(end - c, 8u);
        const float8 v = load_part8(t_span + t_offset, DTYPE_T, t_row + c, known ? count : 0, 0.0f);
        if (count == 8)
            stream_elements8(y_span + y_offset, DTYPE_Y, y_row + c, v);
        else
            store_part8(y_span + y_offset, DTYPE_Y, y_row + c, count, v);
    }
}
