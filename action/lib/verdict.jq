# Findings (slurped) in a few words.
def counted($severity): map(select(.severity == $severity)) | length
  | if . == 0 then empty elif . == 1 then "1 \($severity)" else "\(.) \($severity)s" end;
[counted("error"), counted("warning")] | if length == 0 then "clean" else join(", ") end
