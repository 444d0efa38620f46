/* own_gemm.c - the device's own matrix product as a peer: the measure of attention, and of sizes that fill no tile. */
#include "gemm.h"

#include <stdlib.h>

typedef struct product {
    bench_operand_data a, b;
    bench_problem problem;
    bench_job job;
    bench_stage stage;
    bool gpu; /* its clock counts */
} product;

static bool call(bench_peer *peer, uint32_t repeats, double *seconds)
{
    product *self = peer->state;
    bench_times times;
    if (!bench_stage_call(&self->stage, repeats, self->gpu, &times))
        return false;
    *seconds = bench_times_seconds(&times);
    return true;
}

static void close_peer(bench_peer *peer)
{
    product *self = peer->state;
    bench_stage_close(&self->stage);
    bench_operand_destroy(&self->a);
    bench_operand_destroy(&self->b);
    free(self);
}

void bench_own_gemm_peer(bench_peer *peer, const char *name, const bench_device *device, const bench_problem *problem,
                         bench_limit limit)
{
    product *self = calloc(1, sizeof *self);
    if (!self)
        return;
    *peer = (bench_peer){.name = name, .call = call, .close = close_peer, .state = self};
    self->gpu = device->info.type != HAL_DEVICE_CPU;
    self->problem = *problem;
    self->problem.a = &self->a;
    self->problem.b = &self->b;
    bool good = bench_operand_create(&self->a, problem->m * problem->k, problem->dtype, 1, 1) &&
                bench_operand_create(&self->b, problem->k * problem->n, problem->dtype, 2, 1);
    self->job = bench_gemm_job(&self->problem);
    peer->work = limit == BENCH_LIMIT_FMA ? self->job.flops : self->job.bytes;
    if (!good || !bench_stage_open(&self->stage, device, &self->job)) {
        close_peer(peer);
        peer->name = NULL;
    }
}
