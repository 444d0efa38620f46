/* plan_background.c - programs recorded by a thread of the plan's own, while runs tell their steps. See plan_state.h.
 *
 * Runs ask for numbers of rows, and the thread prepares one after another as hal_plan_prepare does for anybody's. What
 * fails there is kept for whoever asks, and the rows go on being told. */
#include "plan_state.h"

#include "internal.h"

enum { RUNS_BETWEEN_TRIES = 64 };

/* The shape has its program, or could not get it. */
static void done_locked(hal_plan *plan, uint64_t rows, hal_status status)
{
    hal_plan_shape *shape = hal_plan_known_locked(plan, rows);
    if (shape) {
        shape->asked = false;
        shape->refused = status != HAL_OK;
        shape->runs = 0;
    }
    if (status != HAL_OK) {
        plan->failed++;
        plan->failure = status;
        snprintf(plan->failure_text, sizeof plan->failure_text, "%s", hal_last_error());
    }
}

static void *work(void *user)
{
    hal_plan *plan = user;
    pthread_mutex_lock(&plan->lock);
    while (!plan->stop) {
        if (!plan->wanted_count) {
            pthread_cond_wait(&plan->asked, &plan->lock);
            continue;
        }
        const uint64_t rows = plan->wanted[0];
        memmove(&plan->wanted[0], &plan->wanted[1], --plan->wanted_count * sizeof plan->wanted[0]);
        pthread_mutex_unlock(&plan->lock);
        hal_status status = hal_plan_prepare(plan, rows);
        pthread_mutex_lock(&plan->lock);
        done_locked(plan, rows, status);
    }
    pthread_mutex_unlock(&plan->lock);
    return NULL;
}

hal_status hal_plan_background_start(hal_plan *plan)
{
    if (!plan->desc.background || !plan->desc.replay) {
        return HAL_OK;
    }
    plan->has_worker = pthread_create(&plan->worker, NULL, work, plan) == 0;
    return plan->has_worker
               ? HAL_OK
               : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "no thread can be started for plan '%s'", plan->program.label);
}

void hal_plan_background_stop(hal_plan *plan)
{
    if (plan->has_worker && !hal_forked(plan->device)) { /* in a child of fork there is no such thread */
        pthread_mutex_lock(&plan->lock);
        plan->stop = true;
        pthread_cond_signal(&plan->asked);
        pthread_mutex_unlock(&plan->lock);
        pthread_join(plan->worker, NULL);
    }
}

void hal_plan_ask_locked(hal_plan *plan, hal_plan_shape *shape)
{
    if (shape->asked || plan->wanted_count == HAL_PLAN_WANTED || (shape->refused && shape->runs < RUNS_BETWEEN_TRIES)) {
        return;
    }
    shape->asked = true;
    plan->wanted[plan->wanted_count++] = shape->rows;
    pthread_cond_signal(&plan->asked);
}
