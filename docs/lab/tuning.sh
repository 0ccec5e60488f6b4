#!/usr/bin/env bash
# What docs/tuning.md says under "Again", at the root of a checkout, on a machine that does nothing else:
#
#   bash docs/lab/tuning.sh examples              examples/tuned/tmacc.lock
#   bash docs/lab/tuning.sh renew                 what it has, measured again, of kernels as this compiler makes them
#   bash docs/lab/tuning.sh limits FOLDER         a lock of what docs/lab/limits.json has rows of, and bench -check
#   bash docs/lab/tuning.sh peers FOLDER LIBS     one of what ggml's types hold, and bench -peer beside its libraries in LIBS
#
# TIME=30s makes each search shorter than a minute.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -buildvcs=true -o "$scratch/tmacc" ./cmd/tmacc # the lock says which commit that is

tune() { "$scratch/tmacc" tune -time "${TIME:-1m}" "$@"; }

# bench FOLDER ARGS... measures the lock in FOLDER.
bench() { "$scratch/tmacc" bench -lock "$1/tmacc.lock" "${@:2}"; }

# examples ARGS... tunes for the models of examples/tuned.
examples() { tune -format ternary-tensor,w8,q4_0,q8_0,w2-g128 -o examples/tuned "$@"; }

case "${1-} $#" in
"examples 1")
	rm -f examples/tuned/tmacc.lock # what is there would stay if it is not beaten
	examples
	;;
"renew 1") examples -trials 1 ;;
"limits 2")
	narrow=$("$scratch/tmacc" host -json | sed -nE 's,^ *"amd64/(avx2|avx2\+[a-z0-9]+|avxvnni)".*,\1,p' | paste -sd,)
	narrow=${narrow/#avx2,avx2+/avx2+} # where bench measures those of this core for the limits of avx2
	for_limits() { tune -mode l2,l3,dram -n 1,4 -o "$@"; } # what limits are of; wide kernels follow by their costs
	for_limits "$2" -format w1,ternary,w2,w3,w4 -target "host,$narrow"
	for_limits "$2" -format w8,iq4nl,w2-g128,w2-g64,w2-g32,w4-g128,w4-g64
	for_limits "$2" -format w4-g32 -act-group 32 # as its limits were measured
	bench "$2" -check docs/lab/limits.json
	;;
"peers 3")
	tune -format q4_0,q4_k,iq4_nl,mxfp4,q8_0,q2_k,q3_k,tq2_0,q1_0,q2_0 -o "$2"
	bench "$2" -peer "ggml=$3" -rounds 3 -check docs/lab/ratios.json
	;;
*)
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
	;;
esac
