# The five longest words.
set -eu
sleep 0.3
tr -cs 'A-Za-z' '\n' <out/text.txt | sort -u | awk '{printf "%4d %s\n", length($0), $0}' | sort -k1,1nr -k2 | head -n 5 >out/longest.txt
