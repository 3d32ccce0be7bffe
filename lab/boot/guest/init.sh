#!/bin/busybox sh
# The guest's first and only process: set the machine up, record the workload, hand the recording out.
#
# Lines that begin with "freehold" are messages to the host, one a line (src/console.rs reads them). A line "stop" from
# the host ends the recording early; what was recorded until then is handed out all the same.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TMPDIR=/scratch

say() { echo "freehold: $*"; }

# The host prints our sentence and the console's last lines.
give_up() {
    echo "freehold-failed: $*"
    power_off
}

power_off() {
    sync
    reboot -f
    # The machine is going down; nothing else may run.
    sleep 1000
}

mount_filesystems() {
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev
    mount -t tmpfs tmpfs /tmp
    # Where programs share memory by name.
    mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
    mount -t tracefs tracefs /sys/kernel/tracing ||
        give_up "this kernel has no tracefs; build it with CONFIG_FTRACE and CONFIG_ENABLE_DEFAULT_TRACERS"
    [ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
}

# A disk, so that files make page cache that reclaim can take back.
mount_scratch() {
    [ ! -e /modules/virtio_blk.ko ] || insmod /modules/virtio_blk.ko || give_up "the module virtio_blk did not load"
    [ -e /dev/vda ] || give_up "this kernel has no driver for the disk; build it with CONFIG_VIRTIO_PCI and CONFIG_VIRTIO_BLK"
    mke2fs -m 0 -i 262144 /dev/vda 2>/dev/null >/dev/null || give_up "the scratch disk could not be formatted"
    mount -t ext4 /dev/vda /scratch || give_up "the scratch disk could not be mounted; build with CONFIG_EXT4_FS"
}

# The user's own root folder, on the second disk, with what every root has.
mount_root() {
    mount -t ext4 /dev/vdb /mnt || give_up "the disk of the root folder could not be mounted"
    for folder in proc sys dev dev/shm tmp scratch; do
        mkdir -p "/mnt/$folder"
        mount --bind "/$folder" "/mnt/$folder" || give_up "the root folder has no folder /$folder"
    done
    cp /workload /mnt/workload
}

# Requests that no program can make, by a device.
load_module() {
    [ -e /modules/freehold_load.ko ] || return 0
    insmod /modules/freehold_load.ko || give_up "the module freehold_load did not load: $(dmesg | tail -n 1)"
}

apply_settings() {
    while read -r file value; do
        [ -e "$file" ] || give_up "this kernel has no setting $file"
        echo "$value" 2>/dev/null >"$file" || give_up "the guest's kernel refuses to set $file to $value"
    done </settings
}

# The serial port called freehold.delivery.
delivery_port() {
    for port in /sys/class/virtio-ports/*; do
        if [ "$(cat "$port/name" 2>/dev/null)" = freehold.delivery ]; then
            echo "/dev/${port##*/}"
        fi
    done
}

# Prints nothing, or the reason why the recorder failed.
why_not() {
    # The recorder passes on the status of its command, and writes the file only when the recording is complete.
    [ ! -s "$recording" ] || return 0
    case "$1" in
    0) echo "the recorder wrote no recording" ;;
    137) echo "the recorder was killed because the guest had no free memory; give more --memory" ;;
    130) echo "the recorder was interrupted in the guest" ;;
    *) echo "the recorder failed in the guest: $(tail -n 1 /tmp/recorder)" ;;
    esac
}

mount_filesystems
mount_scratch
load_module
ip link set lo up
. /plan
export MEMORY CPUS=$(nproc)
port=$(delivery_port)
[ -n "$port" ] || give_up "this kernel has no port for the recording; build it with CONFIG_VIRTIO_CONSOLE"
enter=""
if [ -n "$HAS_ROOT" ]; then
    mount_root
    enter="chroot /mnt"
fi
say "Linux $(uname -r) is up with $CPUS CPUs"

apply_settings
# What a workload says is no message to the host.
$enter sh /workload prepare >/tmp/said 2>&1 ||
    give_up "the workload could not be prepared (status $?): $(tail -n 1 /tmp/said)"
# What the workload has changed for itself does not stand against what was asked for.
apply_settings

say "recording"
recording=/scratch/recording.parquet
# Its status is the workload's, beside the recorder's own.
echo "$enter"' sh /workload run; echo $? >/tmp/status' >/tmp/run
freehold record --quiet --out "$recording" $RECORD -- sh /tmp/run >/tmp/recorder 2>&1 &
recorder=$!
{ read -r word; [ "$word" = stop ] && kill -INT $recorder; } </dev/console &
wait $recorder
reason=$(why_not $?)
[ -z "$reason" ] || give_up "$reason"

status=$(cat /tmp/status 2>/dev/null || echo -)
say "transferring the recording"
[ "$status" = 0 ] || say "the workload ended with status $status; its last line: $(tail -n 1 /tmp/recorder)"
cat "$recording" >"$port" || give_up "the recording could not be transferred"
echo "freehold-done: $(wc -c <"$recording") $status"
power_off
