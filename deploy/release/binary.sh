#!/usr/bin/env bash
# Builds the binary of a release for this machine: its archive and its SBOM in release/, what is in the archive in package/.
#
#   binary.sh TARGET
set -euo pipefail
target=$1
name=federate-$target
rm -rf release package
mkdir -p release package/completions

echo "::group::tools"
rustup target add "$target"
cargo install cargo-auditable --version 0.7.7 --locked
cargo install cargo-cyclonedx --version 0.5.9 --locked
cargo install rust-audit-info --version 0.5.4 --locked
if [ "$(uname -s)" = Linux ]; then
  # A C compiler for static binaries.
  sudo apt-get update
  sudo apt-get install --yes --no-install-recommends musl-tools
fi
echo "::endgroup::"

echo "::group::binary"
cargo auditable build --profile dist --locked --target "$target" --bin federate
cp "target/$target/dist/federate" package/federate
strip package/federate
if [ "$(uname -s)" = Linux ]; then
  linked=$(ldd package/federate 2>&1 || true)
  if grep -v 'statically linked\|not a dynamic executable' <<<"$linked"; then
    echo "::error::the binary is not static"
    exit 1
  fi
fi
echo "::endgroup::"

package/federate completions bash >package/completions/federate.bash
package/federate completions zsh >package/completions/_federate
package/federate completions fish >package/completions/federate.fish
package/federate man --out package/man
cp LICENSE CHANGELOG.md package/
tar -C package -czf "release/$name.tar.gz" federate completions man LICENSE CHANGELOG.md
tar -xzf "release/$name.tar.gz" -O federate >/dev/null

echo "::group::SBOM"
cargo cyclonedx --format json --spec-version 1.5 --target "$target" --override-filename "$name.cdx"
mv "$name.cdx.json" release/
echo "::endgroup::"

# Every crate in the binary is in the SBOM.
rust-audit-info package/federate |
  jq -r '.packages[] | select(.kind != "build" and (.root | not)) | "\(.name) \(.version)"' | sort -u >in-binary
jq -r '.components[] | "\(.name) \(.version)"' "release/$name.cdx.json" | sort -u >in-sbom
test -s in-binary
comm -23 in-binary in-sbom >missing
if [ -s missing ]; then
  echo "::error::the SBOM lacks crates: $(paste -sd ',' missing)"
  exit 1
fi
