#!/bin/sh
# The namespace, how long closed workflows stay in it, and the search attributes that payonce's workflows set. A
# workflow that sets an unknown attribute is stuck, so this runs before the first worker. Safe to run again.
#
# The address and the namespace come from TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, which the CLI reads by itself.
set -eu

# Tries a command once a second. The server answers its port before it can serve, and learns of a new namespace some
# seconds after it was made.
patiently() {
	tries=60
	until "$@"; do
		tries=$((tries - 1))
		if [ "$tries" -eq 0 ]; then
			echo "gave up: $*" >&2
			exit 1
		fi
		sleep 1
	done
}

patiently temporal operator cluster health

if temporal operator namespace describe >/dev/null 2>&1; then
	temporal operator namespace update --retention "$TEMPORAL_RETENTION"
else
	temporal operator namespace create --retention "$TEMPORAL_RETENTION"
fi

patiently temporal operator search-attribute create \
	--name PayonceState --type Keyword \
	--name PayonceTransferID --type Keyword
