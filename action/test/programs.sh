# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Helm and kubectl are those of programs.list: fetched from a folder that is served on loopback, checked, and put first in the PATH.
served=$work/programs
mkdir -p "$served/linux"
python3 "$here/test/releases.py" "$served" &
program_server=$!
trap 'kill "$server" "$program_server"; rm -rf "$work"' EXIT
for try in $(seq 100); do
  [ ! -f "$served/port" ] || break
  [ "$try" -lt 100 ] || { echo "the server does not start" && exit 1; }
  sleep 0.1
done
address=http://127.0.0.1:$(cat "$served/port")
case $(uname -s)-$(uname -m) in
  Linux-x86_64) own=x86_64-unknown-linux-musl ;;
  Linux-aarch64) own=aarch64-unknown-linux-musl ;;
  *) own=other ;;
esac
printf '#!/bin/sh\necho helm\n' >"$served/linux/helm"
printf '#!/bin/sh\necho kubectl\n' >"$served/kubectl"
tar -czf "$served/helm.tar.gz" -C "$served" linux/helm
digest() { sha256sum "$1" | cut -d ' ' -f 1; }
list() {
  printf '# a comment\n%s helm 1.0.0 %s %s/helm.tar.gz linux/helm\n%s kubectl 1.0.0 %s %s/kubectl -\n' \
    "$1" "$2" "$address" "$1" "$(digest "$served/kubectl")" "$address" >"$work/list"
}

# run_programs EXPECTED-CODE
run_programs() {
  local got=0
  : >"$work/path"
  env PATH=/usr/local/bin:/usr/bin:/bin GITHUB_PATH="$work/path" GITHUB_OUTPUT="$work/output" RUNNER_TOOL_CACHE="$work/cache" \
    FEDERATE_PROGRAM_LIST="$work/list" "$here/install.sh" programs >"$work/log" 2>&1 || got=$?
  [ "$got" = "$1" ] || wrong "exit $got, not $1" log
}

list "$own" "$(digest "$served/linux/helm")"
run_programs 0
folder=$(cat "$work/path")
[ "$("$folder/helm") $("$folder/kubectl")" = "helm kubectl" ] || wrong "the programs do not run" log
# They are fetched once.
rm "$served/requests"
run_programs 0
[ ! -f "$served/requests" ] || wrong "they are fetched again" log

# Another file is not used, also where it was in place.
list "$own" 0000000000000000000000000000000000000000000000000000000000000000
run_programs 0
has log 'it is not what was pinned and is not used'
[ ! -s "$work/path" ] || wrong "a program that is not pinned is used" path

# Without pinned programs for this machine, or a server, those of the runner count.
list riscv64 "$(digest "$served/linux/helm")"
run_programs 0
has log 'there is no pinned helm and kubectl'
list "$own" "$(digest "$served/linux/helm")"
sed -i "s|/helm.tar.gz|/none.tar.gz|" "$work/list"
rm -rf "$work/cache"
run_programs 0
has log 'helm 1.0.0 cannot be fetched'
[ ! -s "$work/path" ] || wrong "the PATH changes" path

# Every pinned program has a version, a digest, and an address that names the version.
grep -v '^#' "$here/programs.list" | while read -r _ name version digest address _; do
  [[ $digest =~ ^[0-9a-f]{64}$ && $address == https://*"v$version"* ]] || { echo "$name is not pinned" && exit 1; }
done
