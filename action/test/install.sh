# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# The binary belongs to the action's version: from a release (a folder that is served on loopback), or built. Nothing is run
# that was found on the machine without its attestation.
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

# gh ATTESTATION: a stand-in for `gh`. It finds an attestation (`found`, or `released` for the files of the release alone), finds
# none, is not logged in, or is too old.
mkdir -p "$work/gh"
gh() {
  cat >"$work/gh/gh" <<STAND_IN
#!/usr/bin/env bash
case " \$* " in
  *" --help "*) [ $1 = old ] || echo '  --source-ref string' ;;
  *)
    printf '%s ' "\$@" >"$work/gh/arguments"
    echo "token \${GH_TOKEN:-none}" >>"$work/gh/arguments"
    case $1 in
      found) exit 0 ;;
      login) exit 4 ;;
      released) cmp -s "\$3" "$releases/v$version/\${3##*/}" && exit 0 ;;
    esac
    echo 'no attestations found' && exit 1
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

# planted FOLDER: a federate of the action's version that tells when it is run.
planted() {
  mkdir -p "$1"
  printf '#!/bin/sh\ntouch "%s"\necho "federate %s"\n' "$work/planted-ran" "$version" >"$1/federate"
  chmod +x "$1/federate"
}

# install EXPECTED-CODE COMMAND [VAR=VALUE…]
install() {
  local expected=$1 what=$2 got=0
  shift 2
  : >"$work/output"
  : >"$work/path"
  env PATH="$work/gh:/usr/local/bin:/usr/bin:/bin" GH_TOKEN=secret GITHUB_OUTPUT="$work/output" GITHUB_PATH="$work/path" \
    RUNNER_TOOL_CACHE="$work/tools" RUNNER_TEMP="$work/job" FEDERATE_RELEASES="http://127.0.0.1:$(cat "$releases/port")" "$@" \
    "$here/install.sh" "$what" >"$work/log" 2>&1 || got=$?
  [ "$got" = "$expected" ] || wrong "exit $got, not $expected: $*" log
}

# found: the binary that later steps find is the one of the release, or of the build.
installed=$work/job/federate-$version
found() {
  [ "$(cat "$work/path")" = "$installed" ] || wrong "not in the PATH" path
  cmp -s "$installed/federate" "$work/packed/federate" || wrong "not the binary" log
  [ ! -e "$work/planted-ran" ] || wrong "what was found on the machine has run" log
}

# Without a release, a build is asked for and announced. What is in the PATH, in the tool cache, or left in the job's folder is not run.
rmdir "$releases/v$version"
planted "$work/others"
planted "$work/tools/federate/$version"
planted "$installed"
install 0 find PATH="$work/others:$work/gh:/usr/local/bin:/usr/bin:/bin"
has log "$work/others/federate is not run, because nothing says who built it"
has log "there is no release v$version, or it cannot be reached: federate $version is built from source"
has output "build=true"
has output "folder=$installed"
grep -q "^key=federate-.*-$version-[0-9a-f]\{64\}$" "$work/output" || wrong "no key" output
[ ! -e "$installed/federate" ] || wrong "the job's folder is not emptied" log
[ ! -e "$work/planted-ran" ] || wrong "what was found on the machine has run" log
rm -rf "$work/tools"

# The release: its checksum and its attestation are verified.
mkdir "$releases/v$version"
binary "$work/packed" "$version"
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-apple-darwin aarch64-apple-darwin; do
  tar -C "$work/packed" -czf "$releases/v$version/federate-$target.tar.gz" federate
done
(cd "$releases/v$version" && { sha256sum -- *.gz 2>/dev/null || shasum -a 256 -- *.gz; } >SHA256SUMS)
install 0 find PATH="$work/others:$work/gh:/usr/local/bin:/usr/bin:/bin"
has log "federate $version: downloaded, with the checksum and the attestation of the release"
verified="--repo federate-dev/federate --signer-workflow federate-dev/federate/.github/workflows/release.yml"
has gh/arguments "$verified --source-ref refs/tags/v$version --deny-self-hosted-runners token secret"
found

# A second job of the same runner verifies what the first one has kept, and does not download it again.
: >"$releases/requests"
rm "$work/gh/arguments"
rm -rf "$work/job"
install 0 find
has log "federate $version: found, with the attestation of the release"
has gh/arguments "$verified --source-ref refs/tags/v$version"
[ ! -s "$releases/requests" ] || wrong "it is downloaded again" log
found

# What another job has put into the tool cache is downloaded again.
mkdir "$work/evil"
planted "$work/evil"
tar -C "$work/evil" -czf "$work/evil.tar.gz" federate
for archive in "$work/tools/federate/$version"/*.tar.gz; do
  cp "$work/evil.tar.gz" "$archive"
done
gh released
install 0 find
has log "::warning title=federate::$work/tools/federate/$version/federate-"
has log "is not used: federate-"
has log "downloaded, with the checksum and the attestation of the release"
found
gh found

# Without the attestation of the workflow, a file with the right checksum is refused.
rm -rf "$work/tools"
gh none
install 2 find
has log "no attestations found"
has log "has no attestation that federate-dev/federate/.github/workflows/release.yml has built it from the tag v$version"
[ ! -e "$installed/federate" ] || wrong "it is installed" log

# Where the attestation cannot be looked up, federate is built from the action's own source.
for reason in old login; do
  gh $reason
  install 0 find
  has log "the release's attestation cannot be verified, because"
  has output "build=true"
  [ ! -e "$installed/federate" ] || wrong "it is installed" log
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
[ ! -e "$installed/federate" ] || wrong "it is installed" log

# A build, in the action's own folder; a cache that has the result makes it unnecessary.
cat >"$work/cargo/cargo" <<'STAND_IN'
#!/usr/bin/env bash
echo "cargo $* in $PWD"
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
cp "$BUILDS" "$2/bin/federate"
STAND_IN
chmod +x "$work/cargo/cargo"
rm -rf "$work/tools"
rm -r "$releases/v$version"
planted "$installed"
install 0 find
install 0 build BUILDS="$work/packed/federate" PATH="$work/cargo:/usr/local/bin:/usr/bin:/bin"
has log "cargo install --quiet --locked --path . --root"
has log " in ${here%/*}"
found
install 0 build BUILDS=/nonexistent PATH="$work/cargo:/usr/local/bin:/usr/bin:/bin"
has_not log "cargo install"
kill "$release_server"
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
