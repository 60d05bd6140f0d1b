#!/bin/sh
# A worker's command that talks to the bus with nothing but a shell and coreutils; docs/protocol.md says why it looks so.
set -eu
umask 077
bus=$CONDUCTOR_BUS_DIR attempt=$CONDUCTOR_ATTEMPT nonce=$CONDUCTOR_NONCE
own=$bus/attempts/${nonce%???????}/$attempt

publish() { # TYPE PAYLOAD: hand in one message, whole or not at all
    id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    line='{"id":"'$id'","type":"'$1'","attempt":"'$attempt'","timestamp":"'$(date -u +%FT%TZ)'","payload":'$2'}'
    name=$attempt.${id%????????????????}.msg
    printf '%s\nsha256:%s\n' "$line" "$(printf %s "$line" | sha256sum | cut -c 1-64)" >"$bus/tmp/$name"
    ln "$bus/tmp/$name" "$bus/inbox/$name"
    rm "$bus/tmp/$name"
}

publish PROGRESS '{"pct":50,"text":"half way"}'
if [ -e "$own/revoked" ]; then exit 76; fi # somebody wants this attempt to stop
report='{"verb":"complete","commit":null,"files":["greeting.txt"]}'
echo "hello from task $CONDUCTOR_TASK_ID" >greeting.txt
printf '%s\n' "$report" >"$bus/tmp/$attempt.report"
mv "$bus/tmp/$attempt.report" "$own/report.json" # where the worker finds it when this command has ended
publish REPORT "$report"
