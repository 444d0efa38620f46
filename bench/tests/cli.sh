#!/bin/sh
# The program as its user meets it: cli.sh CASE HAL_BENCH JSON_CHECK. Exit 77: skipped, there is no device here.
set -u
case=$1 bench=$2 check=$3
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
unset HAL_BACKEND
die() { echo "bench.$case: $*" >&2; exit 1; }

need_device() {
    "$bench" devices --json "$folder/devices.json" >/dev/null || die "devices failed"
    grep -q '"available":true' "$folder/devices.json" || { echo "no device"; exit 77; }
}

# Run hal-bench with these arguments, expecting exit code $1.
expect() {
    wanted=$1
    shift
    "$bench" "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got = "$wanted" ] || { cat "$folder/out" "$folder/err" >&2; die "'$*' exits with $got, not $wanted"; }
}

case $case in
help)
    for command in "" devices overhead replay gemm softmax attention rmsnorm activation transpose quantize fusion ffn \
        layer tune; do
        # shellcheck disable=SC2086
        expect 0 $command --help
        grep -q '^examples:' "$folder/out" || die "no examples in the help of '$command'"
        grep -q -- '--json FILE' "$folder/out" || die "no options in the help of '$command'"
        if awk 'length($0) > 120' "$folder/out" | grep -q .; then die "a line of the help of '$command' is too long"; fi
    done
    expect 0 --version
    grep -Eq '^hal-bench [0-9]+\.[0-9]+\.[0-9]+$' "$folder/out" || die "odd version"
    for words in --help --version "model amdahl --help" "model amdahl --f 0.4 --s 4" "model amdahl --f 0.4 --s 4 --json" devices; do
        # shellcheck disable=SC2086
        "$bench" $words >/dev/full 2>"$folder/err"
        [ $? = 1 ] || die "'$words' on a full disk is no failure"
        grep -q 'cannot write' "$folder/err" || die "'$words' on a full disk says $(cat "$folder/err")"
    done
    ;;
usage)
    expect 2 frobnicate
    expect 2 --frobnicate
    expect 2 gemm --m 0
    expect 2 gemm --m 12x
    expect 2 gemm --dtype f64
    expect 2 overhead --m 3
    expect 2 activation --op frobnicate
    expect 2 activation --rows 0
    expect 2 gemm --op silu
    grep -q '^try: hal-bench gemm --help$' "$folder/err" || die "no hint at the command's help"
    expect 2 attention --q-heads 3 --kv-heads 2
    expect 2 transpose --shape 3x5 --perm 1,1
    expect 2 ffn --hidden 100
    expect 2 layer --layers 65
    expect 2 fusion --layers 2
    expect 2 overhead --rounds
    expect 2 replay surplus
    expect 2 overhead --json - --html -
    expect 2 overhead --backend vulcan
    grep -q vulcan "$folder/err" || die "the message does not name what was asked for"
    if HAL_BACKEND=opencl,vulcan "$bench" devices >/dev/null 2>&1; then die "an unknown HAL_BACKEND is accepted"; fi
    ;;
devices)
    expect 0 devices --verbose --json "$folder/devices.json"
    "$check" "$folder/devices.json" 2>"$folder/err" # kind "device" is none of the checker's
    grep -q 'unknown kind: device' "$folder/err" || die "the list of devices is not JSON"
    for backend in cuda opencl vulkan; do
        grep -q "$backend" "$folder/out" || die "nothing about $backend"
    done
    if grep -q "$(printf '\033')" "$folder/out"; then die "colours in a file"; fi
    ;;
json)
    need_device
    expect 0 --quick --json "$folder/all.json" --html "$folder/all.html"
    "$check" "$folder/all.json" overhead replay gemm softmax attention rmsnorm activation \
        transpose quantize graph || die "the JSON is not right"
    grep -q '^comparison' "$folder/out" || die "no comparison at the end"
    grep -q '</html>' "$folder/all.html" || die "the page is not complete"
    if grep -Eq '(src|href)=' "$folder/all.html"; then die "the page needs something outside itself"; fi
    expect 0 overhead --quick --json -
    cp "$folder/out" "$folder/overhead.json"
    "$check" "$folder/overhead.json" overhead || die "standard output is not only JSON"
    expect 1 overhead --quick --json "$folder/none/x.json"
    [ ! -s "$folder/out" ] || die "something is measured that cannot be written"
    [ "$(wc -l <"$folder/err")" = 1 ] || die "more than the file is blamed: $(cat "$folder/err")"
    expect 0 softmax --quick --rows 3 --columns 5 --html -
    head -c 15 "$folder/out" | grep -qx '<!DOCTYPE html>' || die "standard output is not only the page"
    ;;
operators)
    need_device
    for command in "gemm --m 9" softmax attention "attention --q-len 3 --kv-len 40 --page-size 16" rmsnorm activation \
        transpose quantize "gemm --op quantize --m 5 --n 70 --k 40"; do
        # shellcheck disable=SC2086
        expect 0 $command --quick --json "$folder/op.json"
        "$check" "$folder/op.json" "${command%% *}" || die "the JSON of '$command' is not right"
        grep -q '% of  *floor' "$folder/out" || die "no limits in the table of '$command'"
    done
    expect 0 activation --quick --op add --rows 5 --columns 7 --dtype f16 --json -
    grep -q '"shape":"5x7","dtype":"f16"' "$folder/out" || die "not the shape that was asked for"
    ;;
graphs)
    need_device
    for graph in ffn layer; do
        expect 0 $graph --quick --rows 5 --hidden 64 --json "$folder/graph.json"
        "$check" "$folder/graph.json" graph || die "the JSON of $graph is not right"
        for mode in eager replay; do
            grep -q "\"graph\":\"$graph\".*\"mode\":\"$mode\",\"fused\":true" "$folder/graph.json" || die "no fused $mode of $graph"
        done
    done
    # Three feed-forward layers of 6 kernels: 18 submissions told at once, 3 replayed; fused they have 5.
    expect 0 ffn --quick --json "$folder/ffn.json"
    for counts in 'eager","fused":false,"submits":18,"kernels":18' 'replay","fused":false,"submits":3,"kernels":18' \
        'eager","fused":true,"submits":15,"kernels":15' 'replay","fused":true,"submits":3,"kernels":15'; do
        grep -q "$counts" "$folder/ffn.json" || die "the feed-forward layer has no row with $counts"
    done
    expect 0 fusion --quick --dtype bf16 --json "$folder/fusion.json"
    "$check" "$folder/fusion.json" graph || die "the JSON of fusion is not right"
    ;;
tune)
    expect 2 tune --frobnicate
    expect 2 tune --workload
    need_device
    expect 2 tune --workload "$folder/none.json"
    mkfifo "$folder/fifo" # nobody writes to it
    expect 2 tune --workload "$folder/fifo"
    grep -q -- '--workload: .*fifo: it is not a regular file' "$folder/err" || die "a pipe is not refused as one"
    echo '{"shapes": [{"m": 3, "n": 4, "k": 5, "dtype": 7}]}' >"$folder/dtype.json"
    expect 2 tune --workload "$folder/dtype.json"
    expect 2 tune --m 3
    expect 2 gemm --workload x.json
    export HAL_CACHE_DIR="$folder" HAL_TUNING="$folder/unused.json"
    shapes='{"shapes": [{"m": 3, "n": 40, "k": 24, "count": 2}, {"m": 20, "n": 48, "k": 32, "dtype": "f16", "trans_b": true},
        {"op": "attention", "q_heads": 4, "kv_heads": 2, "head_dim": 16, "kv_length": 300, "dtype": "bf16"}]}'
    echo "$shapes" >"$folder/shapes.json"
    tune="tune --quick --workload $folder/shapes.json --output $folder/tuning.json --json $folder/tune.json"
    expect_shapes() { # how many results have $1
        [ "$(grep -o "\"known\":[[:space:]]*$1" "$folder/tune.json" | wc -l)" = "$2" ] || { cat "$folder/tune.json"; die "not $2 with known $1"; }
    }
    device=$(sed -n 's/.*"backend":"\([a-z]*\)","available":true.*/\1/p' "$folder/devices.json" | head -n 1)
    [ -n "$device" ] && tune="$tune --backend $device"
    # shellcheck disable=SC2086
    {
        expect 0 $tune
        expect_shapes false 3
        grep -q 'all calls of the workload' "$folder/out" || die "no sum of the workload"
        [ "$(stat -c %a "$folder/tuning.json")" = 600 ] || die "others can read or write the file"
        [ ! -e "$folder/unused.json" ] || die "not only the file that was asked for is written"
        expect 0 $tune
        expect_shapes true 3
        grep -q -- '--again measures it' "$folder/out" || die "nothing about what is known"
        expect 0 $tune --again
        expect_shapes false 3
    }
    for text in '' '[' '[]' '{"shapes": []}' '{"shapes": [3]}' '{"shapes": [{"m": 0, "n": 1, "k": 1}]}' \
        '{"shapes": [{"m": 1, "n": 1, "k": 1e9}]}' '{"shapes": [{"m": 1, "n": 1.5, "k": 1}]}' \
        '{"shapes": [{"m": 1, "n": 1, "k": 1, "dtype": "f8"}]}' '{"shapes": [{"m": 1, "n": 1, "k": 1, "op": "softmax"}]}' \
        '{"shapes": [{"op": "attention", "m": 1, "n": 1, "k": 1}]}' '{"shapes": [{"op": "attention", "q_heads": 4, "head_dim": 8}]}'; do
        echo "$text" >"$folder/hostile.json"
        expect 2 tune --quick --workload "$folder/hostile.json" --output "$folder/hostile.out"
        grep -q -- '--workload: .*hostile.json' "$folder/err" || die "the message does not name the file"
    done
    [ ! -e "$folder/hostile.out" ] || die "a hostile workload is tuned"
    echo '{"format": "hal-tuning"}' >"$folder/bad.json"
    expect 1 tune --quick --workload "$folder/shapes.json" --output "$folder/bad.json"
    grep -q 'bad.json: not tunings' "$folder/err" || die "a file that is no tunings is not refused"
    grep -q '"hal-tuning"}' "$folder/bad.json" || die "a file that is no tunings is written over"
    ;;
ctrl_c)
    need_device
    # A shell without job control starts background programs with SIGINT ignored; the program installs its handler anyway.
    "$bench" --json "$folder/cut.json" >"$folder/out" 2>"$folder/err" &
    id=$!
    # After its first figures, that is once the machine's own speed is printed.
    turn=0
    while ! grep -q 'at its best' "$folder/out" && [ $turn -lt 200 ]; do sleep 0.1; turn=$((turn + 1)); done
    sleep 1.5
    kill -INT $id
    wait $id
    got=$?
    [ $got = 130 ] || { cat "$folder/out" "$folder/err" >&2; die "exits with $got, not 130"; }
    "$check" "$folder/cut.json" || die "the JSON is not right"
    grep -q '"interrupted":true' "$folder/cut.json" || die "the JSON does not say that it was cut short"
    [ ! -e "$folder/cut.json.part" ] || die "a part of a file is left"
    grep -q '^interrupted after' "$folder/out" || die "what was measured is not printed"
    ;;
*) die "unknown case" ;;
esac
