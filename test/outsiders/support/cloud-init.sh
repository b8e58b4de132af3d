#!/bin/bash
# Boots cloud-init once in its own namespaces, over a copy-on-write view of the root directory, so
# that nothing on this host changes.
# Usage: cloud-init.sh PACKAGES OUT
# PACKAGES is the directory of the unpacked packages. The output is written to the directory OUT.
# Exits with 77 if the host does not allow the namespaces.
set -euo pipefail
packages=$(realpath "$1") out=$(realpath "$2")

inside() {
  mount --make-rprivate /
  base=$(mktemp -d)
  mount -t tmpfs none "$base"
  mkdir "$base/up" "$base/work" "$base/root"
  # The overlay puts the packages on top of the root directory. /lib of the packages is removed,
  # because on Debian /lib is a symlink, which a directory would hide.
  cp -a "$packages" "$base/packages"
  rm -rf "$base/packages/lib" "$base/packages"/*.deb
  mount -t overlay overlay -o "lowerdir=$base/packages:/,upperdir=$base/up,workdir=$base/work" "$base/root" || exit 77
  root=$base/root
  mount -t tmpfs none "$root/run"
  mount -t tmpfs none "$root/tmp"
  mount -t proc proc "$root/proc"
  mount -t tmpfs none "$root/dev"
  for device in null zero random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root/tmp/out"
  mount --bind "$out" "$root/tmp/out"
  mkdir -p "$root/var/lib/cloud/seed/nocloud"
  echo 'instance-id: i-outsider' >"$root/var/lib/cloud/seed/nocloud/meta-data"
  cat >"$root/var/lib/cloud/seed/nocloud/user-data" <<'SEED'
#cloud-config
locale: C.UTF-8
timezone: Nowhere/Nothing
bootcmd: [[sh, -c, "true"]]
runcmd: [[sh, -c, "exit 3"]]
SEED
  cat >"$root/etc/cloud/cloud.cfg" <<'CONFIG'
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [seed_random, bootcmd]
cloud_config_modules: [locale, timezone, runcmd]
cloud_final_modules: [scripts_user, final_message]
system_info: {distro: debian}
CONFIG
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1 \
    bash -c '
      init() { /usr/bin/python3 /usr/bin/cloud-init "$@"; }
      # One module fails on purpose, which makes its stage fail too.
      for stage in "init --local" init "modules --mode=config" "modules --mode=final"; do init $stage || true; done
      for report in show blame dump; do init analyze $report >/tmp/out/$report.txt || exit 1; done
    ' >"$out/output.txt" 2>&1
}

if [ "${INSIDE:-}" ]; then inside; else
  user=() && [ "$(id -u)" = 0 ] || user=(--user --map-root-user)
  namespaces=("${user[@]}" --mount --uts --net --ipc --pid --fork --kill-child)
  unshare "${namespaces[@]}" true || exit 77
  INSIDE=1 exec unshare "${namespaces[@]}" bash "$0" "$packages" "$out"
fi
