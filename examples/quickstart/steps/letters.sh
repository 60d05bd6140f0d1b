# The ten commonest letters, drawn as bars.
set -eu
sleep 0.3
tr 'A-Z' 'a-z' <out/text.txt | tr -cd 'a-z' | fold -w 1 | sort | uniq -c | sort -k1,1nr -k2 | head -n 10 |
  awk '{bar = ""; for (i = 0; i < $1 / 2; i++) bar = bar "#"; printf "%4d %s %s\n", $1, $2, bar}' >out/letters.txt
