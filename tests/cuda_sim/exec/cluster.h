/* cluster.h - the memory of a cluster and what fills it, between run.c and cluster.c. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "sim.h"

/* Memory for one cluster of the worker's launch, used for one cluster after the other; NULL when out of memory. */
sim_cluster *sim_cluster_new(sim_worker *worker);
void sim_cluster_free(sim_cluster *cluster);
/* Cluster `number` of the launch begins; false when out of memory. */
bool sim_cluster_begin(sim_cluster *cluster, uint64_t number);
void sim_cluster_end(sim_cluster *cluster);

static inline uint32_t sim_cluster_warps(const sim_cluster *cluster)
{
    return cluster->block_count * cluster->worker->run->warps_per_block;
}

#endif
