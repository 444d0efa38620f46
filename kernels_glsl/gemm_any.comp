/* gemm_any.comp - the GEMM with every option: E4M3 operands and output with scales, strict sums, SwiGLU, D transposed. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "gemm_any_tile.glsl"

void main()
{
    multiply_tile(gl_WorkGroupID.z + args.group_base[2], (gl_WorkGroupID.y + args.group_base[1]) * TILE,
                  (gl_WorkGroupID.x + args.group_base[0]) * TILE);
}
