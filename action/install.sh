#!/usr/bin/env bash
# Installs the federate of the action's own version: the binary of its release, or else, where the release has none or its
# attestation cannot be looked up, a build from the action's source. Nothing is run that was found on the machine: neither a
# federate in the PATH, nor, without its attestation, what is in the tool cache.
#
#   install.sh find     verifies the archive in the tool cache, or downloads it; asks for a build with the output `build`
#   install.sh build    builds from source, unless a cache has the result
#   install.sh programs puts the pinned helm and kubectl into the PATH
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=action/lib/log.sh
. "$here/lib/log.sh"
# shellcheck source=action/lib/install.sh
. "$here/lib/install.sh"
# shellcheck source=action/lib/programs.sh
. "$here/lib/programs.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
output_file=${GITHUB_OUTPUT:-$scratch/output}

source_folder=${here%/*}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$source_folder/Cargo.toml")
[ -n "$version" ] || fail "the action's Cargo.toml has no version"
case ${1:-} in
  find) find_binary ;;
  build) build_binary ;;
  programs) install_programs ;;
  *) fail "install.sh needs \`find\`, \`build\` or \`programs\`" ;;
esac
