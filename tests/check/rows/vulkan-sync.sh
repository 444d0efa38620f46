#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
layer=""
for folder in /usr/share/vulkan/explicit_layer.d /etc/vulkan/explicit_layer.d ${VK_LAYER_PATH:+"$VK_LAYER_PATH"}; do
    layer+=$(compgen -G "$folder/*validation*.json" || true)
done
[ -n "$layer" ] || skip "the Khronos validation layer is not installed"
export HAL_TEST_SLOW=5 VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
export VK_LAYER_SETTINGS_PATH=$HAL_ROOT/tests/check/vk_layer_settings.txt
out=$HAL_BUILD/check/vulkan-sync.out
# First the layer itself: a program with one invalid call and one hazard must be told off, else this row proves nothing.
provoke=$HAL_BUILD/check/provoke_vulkan
mkdir -p "$HAL_BUILD/check"
cc -std=gnu17 -o "$provoke" tests/check/provoke_vulkan.c -ldl
"$provoke" >"$out" 2>&1 || { cat "$out"; skip "no Vulkan device to provoke the layer on"; }
grep -q 'VUID-' "$out" || { echo "the layer does not report an invalid call"; exit 1; }
grep -q 'SYNC-HAZARD' "$out" || { echo "the layer does not report a hazard"; exit 1; }

# The conformance suite runs here without its topic "stress": the layer's own memory grows with each device opened.
# plan_memory and batch_memory count every allocation of the process: the layer's would be taken for libhal's.
rc=0
{
    run_tests "$HAL_BUILD" -V -R '\.vulkan(\.|$)' -E '^(conformance|plan_memory|batch_memory)' || rc=1
    HAL_BACKEND=vulkan HAL_CACHE_DIR=$HAL_BUILD/test-cache "$HAL_BUILD/bin/conformance" select device buffer stream event module command grid list replay \
        errors faults trace || rc=1
} >"$out" 2>&1
# A message is a line such as: Validation Error: [ VUID-... ] or [ SYNC-HAZARD-... ]
known=$HAL_ROOT/tests/check/known_validation_messages.txt
{ grep -E 'VUID-|SYNC-HAZARD|UNASSIGNED-' "$out" || true; } |
    { grep -vEf <(sed '/^#/d;/^$/d' "$known") || true; } >"$out.messages"
grep -E "tests passed|Failed|FAILED  |vulkan: " "$out" | grep -v "tests/data/refused" || true
if [ -s "$out.messages" ]; then
    echo "validation messages by kind:"
    grep -oE 'VUID-[A-Za-z0-9_-]+|SYNC-HAZARD-[A-Z-]+|UNASSIGNED-[A-Za-z0-9_-]+' "$out.messages" | sort | uniq -c
    exit 1
fi
exit $rc
