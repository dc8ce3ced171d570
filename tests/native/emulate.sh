#!/bin/sh
# Runs a static program with its arguments on a CPU that Bochs emulates, AVX-512 VNNI among its instructions.
#
# usage: emulate.sh FOLDER PROGRAM [ARGUMENT...]. The machine is made in FOLDER; what the program prints is shown, and
# its exit code is this script's. It needs Debian 12's packages bochs, bochs-term, bochsbios, vgabios, busybox-static,
# cpio, isolinux, syslinux-common and xorriso; a kernel is downloaded to FOLDER, not installed.
set -eu
folder=$1 program=$2
shift 2
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -rf "$folder/root" "$folder/disk" "$folder/console" "$folder/log"
mkdir -p "$folder/root/bin" "$folder/root/proc" "$folder/disk"

# The kernel for clouds: lz4 unpacks it in seconds, where the other one's xz takes minutes.
if ! ls "$folder"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
    (cd "$folder" && apt-get download -qq "$package" && dpkg -x "$package"_*.deb kernel)
fi
cp "$folder"/kernel/boot/vmlinuz-* "$folder/disk/linux"

cp /bin/busybox "$folder/root/bin"
cp "$program" "$folder/root/program"
cat >"$folder/root/init" <<EOF
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox grep -m 1 'model name' /proc/cpuinfo
/program $*
echo "exit code \$?"
/bin/busybox sleep 0.1
/bin/busybox poweroff -f
EOF
chmod +x "$folder/root/init"
(cd "$folder/root" && find . | cpio -o -H newc --quiet) >"$folder/disk/memory"

# Features that are taken away from Linux: Bochs 2.7 tells of the states of pku, xsavec and xsaves (515, 321, 323) so that
# Linux would do without AVX; with fsrm (580) but no erms, as Bochs starts, Linux 6.1 moves short blocks wrongly.
cat >"$folder/disk/isolinux.cfg" <<EOF
default linux
label linux
  kernel /linux
  append initrd=/memory console=ttyS0 quiet panic=-1 mitigations=off clearcpuid=515,321,323,580
EOF
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$folder/disk"
xorriso -as mkisofs -quiet -o "$folder/disk.iso" -b isolinux.bin -no-emul-boot -boot-load-size 4 -boot-info-table \
    "$folder/disk" 2>/dev/null

# As many instructions a second as the CPU says that it has cycles: Linux counts them where it waits.
cat >"$folder/bochsrc" <<EOF
cpu: model=tigerlake, ips=2400000000
memory: guest=512, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$folder/disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$folder/console
display_library: term
plugin_ctrl: speaker=0
sound: driver=dummy
log: $folder/log
panic: action=fatal
EOF
echo continue >"$folder/commands" # of Bochs' debugger, which Debian's build starts in
TERM=vt100 timeout 1800 script -qec "bochs -f $folder/bochsrc -rc $folder/commands" /dev/null >/dev/null </dev/null || true
sed 's/\r//' "$folder/console"
exit "$(sed -n 's/.*exit code \([0-9]*\).*/\1/p' "$folder/console" | tail -1)"
