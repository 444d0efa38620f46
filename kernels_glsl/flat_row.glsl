/* flat_row.glsl - for flat kernels whose group, of SUBGROUPS, takes a row: sums and greatest numbers of rows. The file
 * before it declares SUBGROUPS, at least 8, and RUNS of each; the file around it has vec4 summand(uint i, uint column):
 * four numbers to be added, zero beyond the row; with as many subgroups as add, they are in run 8 i + subgroup. */
#include "kernel_rows.h"

const uint ADDERS = 8; /* subgroups that add, each a quarter of a lane's partial sums */

shared vec4 sums[(ADDERS + 1) * FLAT_LANES], lane_sums[ADDERS + 1];
shared float maxima[SUBGROUPS];

float greater(float a, float b)
{
    return a > b ? a : b;
}

/* The greatest of what the lanes of all subgroups give. `subgroup` is known. */
float greatest_of_group(uint subgroup, float most)
{
    [[unroll]] for (uint i = 0; i < 3; i++) /* over a distance that is halved the loop would stay one */
        most = greater(subgroupShuffle(most, gl_SubgroupInvocationID ^ 1u << i), most);
    maxima[subgroup] = most;
    barrier();
    [[unroll]] for (uint i = 0; i < SUBGROUPS; i++)
        most = greater(maxima[i], most);
    return most;
}

vec4 summand(uint i, uint column);

/* By halving. */
vec4 tree_of_8(vec4 a, vec4 b, vec4 c, vec4 d, vec4 e, vec4 f, vec4 g, vec4 h)
{
    precise vec4 sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
    return sum;
}

/* A row's sum in the order of kernel_rows.h, once in a kernel. Subgroup s takes partial sums
 * 256 q + 32 s + 4 lane, q < 4, and their neighbours, so what is added first, over q, is its own. Then it takes lane
 * s of each subgroup: a load at an index that is known is cheap, one that differs between lanes is not. */
float sum_of_row(uint subgroup, uint columns)
{
    precise vec4 own[4], sum;
    [[unroll]] for (uint q = 0; q < 4; q++)
        own[q] = vec4(0.0);
    const uint first = gl_LocalInvocationID.y * FLAT_RUN + 4 * gl_SubgroupInvocationID;
    if (SUBGROUPS == ADDERS) {
        [[unroll]] for (uint i = 0; i < RUNS; i++)
            own[i % 4] += summand(i, i * (ROW_SUMS / 4) + first);
    } else if (gl_LocalInvocationID.y < ADDERS) { /* others take one turn with all lanes off */
        for (uint column = 0; column < columns; column += ROW_SUMS)
            [[unroll]] for (uint q = 0; q < 4; q++)
                own[q] += summand(0, column + q * (ROW_SUMS / 4) + first);
    }
    sum = (own[0] + own[2]) + (own[1] + own[3]);
    const uint adder = min(subgroup, ADDERS);
    [[unroll]] for (uint lane = 0; lane < FLAT_LANES; lane++)
        sums[adder * FLAT_LANES + lane] = subgroupShuffle(sum, lane);
    barrier();
    const uint lane = subgroup % FLAT_LANES;
    sum = tree_of_8(sums[lane], sums[8 + lane], sums[16 + lane], sums[24 + lane], sums[32 + lane], sums[40 + lane],
                    sums[48 + lane], sums[56 + lane]);
    lane_sums[adder] = sum;
    barrier();
    sum = tree_of_8(lane_sums[0], lane_sums[1], lane_sums[2], lane_sums[3], lane_sums[4], lane_sums[5], lane_sums[6],
                    lane_sums[7]);
    return (sum.x + sum.z) + (sum.y + sum.w);
}
