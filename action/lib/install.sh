# shellcheck shell=bash
# Where the binary comes from. It belongs to the action's version: another one could not know its options.

# add_to_path FOLDER: for the later steps.
add_to_path() {
  printf '%s\n' "$1" >>"${GITHUB_PATH:-$scratch/path}"
}

# set_output NAME VALUE
set_output() {
  printf '%s=%s\n' "$1" "$2" >>"$output_file"
}

# version_of BINARY: the version that it reports, empty if it does not run.
version_of() {
  "$1" --version 2>/dev/null | sed -n 's/^federate \([0-9][0-9A-Za-z.+-]*\).*/\1/p' || true
}

# The runner's target, empty if there are no binaries for it.
target() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) echo x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) echo aarch64-unknown-linux-musl ;;
    Darwin-x86_64) echo x86_64-apple-darwin ;;
    Darwin-arm64) echo aarch64-apple-darwin ;;
  esac
}

# The folder of this version's binary: the job's own, because what other jobs of the runner can write may not be run.
install_folder() {
  printf '%s/federate-%s' "$RUNNER_TEMP" "$version"
}

# The archive of this version's release, which later jobs of the runner verify again.
cached_archive() {
  printf '%s/federate/%s/%s' "${RUNNER_TOOL_CACHE:-$HOME/.cache}" "$version" "$1"
}

# Empties the folder of the binary: what is in it afterwards comes from this step, from the cache of builds, or from a build.
empty_install_folder() {
  [ -n "${RUNNER_TEMP:-}" ] || fail "RUNNER_TEMP is not set, and the action installs federate there"
  if ! rm -rf "$(install_folder)" || ! mkdir -p "$RUNNER_TEMP" || ! mkdir -m 700 "$(install_folder)"; then
    fail "$(install_folder) cannot be emptied, and what is in it may not be run"
  fi
}

find_binary() {
  local known
  empty_install_folder
  if known=$(command -v federate); then
    echo "$known is not run, because nothing says who built it: the action uses the release of its own version, $version"
  fi
  if find_release; then
    add_to_path "$(install_folder)"
    return 0
  fi
  tell notice "$why: federate $version is built from source, which takes minutes; a later run finds it in the cache"
  set_output build true
  set_output folder "$(install_folder)"
  set_output key "federate-$(uname -s)-$(uname -m)-$version-$(source_digest)"
}

# The digest of what a build depends on.
source_digest() {
  (cd "$source_folder" && find Cargo.toml Cargo.lock rust-toolchain.toml src crates -type f | LC_ALL=C sort | tr '\n' '\0' |
    xargs -0 cat | checksum)
}

# checksum: the SHA-256 of the input.
checksum() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum
  else
    shasum -a 256
  fi | cut -d ' ' -f 1
}

# Where releases are built: the repository, the workflow, and the tag of this version.
repository=federate-dev/federate
workflow=$repository/.github/workflows/release.yml

# verify FILE: whether the release workflow has built a file from the tag of this version. Whoever can replace a file of a release can
# replace its checksums, but cannot have the workflow's identity attest another file. Returns 1 and sets why if that cannot be looked
# up, and 2 if the file has no such attestation.
verify() {
  local code=0
  if ! command -v gh >/dev/null 2>&1 || ! gh attestation verify --help 2>/dev/null | grep -q -e --source-ref; then
    why="the release's attestation cannot be verified, because this runner has no \`gh\` that can (2.67 or newer)"
    return 1
  fi
  GH_HOST=github.com gh attestation verify "$1" --repo "$repository" --signer-workflow "$workflow" \
    --source-ref "refs/tags/v$version" --deny-self-hosted-runners >"$scratch/gh" 2>&1 || code=$?
  case $code in
    0) return 0 ;;
    # The token does not count there.
    4) why="the release's attestation cannot be verified, because \`gh\` is not logged in to github.com" && return 1 ;;
  esac
  why="${1##*/} has no attestation that $workflow has built it from the tag v$version"
  return 2
}

# Installs the binary of the release: of the archive that an earlier job of this runner has kept, or of one that is downloaded.
# Fails and sets why if there is none, or if its attestation cannot be looked up.
find_release() {
  local name code=0
  name=$(target)
  if [ -z "$name" ]; then
    why="releases have no binary for $(uname -s) on $(uname -m)"
    return 1
  fi
  name=federate-$name.tar.gz
  # A copy, because other jobs of the runner can write the archive while it is verified and unpacked.
  if cp "$(cached_archive "$name")" "$scratch/$name" 2>/dev/null; then
    verify "$scratch/$name" || code=$?
    case $code in
      0) unpack "$name" && echo "federate $version: found, with the attestation of the release" && return 0 ;;
      1) return 1 ;;
    esac
    tell warning "$(cached_archive "$name") is not used: $why"
  fi
  download "$name"
}

# unpack NAME: installs the binary of a verified archive.
unpack() {
  tar -xzf "$scratch/$1" -C "$(install_folder)" federate
}

# download NAME: installs the binary of an archive of the release; sets why if there is none. A wrong checksum, or a file that the
# release workflow has not built, is an error, not a reason to go on.
download() {
  local name=$1 address expected actual code=0
  address=${FEDERATE_RELEASES:-https://github.com/federate-dev/federate/releases/download}/v$version
  if ! fetch "$address/SHA256SUMS" "$scratch/SHA256SUMS"; then
    why="there is no release v$version, or it cannot be reached"
    return 1
  fi
  expected=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1; exit }' "$scratch/SHA256SUMS")
  if [ -z "$expected" ] || ! fetch "$address/$name" "$scratch/$name"; then
    why="the release v$version has no $name"
    return 1
  fi
  actual=$(checksum <"$scratch/$name")
  [ "$actual" = "$expected" ] ||
    fail "$address/$name has the checksum $actual, but SHA256SUMS names $expected: it is not what was released"
  verify "$scratch/$name" || code=$?
  case $code in
    0) ;;
    1) return 1 ;;
    *)
      tell error "$(tail -n 5 "$scratch/gh")"
      fail "$why: it is not what was released"
      ;;
  esac
  unpack "$name"
  keep "$name"
  echo "federate $version: downloaded, with the checksum and the attestation of the release"
}

# keep NAME: keeps a verified archive for later jobs of this runner. They download it where it cannot be kept.
keep() {
  local kept
  kept=$(cached_archive "$1")
  # A whole file or none, also when two jobs share the folder.
  if ! mkdir -p "${kept%/*}" 2>/dev/null || ! cp "$scratch/$1" "$kept.$$" 2>/dev/null || ! mv -f "$kept.$$" "$kept"; then
    rm -f "$kept.$$"
  fi
}

# fetch ADDRESS FILE
fetch() {
  command -v curl >/dev/null 2>&1 || fail "curl is not installed on this runner, and the action needs it"
  curl --silent --show-error --fail --location --proto-redir =https --retry 3 --connect-timeout 10 --max-time 300 --output "$2" "$1" 2>"$scratch/curl"
}

# Builds from source, unless the cache of builds has filled the folder since it was emptied.
build_binary() {
  if [ "$(version_of "$(install_folder)/federate")" != "$version" ]; then
    command -v cargo >/dev/null 2>&1 || fail "federate cannot be built: cargo is not installed on this runner"
    echo "::group::building federate $version"
    # In the action's folder, whose rust-toolchain.toml selects the toolchain.
    (cd "$source_folder" && cargo install --quiet --locked --path . --root "$scratch/root") ||
      fail "federate could not be built"
    mv -f "$scratch/root/bin/federate" "$(install_folder)/federate"
    echo "::endgroup::"
  fi
  add_to_path "$(install_folder)"
}
