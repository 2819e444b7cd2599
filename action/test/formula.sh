# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# The formula of a release names the version and the checksum of each archive. Where one is missing, the formula and the notes say so.
release=${here%/*}/deploy/release
sums=$work/SHA256SUMS
while read -r target; do
  echo "$(sha256sum <<<"$target" | cut -d ' ' -f 1)  federate-$target.tar.gz"
done <"$release/targets" >"$sums"
[ "$(wc -l <"$sums")" -gt 2 ] || { echo "the targets are not found" && exit 1; }
echo "# Changes" >"$work/changes.md"

# formula: has a line for each archive of $sums, and no placeholder.
formula() {
  formula=$(bash "$release/formula.sh" 1.2.3 "$sums" 2>"$work/log") || wrong "no formula" log
  ! grep -q '@' <<<"$formula" || { echo "the formula has placeholders" && exit 1; }
  while read -r sum archive; do
    grep -A 1 "/v1.2.3/$archive\"" <<<"$formula" | grep -q "sha256 \"$sum\"" || { echo "$archive has another checksum" && exit 1; }
  done <"$sums"
}
formula
! grep -q odie <<<"$formula" || { echo "an archive is missing" && exit 1; }
[ "$(bash "$release/notes.sh" 1.2.3 "$sums" "$work/changes.md")" = "# Changes" ] || { echo "the notes have more than the changes" && exit 1; }

# One leg of the release did not build.
sed -i.all '/x86_64-apple-darwin/d' "$sums"
formula
grep -q 'odie "federate 1.2.3 has no binary for x86_64-apple-darwin; build it: cargo install' <<<"$formula" ||
  { echo "the formula does not say what is missing" && exit 1; }
! grep -q 'download/v1.2.3/federate-x86_64-apple-darwin' <<<"$formula" || { echo "the formula names what is missing" && exit 1; }
has log 'has no federate-x86_64-apple-darwin.tar.gz'
bash "$release/notes.sh" 1.2.3 "$sums" "$work/changes.md" >"$work/notes.md"
has notes.md 'This release has no binary for these platforms'
has notes.md '- `x86_64-apple-darwin`'
has_not notes.md 'linux'
[ "$(tail -n 1 "$work/notes.md")" = "# Changes" ] || wrong "no changes" notes.md

: >"$sums"
! bash "$release/formula.sh" 1.2.3 "$sums" >/dev/null 2>&1 || { echo "no archive is there" && exit 1; }
