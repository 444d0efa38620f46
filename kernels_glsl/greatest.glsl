/* greatest.glsl - the greatest number of a group. The file before it declares THREADS, of a group. */

shared uint partial[THREADS];

/* The greatest `mine` of a group. To be called again behind a barrier. */
uint greatest(uint mine)
{
    const uint thread = gl_LocalInvocationIndex;
    partial[thread] = mine;
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier();
        if (thread < stride)
            partial[thread] = max(partial[thread], partial[thread + stride]);
    }
    barrier();
    return partial[0];
}
