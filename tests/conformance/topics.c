/* topics.c - the groups of `conformance`, in the order they run. */
#include "conf.h"

const conf_topic conf_topics[] = {
    {"select", conf_test_select},
    {"device", conf_test_device},
    {"cache", conf_test_cache},
    {"buffer", conf_test_buffer},
    {"stream", conf_test_stream},
    {"event", conf_test_event},
    {"module", conf_test_module},
    {"command", conf_test_command},
    {"grid", conf_test_grid},
    {"list", conf_test_list},
    {"replay", conf_test_replay},
    {"errors", conf_test_errors},
    {"faults", conf_test_faults},
    {"trace", conf_test_trace},
    {"stress", conf_test_stress},
    {"hardening", conf_test_hardening},
    {"hardening", conf_test_hardening_held},
    {"hardening", conf_test_hardening_threads},
    {NULL, NULL},
};
