/* gemm - one call of the GEMM operator, D = act(alpha A B + beta C + bias), checked against a plain loop. */
#include <hal/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 48, N = 80, K = 96 };

/* Small multiples of 1/8: all sums are exact in FP32, whatever their order. */
static void fill(float *values, int count)
{
    for (int i = 0; i < count; i++)
        values[i] = (float)(rand() % 17 - 8) / 8.0f;
}

static int count_wrong(const float *a, const float *b, const float *bias, const float *d)
{
    int wrong = 0;
    for (int row = 0; row < M; row++)
        for (int column = 0; column < N; column++) {
            float sum = bias[column];
            for (int k = 0; k < K; k++)
                sum += 0.5f * a[row * K + k] * b[k * N + column];
            float want = sum > 0.0f ? sum : 0.0f;
            wrong += !(fabsf(d[row * N + column] - want) <= 1e-5f);
        }
    return wrong;
}

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

int main(void)
{
    static float a[M * K], b[K * N], bias[N], d[M * N];
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *da = NULL, *db = NULL, *dbias = NULL, *dd = NULL;
    int wrong, result = 1;

    fill(a, M * K);
    fill(b, K * N);
    fill(bias, N);
    TRY(hal_device_open(NULL, &device));
    TRY(hal_stream_create(device, NULL, &stream));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof a, .label = "a"), &da));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof b, .label = "b"), &db));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof bias, .label = "bias"), &dbias));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof d, .label = "d"), &dd));

    hal_cmdlist *now = hal_stream_cmdlist(stream); /* a recorded list would take the same calls */
    TRY(hal_cmd_upload(now, hal_whole(da), a, sizeof a));
    TRY(hal_cmd_upload(now, hal_whole(db), b, sizeof b));
    TRY(hal_cmd_upload(now, hal_whole(dbias), bias, sizeof bias));
    TRY(hal_gemm(now, HAL_GEMM(.m = M, .n = N, .k = K, .alpha = 0.5f, .act = HAL_ACT_RELU, .a = hal_whole(da),
                               .b = hal_whole(db), .bias = hal_whole(dbias), .d = hal_whole(dd))));
    TRY(hal_cmd_download(now, d, hal_whole(dd)));
    TRY(hal_stream_wait(stream, HAL_SECONDS(10)));

    wrong = count_wrong(a, b, bias, d);
    printf("gemm on %s (%s): %dx%dx%d with bias and ReLU, %d of %d elements wrong\n", hal_device_get_info(device)->name,
           hal_device_get_info(device)->backend, M, N, K, wrong, M * N);
    result = wrong != 0;
    goto done;
fail:
    fprintf(stderr, "gemm: %s\n", hal_last_error());
done:
    hal_buffer_destroy(dd);
    hal_buffer_destroy(dbias);
    hal_buffer_destroy(db);
    hal_buffer_destroy(da);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return result;
}
