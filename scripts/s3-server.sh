#!/bin/bash
# s3-server.sh start|stop DIR - an S3 server for tests: Ceph's radosgw over a memory-backed OSD.
#
#   PORT       where it listens on 127.0.0.1 (default: a free one); a bucket is also
#              http://BUCKET.localhost:PORT/
#   ACCESS, SECRET  the keys of its one user
#
# start empties DIR, prints the endpoint, and writes it to DIR/endpoint. DIR holds all state, and the
# pids by which stop ends exactly these processes. No root, network or service manager is needed.
# Debian: radosgw ceph-mon ceph-osd ceph-common, and python3-rados for tests/s3/fill.py.
set -eu

verb=${1:?start or stop} dir=${2:?a directory}
conf=$dir/ceph.conf
access=${ACCESS:-AKIDTESTTESTTEST0001}
secret=${SECRET:-testSecretKeyOfNoValue/+0123456789ABCDEFG}
limit=300 # seconds for a step that takes one on a quiet machine
unset CEPH_ARGS CEPH_CONF

# Print the pid of a pid file, if that process is still ours: another may have got its number.
ours() {
	local pid
	pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return 1
	{ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF -- "$conf" || return 1
	echo "$pid"
}

stop() {
	local file pid
	for file in "$dir"/run/*.pid; do
		pid=$(ours "$file") && kill "$pid" || continue
		for _ in $(seq 50); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		! kill -0 "$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null || true
	done
}

# free_ports COUNT: print ports that nobody listens on now
free_ports() {
	python3 -c '
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*[s.getsockname()[1] for s in sockets])' "$1"
}

configure() {
	cat >"$conf" <<-C
		[global]
		fsid = $(cat /proc/sys/kernel/random/uuid)
		mon_host = [v2:127.0.0.1:$1]
		auth_cluster_required = none
		auth_service_required = none
		auth_client_required = none
		ms_mon_client_mode = crc
		public_addr = 127.0.0.1
		cluster_addr = 127.0.0.1
		ms_bind_msgr1 = false
		ms_bind_port_min = 20000
		ms_bind_port_max = 32000
		run_dir = $dir/run
		admin_socket = $dir/run/\$name.asok
		pid_file = $dir/run/\$name.pid
		log_file = $dir/log/\$name.log
		crash_dir = $dir/log
		keyring = $dir/keyring
		mon_data = $dir/mon
		osd_data = $dir/osd
		mon_allow_pool_size_one = true
		mon_max_pg_per_osd = 10000
		mon_pg_warn_min_per_osd = 0
		mon_data_avail_crit = 1
		mon_data_avail_warn = 2
		mon_cluster_log_file = $dir/log/cluster.log
		paxos_propose_interval = 0.02
		paxos_min_wait = 0.01
		osd_pool_default_size = 1
		osd_pool_default_min_size = 1
		osd_pool_default_pg_num = 8
		osd_pool_default_pgp_num = 8
		osd_pool_default_pg_autoscale_mode = off
		osd_objectstore = memstore
		memstore_device_bytes = 17179869184
		osd_crush_chooseleaf_type = 0
		osd_crush_update_on_start = true
		osd_memory_target = 1073741824
		osd_op_num_shards = 2
		osd_op_num_threads_per_shard = 1
		osd_enable_op_tracker = false
		ms_crc_data = false
		debug_ms = 0
		debug_osd = 0
		debug_rgw = 0
		[client.rgw]
		rgw_frontends = beast endpoint=127.0.0.1:$2 tcp_nodelay=1 request_timeout_ms=0
		rgw_data = $dir
		rgw_dns_name = localhost
		rgw_dynamic_resharding = false
		rgw_enable_usage_log = false
		rgw_run_sync_thread = false
	C
}

# One try; it fails if another process has taken a port since it was found free.
try_start() {
	stop
	rm -rf "$dir"
	mkdir -p "$dir"/{mon,osd,run,log}
	chmod 700 "$dir"
	local monitor gateway osd pid
	read -r monitor gateway < <(free_ports 2)
	gateway=${PORT:-$gateway}
	configure "$monitor" "$gateway"
	: >"$dir/keyring"
	osd=$(cat /proc/sys/kernel/random/uuid)
	{
		monmaptool --create --fsid "$(sed -n 's/^fsid = //p' "$conf")" --addv a "[v2:127.0.0.1:$monitor]" "$dir/monmap" &&
			timeout "$limit" ceph-mon -c "$conf" -i a --mkfs --monmap "$dir/monmap" &&
			timeout "$limit" ceph-mon -c "$conf" -i a &&
			timeout "$limit" ceph -c "$conf" --connect-timeout "$limit" osd new "$osd" 0 &&
			timeout "$limit" ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$osd" &&
			timeout "$limit" ceph-osd -c "$conf" -i 0 &&
			timeout "$limit" radosgw-admin -c "$conf" -n client.rgw user create --uid=test --display-name=test \
				--access-key="$access" --secret-key="$secret"
	} >"$dir/log/start" 2>&1 </dev/null || return 1
	# In the foreground: as a daemon it would be gone from here before its pid file is there.
	setsid radosgw -f -c "$conf" -n client.rgw >>"$dir/log/start" 2>&1 </dev/null &
	pid=$!
	echo "$pid" >"$dir/run/client.rgw.pid"
	local end=$((SECONDS + limit))
	until [ "$(curl -s --noproxy '*' -m "$limit" -o "$dir/log/hello" -w '%{http_code}' "http://127.0.0.1:$gateway/")" = 200 ]; do
		# It has ended, or does not answer.
		kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
	echo "http://127.0.0.1:$gateway" >"$dir/endpoint"
}

start() {
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	conf=$dir/ceph.conf
	local try
	for try in 1 2 3 4 5; do
		if try_start; then
			cat "$dir/endpoint"
			return
		fi
		# Only a port that was taken meanwhile is a reason to try again.
		grep -qrE 'Address already in use|unable to bind|EADDRINUSE' "$dir/log" || break
	done
	echo "s3-server: no server after $try tries; $dir/log/start ends:" >&2
	tail -n 5 "$dir/log/start" >&2
	stop
	exit 1
}

case $verb in
start) start ;;
stop) dir=$(cd "$dir" 2>/dev/null && pwd) && conf=$dir/ceph.conf && stop ;;
*)
	echo "usage: $0 start|stop DIR" >&2
	exit 2
	;;
esac
