# For the scripts beside it, to be sourced: how far work is and how long it will take. On a terminal
# in one line that changes, elsewhere in a line every ten percent.

# progress TITLE SECONDS: reads what work prints, and shows of it
#   [12/345] Building x.o                   of ninja
#   [ 12%] Building x.o                     of make
#   12/345 Test #7: name ...                of ctest
#   pmstatus:g++:45.2:Installing g++        of apt-get (APT::Status-Fd), and dlstatus:...
# SECONDS is how long it is expected to take: the less is done, the more it counts beside the work's
# own speed.
progress() {
  local terminal='' columns=${COLUMNS:-} awk=awk
  if [[ -t 1 ]]; then
    terminal=1
    [[ -n $columns ]] || { columns=$(stty size <&3 2>/dev/null || true); } 3>&1
    columns=${columns##* }
  fi
  command -v mawk >/dev/null && awk="mawk -W interactive" # it would wait for a full buffer
  $awk -v title="$1" -v expected="$2" -v columns="${columns:-80}" -v terminal="$terminal" '
    function now(   clock, seconds) {
      clock = "date +%s"
      clock | getline seconds
      close(clock)
      return seconds
    }
    function span(s) {
      s = int(s + 0.5)
      return s < 60 ? s " s" : sprintf("%d:%02d min", s / 60, s % 60)
    }
    function show(percent, what,   elapsed, left, line) {
      if (!terminal && int(percent / 10) <= shown) return
      shown = int(percent / 10)
      elapsed = now() - start
      left = (100 - percent) * (elapsed + expected * (100 - percent) / 100) / 100
      line = sprintf("%s: %d %%, about %s left", title, percent, span(left))
      if (terminal)
        printf "\r\033[K%s", substr(line "  " what, 1, columns - 1)
      else
        print line
      fflush()
    }
    function after(mark) { return substr($0, index($0, mark) + length(mark)) }
    BEGIN {
      start = now()
      if (!terminal) shown = 0
      printf terminal ? "%s: about %s" : "%s: about %s\n", title, span(expected)
      fflush()
    }
    /^\[ *[0-9]+\/[0-9]+\]/ { split($0, n, /[^0-9]+/); show(100 * n[2] / n[3], after("] ")); next }
    /^\[ *[0-9]+%\]/ { split($0, n, /[^0-9]+/); show(n[2], after("] ")); next }
    /^ *[0-9]+\/[0-9]+ Test / { sub(/^ +/, ""); split($0, n, /[^0-9]+/); show(100 * n[1] / n[2], after("Test ")); next }
    # All packages are fetched first, then installed: about a third of the time, and the rest.
    match($0, /(dl|pm)status:/) {
      split(substr($0, RSTART), n, ":")
      show(n[1] == "dlstatus" ? n[3] / 3 : (100 + 2 * n[3]) / 3, n[4])
    }
    END { if (terminal) printf "\r\033[K" }'
}
