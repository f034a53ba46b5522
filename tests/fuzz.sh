#!/bin/bash
# The fuzzer's targets (tests/fuzz/):
#
#   tests/fuzz.sh run SECONDS [TARGET...]   for so long each, from the inputs and from real files
#   tests/fuzz.sh replay                    give each its inputs, and real files, once
#
# What a run finds is written to tests/fuzz/inputs/TARGET/, as a file to be committed with its mending.

# A run writes into the checkout, which is read-only otherwise.
[ "${1:-}" != run ] || export CONFINED=1 TMPDIR="${TMPDIR:-/tmp}"
. "$(dirname "$0")/behaviour/lib.bash"
cd "$ROOT" || exit 2
build=$BUILD
targets=${FUZZ_BUILD:-$build} # another build, which a sanitizer or the fuzzer watches

# seeds FOLDER: real files of each kind, for which inputs/ needs no copies
seeds() {
	local ctl=$build/shardctl data=$1/data n
	mkdir -p "$data/a/b" "$1/listing" "$1/manifest" "$1/log"
	for n in $(seq -w 0 4 1200); do : >"$data/a/img_$n.jpeg"; done
	for n in x yy zzz .hidden "a b" $'\xc3\xa9'; do : >"$data/a/b/$n"; done
	for n in "" "--order basename" "--no-attributes" "--options depth=1"; do
		# shellcheck disable=SC2086
		"$ctl" index $n "$data" -o "$1/listing/a${n// /}" >/dev/null || return 1
	done
	"$ctl" ls "$data" >"$1/names" || return 1
	{ printf '\0' && cat "$1/names"; } >"$1/manifest/plain"
	{ printf '\1' && cat "$1/names"; } >"$1/manifest/sorted"
	{ printf '\4' && gzip -c "$1/names"; } >"$1/manifest/gzip"
	{ printf '\10' && zstd -qc "$1/names"; } >"$1/manifest/zstd"
	{ printf '\1' && sed 's|.*|{"key":"&"}|' "$1/names"; } >"$1/manifest/json"
	mkdir -p "$1/inventory"
	for n in "" ", VersionId, IsLatest, IsDeleteMarker"; do
		{ printf '{"sourceBucket":"b","destinationBucket":"arn:aws:s3:::d","creationTimestamp":"1764291600000","fileFormat":"CSV",'
			printf '"fileSchema":"Bucket, Key%s","files":[{"key":"k","size":1,"MD5checksum":"%032d"}]}\0' "$n" 0
			printf '"b","a%%20b+c"%s\n' "${n:+,\"v\",\"true\",\"false\"}" "${n:+,\"\"\"v\",\"false\",\"false\"}"; } >"$1/inventory/a$n"
	done
	for n in range hash; do
		SHARD_RANK=0 SHARD_SIZE=2 SHARD_STRATEGY=$n SHARD_DATASET=$data SHARD_STATS=$1/stats SHARD_CACHE_DIR=$1/cache \
			LD_PRELOAD=$build/libshard.so bash -c 'for f in "$1"/a/*.jpeg; do : <"$f"; done' - "$data" || return 1
		cat "$1"/stats/*.log >"$1/log/$n" && rm "$1"/stats/*.log || return 1
	done
}

# folders TARGET: the inputs and seeds of a target
folders() {
	printf '%s\n' "tests/fuzz/inputs/$1" "$work/$1" | while read -r one; do
		[ -d "$one" ] && printf '%s\n' "$one"
	done
}

# heaped TARGET: whether nothing was found but memory that inputs have heaped up, and that each alone does not take
heaped() {
	local found=tests/fuzz/inputs/$1 one
	for one in "$found"/oom-*; do
		[ -f "$one" ] && "$targets/tests/fuzz_$1" -rss_limit_mb=512 "$one" >/dev/null 2>&1 && rm "$one"
	done
	[ -z "$(find "$found" -regex '.*/\(oom\|crash\|timeout\|leak\)-[0-9a-f]+')" ]
}

work=$WORK
what=${1:-}
case $what in
run)
	seconds=${2:?tests/fuzz.sh run SECONDS [TARGET...]}
	shift 2
	targets=$build/fuzz
	;;
replay) shift ;;
*)
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
seeds "$work" || { echo "FAIL the seeds are not made: make all first"; exit 1; }
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls ./*.c | sed 's|^./||; s|\.c$||' | grep -v '^replay$')
for target; do
	mapfile -t from < <(folders "$target")
	more=() leaks=1
	case $target in
	# A command leaves its memory to the end of its process, so the fuzzer starts a new one now and then.
	log) more=(-fork=1 -ignore_ooms=1) leaks=0 ;;
	esac
	if [ "$what" = replay ]; then
		mapfile -t files < <(find "${from[@]}" -type f)
		output=$(ASAN_OPTIONS=detect_leaks=$leaks "$targets/tests/fuzz_$target" "${files[@]}" 2>&1 </dev/null)
	else
		mkdir -p "tests/fuzz/inputs/$target" "$work/found-$target"
		output=$(ASAN_OPTIONS=detect_leaks=$leaks "$targets/tests/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -close_fd_mask=3 \
			"${more[@]}" -artifact_prefix="tests/fuzz/inputs/$target/" -print_final_stats=1 \
			"$work/found-$target" "${from[@]}" 2>&1 </dev/null)
	fi
	status=$?
	# 71: libFuzzer's for memory
	if [ $status -eq 0 ] || { [ "$what" = run ] && [ $status -eq 71 ] && heaped "$target"; }; then
		passed=$((passed + 1))
		echo "ok   $target: $(printf '%s\n' "$output" | grep -aE 'DONE|inputs$|cov:' | tail -n 1)"
	else
		failed=$((failed + 1))
		printf 'FAIL %s\n%s\n' "$target" "$(printf '%s\n' "$output" | tail -n 40)"
	fi
done
finish
