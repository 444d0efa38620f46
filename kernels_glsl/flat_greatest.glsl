/* flat_greatest.glsl - for flat kernels whose group, of SUBGROUPS, takes a row: the greatest of whole numbers. The file
 * before it declares SUBGROUPS. */

shared uint partial[SUBGROUPS];

/* Of all lanes. `subgroup` is known. */
uint greatest_of_group(uint subgroup, uint most)
{
    [[unroll]] for (uint distance = FLAT_LANES / 2; distance > 0; distance /= 2)
        most = max(most, subgroupShuffle(most, gl_SubgroupInvocationID ^ distance));
    partial[subgroup] = most;
    barrier();
    [[unroll]] for (uint i = 0; i < SUBGROUPS; i++)
        most = max(most, partial[i]);
    return most;
}
