# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# The binary belongs to the action's version: from the PATH, from a release (a folder that is served on loopback), or built.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "${here%/*}/Cargo.toml")
releases=$work/releases
mkdir -p "$releases/v$version" "$work/packed" "$work/others" "$work/cargo"
python3 "$here/test/releases.py" "$releases" &
release_server=$!
trap 'kill "$server" "$release_server"; rm -rf "$work"' EXIT
for try in $(seq 100); do
  [ ! -f "$releases/port" ] || break
  [ "$try" -lt 100 ] || { echo "the release server does not start" && exit 1; }
  sleep 0.1
done

# gh ATTESTATION: a stand-in for `gh`. It finds an attestation, finds none, is not logged in, or is too old.
mkdir -p "$work/gh"
gh() {
  cat >"$work/gh/gh" <<STAND_IN
#!/usr/bin/env bash
case " \$* " in
  *" --help "*) [ $1 = old ] || echo '  --source-ref string' ;;
  *)
    printf '%s ' "\$@" >"$work/gh/arguments"
    echo "token \${GH_TOKEN:-none}" >>"$work/gh/arguments"
    case $1 in found) exit 0 ;; login) exit 4 ;; *) echo 'no attestations found' && exit 1 ;; esac
    ;;
esac
STAND_IN
  chmod +x "$work/gh/gh"
}
gh found

# binary FOLDER VERSION: a federate that only names its version.
binary() {
  printf '#!/bin/sh\necho "federate %s"\n' "$2" >"$1/federate"
  chmod +x "$1/federate"
}

# install EXPECTED-CODE COMMAND [VAR=VALUE…]
install() {
  local expected=$1 what=$2 got=0
  shift 2
  : >"$work/output"
  : >"$work/path"
  env PATH="$work/gh:/usr/local/bin:/usr/bin:/bin" GH_TOKEN=secret GITHUB_OUTPUT="$work/output" GITHUB_PATH="$work/path" \
    RUNNER_TOOL_CACHE="$work/tools" FEDERATE_RELEASES="http://127.0.0.1:$(cat "$releases/port")" "$@" \
    "$here/install.sh" "$what" >"$work/log" 2>&1 || got=$?
  [ "$got" = "$expected" ] || wrong "exit $got, not $expected: $*" log
}

# The one in the PATH, when it has the action's version.
binary "$work/others" "$version"
install 0 find PATH="$work/others:/usr/local/bin:/usr/bin:/bin"
has log "federate $version: $work/others/federate"
[ ! -s "$work/path" ] || wrong "the PATH changes" path

# Another version is not used. Without a release, a build is asked for and announced.
binary "$work/others" 0.0.1
rmdir "$releases/v$version"
install 0 find PATH="$work/others:/usr/local/bin:/usr/bin:/bin"
has log "::notice title=federate::$work/others/federate is federate 0.0.1; the action uses its own version, $version"
has log "there is no release v$version, or it cannot be reached: federate $version is built from source"
has output "build=true"
has output "folder=$work/tools/federate/$version"
grep -q "^key=federate-.*-$version-[0-9a-f]\{64\}$" "$work/output" || wrong "no key" output

# The release: its checksum and its attestation are verified.
mkdir "$releases/v$version"
binary "$work/packed" "$version"
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-apple-darwin aarch64-apple-darwin; do
  tar -C "$work/packed" -czf "$releases/v$version/federate-$target.tar.gz" federate
done
(cd "$releases/v$version" && { sha256sum -- *.gz 2>/dev/null || shasum -a 256 -- *.gz; } >SHA256SUMS)
install 0 find
has log "federate $version: downloaded, with the checksum and the attestation of the release"
verified="--repo federate-dev/federate --signer-workflow federate-dev/federate/.github/workflows/release.yml"
has gh/arguments "$verified --source-ref refs/tags/v$version --deny-self-hosted-runners token secret"
[ "$(cat "$work/path")" = "$work/tools/federate/$version" ] || wrong "not in the PATH" path
[ "$("$work/tools/federate/$version/federate" --version)" = "federate $version" ] || wrong "not the binary" log

# A second job of the same runner finds it without a request.
: >"$releases/requests"
install 0 find
[ ! -s "$releases/requests" ] || wrong "it is downloaded again" log
[ "$(cat "$work/path")" = "$work/tools/federate/$version" ] || wrong "not in the PATH" path

# Without the attestation of the workflow, a file with the right checksum is refused.
rm -rf "$work/tools"
gh none
install 2 find
has log "no attestations found"
has log "has no attestation that federate-dev/federate/.github/workflows/release.yml has built it from the tag v$version"
[ ! -e "$work/tools/federate/$version/federate" ] || wrong "it is installed" log

# Where the attestation cannot be looked up, federate is built from the action's own source.
for reason in old login; do
  gh $reason
  install 0 find
  has log "the release's attestation cannot be verified, because"
  has output "build=true"
  [ ! -e "$work/tools/federate/$version/federate" ] || wrong "it is installed" log
done
gh found

# Something else under the name of the release is refused.
rm -rf "$work/tools"
for file in "$releases/v$version"/*.gz; do
  echo more >>"$file"
done
install 2 find
has log "::error title=federate::"
has log "it is not what was released"
[ ! -e "$work/tools/federate/$version/federate" ] || wrong "it is installed" log

# A build, in the action's own folder; a cache that has the result makes it unnecessary.
cat >"$work/cargo/cargo" <<'STAND_IN'
#!/usr/bin/env bash
echo "cargo $* in $PWD"
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
cp "$BUILDS" "$2/bin/federate"
STAND_IN
chmod +x "$work/cargo/cargo"
install 0 build BUILDS="$work/packed/federate" PATH="$work/cargo:/usr/local/bin:/usr/bin:/bin"
has log "cargo install --quiet --locked --path . --root"
has log " in ${here%/*}"
[ "$(cat "$work/path")" = "$work/tools/federate/$version" ] || wrong "not in the PATH" path
install 0 build BUILDS=/nonexistent PATH="$work/cargo:/usr/local/bin:/usr/bin:/bin"
has_not log "cargo install"
kill "$release_server"
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
