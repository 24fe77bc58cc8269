#!/bin/sh
# crontab:  */5 * * * *  TABLE=/lake/rides LOG=/var/lib/hours.db STATE=/var/lib/hours.json /opt/jobs/cron.sh
#
# The state file has the cursor and what is left to run. A cursor of its own would be stored before
# its list, which a crash then loses, or behind it, and then the list runs again. A lock keeps the
# next run away; a command that fails is tried again by the next one.
exec tidegauge intervals "$TABLE" --event-time t --by 1h --state "$STATE" -- \
    python "$(dirname "$0")/run_hour.py" "$TABLE" "$LOG" {start} {end} {version}
