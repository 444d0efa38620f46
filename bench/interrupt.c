/* interrupt.c - progress in place on a terminal, and Ctrl-C: measuring stops after the current round, what was measured
 * is reported, and a second Ctrl-C ends the program at once. */
#include "bench.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* A signal handler can reach nothing else. */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void bench_interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool bench_interrupted(void)
{
    return interrupted != 0;
}

void bench_progress(bench_run *run, const char *format, ...)
{
    run->step++;
    if (interrupted || !isatty(STDERR_FILENO))
        return;
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\r\033[K[%u/%u] %s", run->step, run->steps > run->step ? run->steps : run->step, text);
    fflush(stderr);
}

void bench_progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
