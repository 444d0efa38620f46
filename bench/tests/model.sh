#!/bin/sh
# hal-bench model as other programs call it: model.sh CASE HAL_BENCH EXAMPLES
set -u
case=$1 bench=$2 examples=$3
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
die() { echo "bench.model_$case: $*" >&2; exit 1; }

# ask ANSWER ARGUMENTS...: the whole object, as it is printed.
ask() {
    wanted=$1
    shift
    "$bench" model "$@" --json >"$folder/out" 2>"$folder/err" || die "'$*' exits with $?: $(cat "$folder/err")"
    [ ! -s "$folder/err" ] || die "'$*' prints $(cat "$folder/err")"
    [ "$(cat "$folder/out")" = "$wanted" ] || die "'$*' answers $(cat "$folder/out"), not $wanted"
}

# refuse NAME ARGUMENTS...: exit 2, nothing on standard output, one line that names NAME.
refuse() {
    name=$1
    shift
    "$bench" model "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got = 2 ] || die "'$*' exits with $got, not 2"
    [ ! -s "$folder/out" ] || die "'$*' is refused, and answers all the same"
    [ "$(wc -l <"$folder/err")" = 1 ] || die "'$*' is not refused in one line: $(cat "$folder/err")"
    grep -q -e "$name" "$folder/err" || die "the refusal of '$*' does not name $name: $(cat "$folder/err")"
}

file() { printf '%s' "$1" >"$folder/file.json"; }

case $case in
figures)
    ffn="--M 1024 --K 4096 --N 12288"
    # shellcheck disable=SC2086
    {
        ask '{"working_set_bytes":24576,"traffic_bytes":3246391296,"min_bytes":134217728,"flops":103079215104}' \
            tile $ffn --m 64 --n 64 --k 32
        ask '{"working_set_bytes":98304,"traffic_bytes":1635778560,"min_bytes":134217728,"flops":103079215104}' \
            tile $ffn --m 128 --n 128 --k 64
        ask '{"working_set_bytes":81920,"traffic_bytes":817889280,"min_bytes":67108864,"flops":103079215104}' \
            tile $ffn --m 128 --n 128 --k 64 --elem=1
    }
    ask '{"working_set_bytes":98304,"traffic_bytes":65536,"min_bytes":65536,"flops":2097152,"fits":false,"limit":"shared"}' \
        tile --M 128 --K 64 --N 128 --m 128 --n 128 --k 64 --device "RTX PRO 6000" --slots 2
    ask '{"working_set_bytes":81920,"traffic_bytes":49152,"min_bytes":49152,"flops":1048576,"fits":true,"limit":null}' \
        tile --M 128 --K 32 --N 128 --m 128 --n 128 --k 32 --device "Ascend 910B" --slots 2
    ask '{"blocks":1,"warps":8,"occupancy":0.166666666666667,"limit":"shared"}' \
        occupancy --device "RTX PRO 6000" --threads 256 --regs 128 --shared 81920
    ask '{"blocks":4,"warps":32,"occupancy":0.666666666666667,"limit":"shared"}' \
        occupancy --device "RTX PRO 6000" --threads 256 --regs 32 --shared 24576
    ask '{"blocks":8,"warps":64,"occupancy":1,"limit":"threads"}' \
        occupancy --device H100 --threads 256 --regs 32 --shared 0
    ask '{"blocks":2,"warps":16,"occupancy":0.25,"limit":"registers"}' \
        occupancy --device H100 --threads 256 --regs 128 --shared 49152
    ask '{"blocks":32,"warps":32,"occupancy":0.5,"limit":"blocks"}' \
        occupancy --device H100 --threads 32 --regs 32 --shared 0
    ask '{"rounds":32}' banks --rows 32 --cols 32 --stride 32
    ask '{"rounds":1}' banks --rows 32 --cols 32 --stride 33
    ask '{"rounds":1}' banks --rows 32 --cols 32 --stride 32 --swizzle
    "$bench" model pipeline --n 4 --tm 1.29 --tc 0.28 --slots 2 --json >"$folder/out" || die "pipeline fails"
    grep -q '^{"serial_us":6.28,"pipelined_us":5.44,"busy_fraction":0.2058' "$folder/out" || die "$(cat "$folder/out")"
    ask '{"serial_us":6,"pipelined_us":6,"busy_fraction":0.5,"load_fraction":0.5}' pipeline --n 3 --tm 1 --tc 1 --slots 1
    # By hand: the first stage works in 0-1 and 3-4, the second in 1-3 and 4-6, the third in 3-4 and 6-7.
    ask '{"serial_us":8,"pipelined_us":7,"busy_fraction":0.285714285714286,"stage_busy":[0.285714285714286,0.571428571428571,0.285714285714286],"stage_starved_us":[0,2,5],"stage_blocked_us":[2,0,0]}' \
        pipeline --n 2 --stages 1,2,1 --slots 1,1
    ask '{"q_rows":82,"scans":100,"kv_bytes":419430400,"updates":12800}' kvblock --L 8192 --d 128 --shared 101376 --b 64
    ask '{"q_rows":128,"scans":64,"kv_bytes":268435456,"updates":524288}' kvblock --L 8192 --d 128 --shared 101376 --b 1
    ask '{"q_rows":66,"scans":125,"kv_bytes":524288000,"updates":16000}' \
        kvblock --L 8192 --d 128 --shared 101376 --b 64 --prefetch
    ask '{"b":21,"q_rows":111,"scans":74,"kv_bytes":310378496,"updates":28934}' \
        kvblock --L 8192 --d 128 --shared 101376 --bw 1792e9 --update 0.001
    ask '{"bytes_separate":163577856,"bytes_partial":113246208,"bytes_fused":62914560,"peak_separate":75497472,"peak_partial":75497472,"peak_fused":62914560}' \
        chain --rows 1024 --cols 12288
    ask '{"eager_us":40,"replay_us":25,"break_even_bytes":13440000}' \
        graphcopy --bytes 0 --bw 1792e9 --submit 20 --prepare 5 --compute 20
    ask '{"eager_us":40,"replay_us":40,"break_even_bytes":13440000}' \
        graphcopy --bytes 13.44e6 --bw 1792e9 --submit 20 --prepare 5 --compute 20
    ask '{"eager_us":25,"replay_us":40,"break_even_bytes":0}' \
        graphcopy --bytes 0 --bw 1792e9 --submit 5 --prepare 20 --compute 20
    ask '{"old_us":10,"new_us":12.5,"choose_us":7.5,"break_even":0.666666666666667,"better_below":false}' \
        mix --p 0.5 --old 10,10 --new 5,20
    ask '{"old_us":10,"new_us":12.5,"choose_us":8.5,"break_even":0.2,"better_below":false}' \
        mix --p 0.5 --old 10,10 --new 5,20 --dispatch 1
    ask '{"old_us":10,"new_us":12.5,"choose_us":7.5,"break_even":0.333333333333333,"better_below":true}' \
        mix --p 0.5 --old 10,10 --new 20,5
    ask '{"old_us":10,"new_us":11,"choose_us":10,"break_even":null,"better_below":false}' mix --p 0 --old 9,10 --new 9,11
    ask '{"coarse_us":126.48,"tiled_us":115.46}' persistent --tiles 8 --tp 12.8 --ta 1.76 --launch 5 --task 0.7
    ask '{"speedup":1.75}' amdahl --f 0.5714285714285714 --s 4
    ask '{"length_us":50,"path":["prepare","A","finish"]}' critical-path --file "$examples/critical_path.json"
    "$bench" model shapes --file "$examples/shapes.json" --n 70 --json >"$folder/out" || die "shapes fails"
    for part in '"from":"general","to":"buckets","n":64.67' '"from":"buckets","to":"special","n":89.82' \
        '"name":"buckets","prepare_ms":400,"run_ms":12.3695' '"total_ms":1265.8' '"total_ms":1376.2' '"best":"buckets"' \
        '{"name":"special","from":89.8266372121411,"to":null}'; do
        grep -qF "$part" "$folder/out" || die "shapes does not answer $part: $(cat "$folder/out")"
    done
    file '{"strategies": [{"name": "general", "prepare_ms": 100, "run_ms": 17.0},
        {"name": "buckets", "prepare_ms": 400, "run_ms": 12.4}, {"name": "special", "prepare_ms": 900, "run_ms": 6.8}]}'
    "$bench" model shapes --file "$folder/file.json" --json >"$folder/out" || die "shapes fails"
    for part in '"n":65.21739' '"n":89.285714'; do
        grep -qF "$part" "$folder/out" || die "shapes does not answer $part: $(cat "$folder/out")"
    done
    file '[{"name": "b", "us": 2, "after": ["a"]}, {"name": "a", "us": 1.5}]'
    ask '{"length_us":3.5,"path":["a","b"]}' critical-path --file "$folder/file.json"
    file '[{"name": "a", "prepare_ms": 1, "run_ms": 2}]'
    ask '{"break_evens":[],"ranges":[{"name":"a","from":0,"to":null}],"strategies":[{"name":"a","prepare_ms":1,"run_ms":2}]}' \
        shapes --file "$folder/file.json"
    "$bench" model request --file "$examples/request.json" --json >"$folder/out" || die "request fails"
    grep -qF '{"calls":1152,"saved_us":1399.464,"share":0.01599' "$folder/out" || die "$(cat "$folder/out")"
    ask '{"operand_bytes":2097152,"score_bytes":268435456,"unfused_bytes":1073741824,"min_bytes":8388608}' \
        attention --L 8192 --d 128
    ask '{"separate_bytes":465567744,"fused_bytes":650117120,"fused_over_separate":1.3963963963964}' \
        quantize-gemm --M 4096 --K 4096 --N 1536 --m 128 --n 128 --k 64
    ask '{"copy_us":1048.576,"whole_us":2097.152,"chunked_us":1310.72,"best_chunks":1048576}' \
        transfer --bytes 67108864 --bw 64e9 --compute 1048.576 --chunks 4
    ;;
forms)
    # Counts keep all their digits.
    ask '{"bytes_separate":8450740389754112827,"bytes_partial":5850512577522078111,"bytes_fused":3250284765290043395,"peak_separate":3900341718348052074,"peak_partial":3900341718348052074,"peak_fused":3250284765290043395}' \
        chain --rows 1000003 --cols 650055002893
    "$bench" model amdahl --f 0.4 --s 4 --json "$folder/a.json" >"$folder/out" || die "--json FILE fails"
    [ ! -s "$folder/out" ] || die "--json FILE prints on standard output"
    grep -q '^{"speedup":1.42857142857143}$' "$folder/a.json" || die "--json FILE writes $(cat "$folder/a.json")"
    "$bench" model amdahl --json --f 0.4 --s 4 | cmp -s - "$folder/a.json" || die "the place of --json matters"
    "$bench" model amdahl --f 0.4 --s 4 >"$folder/out" || die "no table"
    grep -q '^speedup  *1.42857' "$folder/out" || die "no table for people: $(cat "$folder/out")"
    "$bench" model amdahl --f 0.4 --s 4 --json /nowhere/a.json 2>/dev/null
    [ $? = 1 ] || die "an answer that cannot be written is no failure"
    for topic in tile occupancy banks kvblock attention chain quantize-gemm pipeline transfer graphcopy mix persistent \
        amdahl machine shapes critical-path request; do
        "$bench" model $topic --help >"$folder/out" || die "no help of $topic"
        grep -q "^  hal-bench model $topic --" "$folder/out" || die "no example in the help of $topic"
        if awk 'length($0) > 120' "$folder/out" | grep -q .; then die "a line of the help of $topic is too long"; fi
        "$bench" model --help | grep -q "^  $topic " || die "the list of topics lacks $topic"
        # The example works.
        line=$(sed -n "s|^  hal-bench model \($topic --.*\)|\1|p" "$folder/out" | sed "s|examples/model|$examples|")
        # shellcheck disable=SC2086
        "$bench" model $line >"$folder/answer" || die "the example of $topic fails"
        grep -q '^{"' "$folder/answer" || die "the example of $topic gives no object"
    done
    "$bench" model machine --device Ascend910B3 --json | grep -q '"buffers":{"L0A":65536,"L0B":65536,"L0C":131072,"L1":524288,"UB":196608}' ||
        die "no buffers"
    # A machine of one's own: what is printed can be read.
    "$bench" model machine --device A100 --json "$folder/own.json" || die "no description"
    "$bench" model machine --device "$folder/own.json" --json | cmp -s - "$folder/own.json" || die "not what was written"
    ask '{"blocks":16,"warps":64,"occupancy":1,"limit":"threads"}' \
        occupancy --device "$folder/own.json" --threads 128 --regs 32 --shared 1024
    "$bench" model machine --measure --json | grep -q '"flops_per_s":{"f32":[1-9]' || die "this CPU is not measured"
    ;;
refusals)
    refuse TOPIC
    refuse frobnicate frobnicate
    refuse "no topic" "$(printf 'a\nb')"
    refuse --M tile
    refuse --k tile --M 1 --K 1 --N 1 --m 1 --n 1
    for bad in 0 -1 1.5 1e3 nan inf x "" 0x10 " 1" 99999999999999999999 1099511627777; do
        refuse --M tile --M "$bad" --K 1 --N 1 --m 1 --n 1 --k 1
    done
    for bad in -0.5 nan inf -inf x "" 0x1p3 "1 " 1e999 2 1,1 --s; do refuse --f amdahl --f "$bad" --s 2; done
    for bad in 0 -1 nan inf 1e19; do refuse --s amdahl --f 0.5 --s "$bad"; done
    for bad in 1 1,2,3 '1,' ,1 a,b 1,nan 1,-2 "1, 2" "" '1,,2'; do refuse --old mix --p 0.5 --old "$bad" --new 1,2; done
    refuse --p mix --p 1.01 --old 1,2 --new 1,2
    refuse --dispatch mix --p 1 --old 1,2 --new 1,2 --dispatch -1
    refuse --M tile --M 1099511627776 --K 1099511627776 --N 1 --m 1 --n 1 --k 1
    refuse --rows chain --rows 1099511627776 --cols 1099511627776
    refuse --L kvblock --L 1099511627776 --d 1048576 --shared 10000000 --b 1
    refuse --L attention --L 1099511627776 --d 1
    refuse --shared kvblock --L 8192 --d 128 --shared 1000 --b 64
    refuse --b kvblock --L 8192 --d 128 --shared 101376
    refuse --shared kvblock --L 8192 --d 128 --shared 100 --bw 1e9 --update 1
    refuse --device tile --M 1 --K 1 --N 1 --m 1 --n 1 --k 1 --device H1
    refuse --bw graphcopy --bytes 1 --bw 0 --submit 1 --prepare 1 --compute 1
    refuse '--slots needs --device' tile --M 128 --K 64 --N 128 --m 128 --n 128 --k 64 --slots 2
    refuse --tc pipeline --n 4 --tm 1 --slots 2
    refuse --slots pipeline --n 4 --tm 1 --tc 1 --slots 0
    refuse --slots pipeline --n 4 --tm 1 --tc 1 --slots 1.5
    refuse --slots pipeline --n 4 --tm 1 --tc 1 --slots 1,2
    refuse --slots pipeline --n 4 --stages 1,2,3 --slots 1
    refuse --stages pipeline --n 4 --stages 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --slots 1
    refuse --stages pipeline --n 4 --stages 1,2 --slots 1 --tm 3
    refuse --n pipeline --n 10000001 --stages 1,2 --slots 1
    refuse --cols banks --rows 32 --cols 24 --stride 24 --swizzle
    refuse --swizzle banks --rows 32 --cols 32 --stride 32 --swizzle=1
    refuse --device occupancy --device H1000 --threads 1 --regs 1 --shared 1
    refuse --device occupancy --device "Ascend 910B" --threads 1 --regs 1 --shared 1
    refuse --device occupancy --device "$folder/none.json" --threads 1 --regs 1 --shared 1
    refuse --tiles persistent --tiles 0 --tp 1 --ta 1 --launch 1 --task 1
    refuse surplus amdahl --f 0.4 --s 4 surplus
    refuse --frob amdahl --f 0.4 --s 4 --frob 3
    refuse --m amdahl --m 3
    refuse --file shapes
    ;;
files)
    for topic in shapes critical-path request; do
        refuse --file $topic --file "$folder/none.json"
        refuse --file $topic --file "$folder"
        for text in '' '[]' '3' '{}' '{"tasks":[]}' '{' '{"shapes":1}' '{} {}' '{"strategies":[1]}' '{"tasks":[{}]}'; do
            file "$text"
            refuse --file $topic --file "$folder/file.json"
        done
        printf '{}\0' >"$folder/file.json"
        refuse --file $topic --file "$folder/file.json"
        head -c 5000000 /dev/zero | tr '\0' '[' >"$folder/file.json"
        refuse "4 MiB" $topic --file "$folder/file.json"
        head -c 100000 /dev/zero | tr '\0' '[' >"$folder/file.json" # deeper than any stack
        refuse --file $topic --file "$folder/file.json"
    done
    file '{"tasks": [{"name": "a", "us": 1, "after": ["b"]}, {"name": "b", "us": 1, "after": ["a"]}]}'
    refuse circle critical-path --file "$folder/file.json"
    file '{"tasks": [{"name": "a", "us": 1, "after": ["c"]}]}'
    refuse '"c"' critical-path --file "$folder/file.json"
    file '{"tasks": [{"name": "a", "us": 1}, {"name": "a", "us": 2}]}'
    refuse '"a"' critical-path --file "$folder/file.json"
    file '{"tasks": [{"name": "a", "us": 1e999}]}'
    refuse 'tasks\[0\].us' critical-path --file "$folder/file.json"
    file '{"tasks": [{"name": "a", "us": 1, "aftr": []}]}'
    refuse aftr critical-path --file "$folder/file.json"
    file '{"strategies": [{"name": "a", "prepare_ms": 1, "run_ms": -1}]}'
    refuse 'strategies\[0\].run_ms' shapes --file "$folder/file.json"
    file '{"rows": [3000], "flop_per_row": 1, "peak_tflops": 1,
        "strategies": [{"name": "a", "prepare_ms": 1, "mfu": 0.5, "buckets": [512, 2048]}]}'
    refuse buckets shapes --file "$folder/file.json"
    file '{"rows": [[1e9, 1]], "flop_per_row": 1, "peak_tflops": 1, "strategies": []}'
    refuse rows shapes --file "$folder/file.json"
    file '{"request_us": 0, "shapes": [{"name": "a", "calls": 1, "old_us": 1, "new_us": 1}]}'
    refuse request_us request --file "$folder/file.json"
    file '{"request_us": 1, "shapes": [{"name": "a", "calls": 1.5, "old_us": 1, "new_us": 1}]}'
    refuse calls request --file "$folder/file.json"
    file '{"strategies": [{"name": "a", "prepare_ms": 1, "run_ms": 2}, {"name": "a", "prepare_ms": 2, "run_ms": 1}]}'
    refuse '"a"' shapes --file "$folder/file.json" # which of them would the answer name?
    file '{"tasks": [{"name": "a", "us": 1, "us": 2}]}'
    refuse '"us" twice' critical-path --file "$folder/file.json"
    file '{"tasks": [{"name": "a\u0000b", "us": 1}]}'
    refuse NUL critical-path --file "$folder/file.json"
    # No UTF-8, so that an answer with the name would be no JSON: a lone byte, an overlong form, a surrogate, beyond
    # U+10FFFF, cut short.
    for bytes in '\377' '\200' '\300\257' '\340\200\257' '\355\240\200' '\364\220\200\200' '\303'; do
        printf '[{"name": "%b", "us": 1}]' "$bytes" >"$folder/file.json"
        refuse UTF-8 critical-path --file "$folder/file.json"
    done
    printf '[{"name": "%b", "us": 1}]' '\303\274\342\202\254\360\237\230\200' >"$folder/file.json"
    "$bench" model critical-path --file "$folder/file.json" --json >"$folder/out" || die "UTF-8 is refused"
    file '{"tasks": [{"name": "a\nb", "us": 0}]}'
    [ "$("$bench" model critical-path --file "$folder/file.json" | wc -l)" = 3 ] || die "a name breaks the table"
    file '{"tasks": [{"name": "\u00fc\n\"", "us": 0}]}' # names come back as JSON
    "$bench" model critical-path --file "$folder/file.json" --json | grep -qF '\n\"' || die "a name is not escaped"
    # Each example cut short and damaged: an answer or a refusal, never a signal.
    for topic in shapes critical-path request; do
        example=$examples/$(echo $topic | tr - _).json
        size=$(wc -c <"$example")
        at=0
        while [ $at -lt "$size" ]; do
            for byte in '' '"' '[' '}' '-' '9' ',' 'e'; do
                { head -c $at "$example"; printf '%s' "$byte"; [ -z "$byte" ] || tail -c +$((at + 2)) "$example"; } >"$folder/file.json"
                "$bench" model $topic --file "$folder/file.json" --json >"$folder/out" 2>"$folder/err"
                got=$?
                [ $got = 0 ] || [ $got = 2 ] || { cat "$folder/file.json"; die "$topic exits with $got"; }
                [ $got = 0 ] || [ "$(wc -l <"$folder/err")" = 1 ] || die "not one line: $(cat "$folder/err")"
            done
            at=$((at + 13))
        done
    done
    ;;
*) die "unknown case" ;;
esac
