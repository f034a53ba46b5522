#!/bin/bash
# install-packages.sh NAME... - installs Debian packages, and starts and enables no service. As root.
#
# While it runs, a policy of its own in /usr/sbin/policy-rc.d forbids packages to start services; a policy that was
# there before is put back. At the end, what the packages have enabled is disabled, and nothing else: links that were
# there before stay. It ends with an error if something is enabled even then.
#
# What was there before is kept in $state until the end: the next run finishes what a killed one has left.
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
state=/var/lib/libshard-setup
policy=/usr/sbin/policy-rc.d
mark="libshard's scripts/install-packages.sh made this"

say() {
	echo "setup: $*" >&2
}

# The links by which services start: those of units, and those of scripts in /etc/init.d.
enabled() {
	{
		find /etc/systemd/system /etc/systemd/user -type l 2>/dev/null
		find /etc/rc?.d -name 'S*' -type l 2>/dev/null
	} | sort
}

# Those that were not there before.
added() {
	comm -13 "$state/enabled" <(enabled)
}

begin() {
	if [ -e $state ]; then
		say "an earlier run was killed: finishing what it began"
		dpkg --configure -a
	else
		rm -rf $state.new
		mkdir $state.new
		enabled >$state.new/enabled
		if [ -e $policy ] && ! grep -qF "$mark" $policy; then
			cp -a $policy $state.new/policy-rc.d
		fi
		mv -T $state.new $state
	fi
	printf '#!/bin/sh\n# %s: no service starts while it runs.\nexit 101\n' "$mark" >$policy.new
	chmod 755 $policy.new
	mv -f $policy.new $policy
}

disable_added() {
	local link name
	added | while read -r link; do
		case $link in
		/etc/rc?.d/*)
			name=${link##*/S[0-9][0-9]}
			[ ! -L "$link" ] || update-rc.d "$name" disable
			;;
		*) rm -f "$link" ;;
		esac
	done
	[ ! -d /run/systemd/system ] || systemctl daemon-reload
}

end() {
	local status=$? left names
	trap '' INT TERM HUP
	set +e
	names=$(added | sed 's|.*/\(S[0-9][0-9]\)\?||' | sort -u | tr '\n' ' ')
	[ -z "$names" ] || disable_added
	left=$(added | tr '\n' ' ')
	if [ -e $state/policy-rc.d ]; then
		cp -a $state/policy-rc.d $policy.new && mv -f $policy.new $policy
	elif grep -qsF "$mark" $policy; then
		rm -f $policy
	fi
	[ -z "$names" ] || say "not enabled, and not started: $names"
	if [ -n "$left" ]; then
		say "these are enabled, and were not before: $left"
		exit 1
	fi
	rm -rf $state
	exit "$status"
}

[ "$(id -u)" = 0 ] || {
	say "these need root: apt-get install $*"
	exit 1
}
exec 9</var/lib/dpkg # one run at a time
flock 9
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
begin
[ $# = 0 ] || apt-get -o DPkg::Lock::Timeout=1200 install -y -qq --no-install-recommends "$@"
