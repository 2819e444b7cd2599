# shellcheck shell=bash
# The results of the step: the job summary, the outputs, and the Markdown that comments share with them.

# say WORDS: adds to the result of this path.
say() {
  words=$words${words:+; }$1
}

# indent LINES FILE: as a block of code, because text that is not ours could close a fence. A carriage return ends a line
# of Markdown, too, so it is shown as a sign, as are all that act and cannot be seen. So many lines of 300 characters and
# no more: a comment and a summary are limited, the log is not.
indent() {
  jq -R -r -n --argjson lines "$1" "$visible"'
    [limit($lines + 1; inputs)]
    | (.[:$lines][] | "    " + (visible | .[0:300])), (.[$lines:][] | "    … (more in the log)")' "$2"
}

# A jq function for untrusted text.
visible='
  def visible: gsub("[\u0001-\u0008\u000a-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]"; "�");
  def references: visible
    | gsub("(?<c>[`*_~|#!\\[\\]\\\\])"; "\\\(.c)") | gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;")
    | gsub("@"; "&#64;<!-- -->") | gsub("://"; "&#58;//") | gsub("www\\."; "www&#46;");'

# words_of TEXT: as words of Markdown, whatever they are.
words_of() {
  printf '%s' "$1" | jq -Rsr "$visible references"
}

# code TEXT: as code within a line of Markdown.
# shellcheck disable=SC2016 # the backticks are Markdown
code() {
  case $1 in
    *[!0-9A-Za-z._/\ -]*) printf '<code>%s</code>' "$(words_of "$1")" ;;
    *) printf '`%s`' "$1" ;;
  esac
}

# Prints this path's part of the summary.
describe() {
  echo "## federate: $(code "$path")"
  echo
  words_of "$words"
  echo
  if [ -s "$mine/diff.md" ]; then
    cat "$mine/diff.md"
    echo
  fi
  if [ -s "$mine/plan.txt" ]; then
    indent 500 "$mine/plan.txt"
    echo
  fi
  if [ -s "$mine/findings.txt" ]; then
    echo "Findings:"
    echo
    indent 500 "$mine/findings.txt"
    echo
  fi
}

# Adds a part to the job summary. GitHub refuses one above a MiB as a whole, so a part that does not fit is left out.
summarize() {
  local part=$scratch/part
  describe >"$part"
  if [ "$(($(wc -c <"$summary_file") + $(wc -c <"$part")))" -gt 1000000 ]; then
    printf '%s\n\n' "## federate: $(code "$path")" "$(words_of "$words"); too long to show here." >"$part"
  fi
  cat "$part" >>"$summary_file"
}

# output NAME VALUE
output() {
  local word
  case $2 in
    *$'\n'* | *$'\r'*)
      word=federate-$(random_word)
      printf '%s<<%s\n%s\n%s\n' "$1" "$word" "$2" "$word"
      ;;
    *) printf '%s=%s\n' "$1" "$2" ;;
  esac >>"$output_file"
}

# The commits that were made: one, or those of the branches when each cluster has its own.
commits() {
  case $branch in
    *"{cluster}"*) jq -s -c 'map(select(.commit) | {(.branch): .commit}) | add // {} | if . == {} then empty else . end' ;;
    *) jq -s -r 'map(.commit // empty) | last // empty' ;;
  esac <"$scratch/branches"
}

# Writes the outputs.
write_outputs() {
  output changed "$changed"
  output summary "$summary"
  output plan "$plans"
  output diff "$diffs"
  output page "$pages"
  output commit "$(commits)"
  output exit-code "$worst"
}
