# shellcheck shell=bash disable=SC2154 # variables are those of lib/setup.sh
# The formula of a release names the version and the checksum of each archive, and is refused where one is missing.
sums=$work/SHA256SUMS
for target in aarch64-apple-darwin x86_64-apple-darwin aarch64-unknown-linux-musl x86_64-unknown-linux-musl; do
  echo "$(sha256sum <<<"$target" | cut -d ' ' -f 1)  federate-$target.tar.gz"
done >"$sums"
formula=$(bash "${here%/*}/deploy/release/formula.sh" 1.2.3 "$sums")
grep -q '@' <<<"$formula" && echo "the formula has placeholders" && exit 1
while read -r sum archive; do
  grep -A 1 "/v1.2.3/$archive\"" <<<"$formula" | grep -q "sha256 \"$sum\"" || { echo "$archive has another checksum" && exit 1; }
done <"$sums"
sed -i '$d' "$sums"
! bash "${here%/*}/deploy/release/formula.sh" 1.2.3 "$sums" >/dev/null 2>&1 || { echo "an archive is missing" && exit 1; }
