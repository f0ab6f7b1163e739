#!/usr/bin/env bash
# Runs file-pipeline.xml on three workers that share nothing: each has its own data directory and, if this is run by root,
# its own network namespace. Checks the result byte for byte, and that no file came to a worker twice. Tells how long it
# took, what moved, and how much memory the nodes had.
#
#   bash examples/file-pipeline.sh LINES SIZE [FOLDER]
#
# With 400000000 lines in parts of 20000000 that is a table of 3.9 GB, made on the way; FOLDER then needs room for 60 GB.
# XAVANTES is the program, if it is not on the path; NAMESPACES=no goes without them.
set -euo pipefail
lines=$1 size=$2 folder=$(mktemp -d "${3:-${TMPDIR:-/tmp}}/file-pipeline.XXXXXX")
xavantes=${XAVANTES:-xavantes}
examples=$(cd "$(dirname "$0")" && pwd)
net=xv$$
nodes=()

separate() {
  ip link add "$net" type bridge && ip addr add 10.77.33.254/24 dev "$net" && ip link set "$net" up || return 1
  for n in 1 2 3; do
    ip netns add "$net-$n" &&
      ip link add "$net-$n" type veth peer name eth0 netns "$net-$n" &&
      ip link set "$net-$n" master "$net" up &&
      ip -n "$net-$n" addr add "10.77.33.$n/24" dev eth0 &&
      ip -n "$net-$n" link set eth0 up &&
      ip -n "$net-$n" link set lo up || return 1
  done
}

unite() {
  for n in 1 2 3; do ip netns del "$net-$n" || true; done
  ip link del "$net" || true
}

clean() {
  kill "${nodes[@]}" 2>/dev/null || true
  wait || true
  unite 2>/dev/null
  rm -rf "$folder"
}
trap clean EXIT

spaces=no
if [ "${NAMESPACES:-yes}" = yes ]; then
  if separate 2>/dev/null; then spaces=yes; else unite 2>/dev/null; fi
fi

# start NAME ADDRESS COMMAND…: starts a node, and gives where it is reached.
start() {
  local name=$1 listen=$2
  shift 2
  "$@" node -vv --name "$name" --listen "$listen" --data-dir "$folder/$name" --files-mib 100000 --containers none \
    >/dev/null 2>"$folder/$name.log" &
  nodes+=($!)
  for _ in $(seq 600); do
    address=$(sed -n 's/.*node started.* address=\([^ ]*\).*/\1/p' "$folder/$name.log")
    [ -z "$address" ] || return 0
    sleep 0.1
  done
  cat "$folder/$name.log" >&2
  return 1
}

if [ $spaces = yes ]; then here=10.77.33.254:7433; else here=127.0.0.1:0; fi
export XAVANTES_ROLES=group-manager,process-coordinator
start main "$here" "$xavantes"
main=$address
export XAVANTES_ROLES=activity-manager XAVANTES_JOIN=$main XAVANTES_SLOTS=1
for n in 1 2 3; do
  if [ $spaces = yes ]; then
    start "w$n" "10.77.33.$n:7433" ip netns exec "$net-$n" "$xavantes"
  else
    start "w$n" 127.0.0.1:0 "$xavantes"
  fi
done
unset XAVANTES_ROLES XAVANTES_JOIN XAVANTES_SLOTS

began=$(date +%s)
found=$("$xavantes" submit "$examples/file-pipeline.xml" --wait --coordinator "$main" -p "lines=$lines" -p "size=$size")
echo "$found"
echo "seconds: $(($(date +%s) - began)), network namespaces: $spaces"

expected=$(seq 1 "$lines" | awk '{ printf "%.0f\n", $1 * $1 }' | sha256sum | cut -c -64)
if ! grep -q "$expected" <<<"$found"; then
  echo "the result is wrong: expected $expected" >&2
  exit 1
fi
for n in 0 1 2 3; do
  name=$([ $n = 0 ] && echo main || echo "w$n")
  came=$(sed -n 's/.*object received digest=\([^ ]*\) size=\([0-9]*\).*/\1 \2/p' "$folder/$name.log")
  twice=$(sort <<<"$came" | uniq -d)
  if [ -n "$twice" ]; then
    echo "files that came to $name more than once: $twice" >&2
    exit 1
  fi
  awk -v name="$name" -v peak="$(awk '/VmHWM/ { print $2 }' "/proc/${nodes[$n]}/status")" \
    'NF { files++; bytes += $2 } END { printf "%s: %d files came, %.0f bytes, peak %d MiB\n", name, files, bytes, peak / 1024 }' \
    <<<"$came"
done
