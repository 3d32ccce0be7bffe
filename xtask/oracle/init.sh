#!/bin/busybox sh
# The guest's first and only process: set the machine up, record the workload, hand the recording out.
#
# Lines that begin with "oracle" are messages to the host (xtask/src/oracle/machine.rs reads them).

/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TMPDIR=/scratch

say() { echo "oracle: $*"; }

# The host prints our sentence and the console's last lines.
give_up() {
    echo "oracle-failed: $*"
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
    mount -t tracefs tracefs /sys/kernel/tracing
    mount -t tmpfs tmpfs /tmp
    ln -s /proc/self/fd /dev/fd
}

# A disk, so that files make page cache that reclaim can take back.
mount_scratch() {
    insmod /modules/virtio_blk.ko || give_up "the disk driver did not load"
    mke2fs -m 0 -i 262144 /dev/vda 2>/dev/null >/dev/null || give_up "the scratch disk could not be formatted"
    mount -t ext4 /dev/vda /scratch || give_up "the scratch disk could not be mounted"
}

# The value of `oracle.$1=` on the kernel's command line.
argument() { sed -n "s/.*oracle\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# The serial port called freehold.delivery.
delivery_port() {
    for port in /sys/class/virtio-ports/*; do
        if [ "$(cat "$port/name")" = freehold.delivery ]; then
            echo "/dev/${port##*/}"
        fi
    done
}

mount_filesystems
mount_scratch
ip link set lo up
workload=/workloads/$(argument workload).sh
export CPUS=$(nproc) MEMORY=$(argument memory)
port=$(delivery_port)
[ -n "$port" ] || give_up "the serial port for the recording is missing"
say "Linux $(uname -r) is up with $CPUS CPUs"

sh "$workload" prepare || give_up "the workload could not be prepared"
say "recording"
recording=/scratch/recording.parquet
freehold record --quiet --out "$recording" -- sh "$workload" run
status=$?
[ "$status" = 0 ] || give_up "freehold record ended with status $status"
[ -s "$recording" ] || give_up "freehold record left no recording"

say "handing the recording out"
cat "$recording" >"$port" || give_up "the recording could not be handed out"
echo "oracle-done: $(wc -c <"$recording")"
power_off
