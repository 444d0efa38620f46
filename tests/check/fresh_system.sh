#!/usr/bin/env bash
# The newcomer's two commands in a fresh Debian or Ubuntu: a minimal system is made with debootstrap, the project is
# cloned into it, and ./run bench and ./run test are run there, which have to install all they need. Opt-in: needs root,
# debootstrap, the network and about 3 GB.
#
#   tests/check/fresh_system.sh [SUITE [MIRROR [FOLDER]]]     bookworm, http://deb.debian.org/debian, a temporary folder
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suite=${1:-bookworm}
mirror=${2:-http://deb.debian.org/debian}
folder=${3:-}
[ "$(id -u)" = 0 ] || { echo "fresh_system: must be root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh_system: debootstrap is not installed" >&2; exit 2; }
command -v git >/dev/null || { echo "fresh_system: git is not installed" >&2; exit 2; }

remove=""
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    remove=1
fi
cleanup() {
    for mount in dev/shm dev proc sys; do
        if mountpoint -q "$folder/$mount"; then umount "$folder/$mount"; fi
    done
    # Never remove across a mount that would not go away.
    if [ -n "$remove" ] && ! grep -q " $folder/" /proc/mounts; then rm -rf --one-file-system "$folder"; fi
}
trap cleanup EXIT

components=main
case $mirror in *ubuntu*) components=main,universe ;; esac
[ -e "$folder/bin/sh" ] || debootstrap --variant=minbase --components="$components" "$suite" "$folder" "$mirror"
mount -t proc proc "$folder/proc"
mount -t sysfs -o ro sysfs "$folder/sys"
mount -t tmpfs -o mode=755 tmpfs "$folder/dev"
mkdir "$folder/dev/shm"
for node in null zero full random urandom; do
    : >"$folder/dev/$node"
    mknod -m 666 "$folder/dev/$node.new" c "$(stat -c '0x%t' "/dev/$node")" "$(stat -c '0x%T' "/dev/$node")"
    mv "$folder/dev/$node.new" "$folder/dev/$node"
done
cp /etc/resolv.conf "$folder/etc/resolv.conf"
rm -rf "$folder/root/libhal"
git clone -q "$root" "$folder/root/libhal"

inside() { chroot "$folder" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C "$@"; }
for arguments in bench test devices; do
    begin=$SECONDS
    echo "==> ./run $arguments on a fresh $suite"
    inside /root/libhal/run "$arguments" </dev/null
    echo "==> ./run $arguments: $((SECONDS - begin)) s"
done
echo "fresh_system: passed on $suite"
