#!/usr/bin/env bash
# Measures whole models beside llama.cpp on a machine that does nothing else, in 20 to 25 minutes on two cores:
#
#   bash docs/lab/models.sh LIBS              all models; LIBS is the folder of libllama.so
#   bash docs/lab/models.sh LIBS MODEL...     these models; the records of the others stay
#
# VARIANT=zen4 measures beside that variant of ggml's CPU backend instead of the one that its score picks, such as one without AMX.
# Records go to docs/lab/models/MODEL.json (MODEL-zen4.json), and docs/models-performance.md is written from them.
set -euo pipefail
cd "$(dirname "$0")/../.."
libs=$(cd "${1:?usage: bash docs/lab/models.sh LIBS [MODEL...]}" && pwd)
shift
[ $# -gt 0 ] || set -- bitnet-2b llama-1b-q4_0 llama-1b-q4_k_m qwen3-0.6b-q8_0 bonsai-1.7b-q1_0 bonsai-1.7b-q2_0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -n "${VARIANT-}" ]; then
	mkdir "$scratch/libs"
	cp "$libs"/libllama.*so "$libs"/libggml.*so "$libs/libggml-base.so" "$libs/libggml-cpu-$VARIANT.so" "$scratch/libs"
	libs=$scratch/libs
fi
go build -buildvcs=true -tags peer -o "$scratch/tmacc" ./cmd/tmacc # records say which commit that is

# measure MODEL FLAGS... appends records of a model.
measure() {
	echo "$(date +%T) $*" >&2
	"$scratch/tmacc" bench -model "synthetic:$1" -peer "llama=$libs" -o json "${@:2}" >>"$scratch/$1.json"
}

mkdir -p docs/lab/models
for model in "$@"; do
	case $model in
	bonsai-1.7b-q2_0) # takes llama.cpp half a second a token: one round
		measure "$model" -p 128 -n 16 -threads 1 -r 1
		measure "$model" -p 512 -n 16 -threads 2 -r 1
		measure "$model" -p 0 -n 16 -d 4080 -threads 1 -r 1
		;;
	*)
		measure "$model" -p 512 -n 32 -threads 1,2 -r 3
		measure "$model" -p 0 -n 16 -d 4080 -threads 1 -r 3
		;;
	esac
	mv "$scratch/$model.json" "docs/lab/models/$model${VARIANT:+-$VARIANT}.json"
	go run ./tests/lab models docs/lab/models >"$scratch/page"
	cp "$scratch/page" docs/models-performance.md
done
