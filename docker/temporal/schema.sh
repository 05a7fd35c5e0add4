#!/bin/sh
# Temporal's tables, in both of its databases. Safe to run again: it brings an older schema up to date and leaves a
# current one alone. The databases are there already, so Temporal's role needs no right to create any.
#
# The connection comes from SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN, which the tool reads by itself.
set -eu

schema=${TEMPORAL_SCHEMA:-/etc/temporal/schema/postgresql/v12}

for store in temporal visibility; do
	case $store in
	temporal) database=temporal ;;
	visibility) database=temporal_visibility ;;
	esac
	temporal-sql-tool --db "$database" setup-schema -v 0.0
	temporal-sql-tool --db "$database" update-schema -d "$schema/$store/versioned"
done
