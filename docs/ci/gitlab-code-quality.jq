# Findings of `federate check -o json` as GitLab's code quality report; `--arg folder` is the folder that was checked.
[.findings[] | select(.file) | {
  description: (.message + if .help then " (" + .help + ")" else "" end),
  check_name: .code,
  fingerprint: ([.code, .file, .line, .message] | tostring | @base64),
  severity: (if .severity == "error" then "major" else "minor" end),
  location: {path: "\($folder)/\(.file)", lines: {begin: (.line // 1)}}
}]
