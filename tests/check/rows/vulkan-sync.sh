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

rc=0
run_tests "$HAL_BUILD" -V -R '\.vulkan(\.|$)' -O "$out" >/dev/null 2>&1 || rc=$?
# A message is a line such as: Validation Error: [ VUID-... ] or [ SYNC-HAZARD-... ]
known=$HAL_ROOT/tests/check/known_validation_messages.txt
{ grep -E 'VUID-|SYNC-HAZARD|UNASSIGNED-' "$out" || true; } |
    { grep -vEf <(sed '/^#/d;/^$/d' "$known") || true; } >"$out.messages"
tail -n 30 "$out"
if [ -s "$out.messages" ]; then
    echo "validation messages by kind:"
    grep -oE 'VUID-[A-Za-z0-9_-]+|SYNC-HAZARD-[A-Z-]+|UNASSIGNED-[A-Za-z0-9_-]+' "$out.messages" | sort | uniq -c
    exit 1
fi
exit $rc
