#!/bin/sh
# Process 1 of the node, in fresh mount, network, PID, UTS and IPC namespaces: lays out what a node has, then becomes `pause`.
# Arguments: the run folder, then the folders with programs.
#
#   /run          tmpfs: sockets and network namespaces, as on any machine
#   /run/bin/*    the programs built; /run/config this folder; /run/credentials keys and kubeconfigs
#   /var          the run folder's var: so that also the paths hard-coded in the kubelet, the container runtime and CNI
#                 (/var/log/containers, /run/containerd/s, /var/lib/cni …) touch nothing of the machine's
set -eu
folder=$1
shift

mount --make-rshared / # what the kubelet expects of a node: mounts reach containers that ask for propagation

# Everything is gathered below the run folder before /run and /var are covered: any of the sources may lie in one of them.
run=$folder/run
mount -t tmpfs -o mode=755 node "$run"
mkdir -p "$run/config" "$run/credentials" "$run/bin" "$run/sysctl"
mount --bind "$folder/config" "$run/config"
mount --bind "$folder/credentials" "$run/credentials"
for programs; do # <cache>/<name>-<digest>
	name=$(basename "${programs%-*}")
	mkdir "$run/bin/$name"
	mount --bind "$programs" "$run/bin/$name"
done
mkdir -p "$folder/var/log" "$folder/var/lib" "$folder/var/tmp"
ln -sfn /run "$folder/var/run"
mkdir "$run/var"
mount --bind "$folder/var" "$run/var"
# Kueue looks for the certificate of its metrics below /etc and nowhere else; the machine's own /etc stays as it is.
mkdir -p "$run/etc/upper/kueue/metrics" "$run/etc/work"
ln -s /run/credentials/kueue "$run/etc/upper/kueue/metrics/certs"
mount -t overlay -o "lowerdir=/etc,upperdir=$run/etc/upper,workdir=$run/etc/work" node /etc
mount --rbind "$run" /run
mount --bind /run/var /var

# The kubelet sets these six for the whole kernel (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go). A test
# cluster has no business there: it finds files that already say what it wants to hear.
for tunable in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
	kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	file=/run/sysctl/$(basename "${tunable%=*}")
	echo "${tunable#*=}" >"$file"
	mount --bind "$file" "/proc/sys/${tunable%=*}"
done

hostname node
ip link set lo up
# A bridge without an address of its own takes the lowest one of its ports. Each pod that comes or goes could change it, and
# the others then reached neither the API server nor DNS until they asked for it again, up to half a minute later.
ip link add cni0 address 0a:58:0a:f4:00:01 type bridge
ip address add 10.244.0.1/24 dev cni0
ip address add 10.96.0.1/32 dev cni0 # of the Service `kubernetes`: there is no kube-proxy to lead pods to the API server
ip link set cni0 up

touch /run/ready
exec /run/bin/pause/pause
