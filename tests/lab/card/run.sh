#!/bin/bash
# Measures products on this machine's GPU, beside ggml's Vulkan back end: results.json and summary.txt.
#
#   bash tests/lab/card/run.sh                       here: needs Go, npm, Vulkan's loader and a driver
#   bash tests/lab/card/run.sh pack FOLDER           gathers all that is needed in a folder of 30 MB, for a machine without Go and network
#   bash FOLDER/run.sh run FOLDER OUT [FLAGS]        there, on Linux and x86-64: the results go to OUT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peer=@node-llama-cpp/linux-x64-vulkan@3.22.1
debs="libvulkan1 libegl1 libglvnd0 libopengl0 libgl1 libglx0 libgles2 libx11-6 libxcb1 libxau6 libxdmcp6 libxext6 libbsd0 libmd0"

# pack fills a folder with the program, the schedules, ggml and the loader.
pack() {
	mkdir -p "$1/debs"
	local to root
	to=$(cd "$1" && pwd) root=$(cd "$here/../../.." && pwd)
	(cd "$root" && CGO_ENABLED=0 go build -tags peer -trimpath -ldflags "-s -w" -o "$to/card" ./tests/lab/card)
	git -C "$root" describe --always --dirty --abbrev=12 >"$to/commit"
	cp "$here/run.sh" "$to"
	rm -rf "$to/traces" && cp -r "${TRACES:-$root/docs/lab/card.jsonl}" "$to/traces"
	if [ ! -f "$to/peer.tar.gz" ]; then
		local scratch
		scratch=$(mktemp -d)
		(cd "$scratch" && npm pack --silent "$peer" >/dev/null && tar xzf ./*.tgz &&
			tar -C package/bins/linux-x64-vulkan -czf peer.tar.gz libggml-vulkan.so libggml-base.so && mv peer.tar.gz "$to") ||
			echo "no ggml: npm pack $peer failed. Products are measured without it" >&2
		rm -rf "$scratch"
	fi
	if command -v apt-get >/dev/null && [ -z "$(ls "$to/debs")" ]; then
		(cd "$to/debs" && apt-get download -q $debs >/dev/null 2>&1 && for f in *.deb; do mv "$f" "${f%%_*}.deb"; done) || echo "no packages of Vulkan's loader: install libvulkan1 there" >&2
	fi
}

# loader makes Vulkan's loader and a driver known, from the packages of the folder if there is none.
loader() {
	ldconfig 2>/dev/null || true
	if ! ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
		for f in "$1"/debs/*.deb; do dpkg -x "$f" "$2/root" || echo "$f is not unpacked: without libvulkan.so.1 nothing is measured" >&2; done
		export LD_LIBRARY_PATH=$2/root/usr/lib/x86_64-linux-gnu:$2/root/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}
	fi
	if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] && [ -z "$(ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json 2>/dev/null)" ]; then
		local icd
		icd=$(ls /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json 2>/dev/null || find / -xdev -path '*vulkan/icd.d/*.json' 2>/dev/null | head -1)
		export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd
	fi
}

# run measures with the files of a folder.
run() {
	local from=$1 out=$2 work
	shift 2
	from=$(cd "$from" && pwd) work=$(mktemp -d)
	mkdir -p "$out" "$work/peer"
	if ! tar -C "$work/peer" -xzf "$from/peer.tar.gz"; then
		rmdir "$work/peer"
	fi
	loader "$from" "$work"
	if command -v nvidia-smi >/dev/null; then
		nvidia-smi >"$out/nvidia-smi.txt" 2>&1 || true
		nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw.instant,temperature.gpu,clocks_event_reasons.active --format=csv -lms 200 >"$out/clocks.csv" 2>&1 &
		trap "kill $!" EXIT
	fi
	cp "$from/card" "$work/card" && chmod +x "$work/card"
	peer=
	if [ -d "$work/peer" ]; then peer=$work/peer; fi
	TMACC_CACHE=$work/cache "$work/card" -traces "$from/traces" -peer "$peer" -commit "$(cat "$from/commit")" -o "$out/results.json" -summary "$out/summary.txt" "$@"
}

case ${1:-} in
pack) pack "$2" ;;
run) shift && run "$@" ;;
'') folder=$(mktemp -d) && pack "$folder" && run "$folder" . ;;
*) sed -n '2,7s/^# \?//p' "$0" && exit 2 ;;
esac
