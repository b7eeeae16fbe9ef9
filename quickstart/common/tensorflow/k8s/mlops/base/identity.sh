#!/bin/sh
# Gives whichever user the pod runs as a name and a shell: copies the image's passwd and group, and adds a line for this
# uid and gid where there is none. ssh, sshd and ssh-keygen refuse a uid without one, and so do many programs that ask
# who they are. The other containers of the pod mount both files over their own.
#
# Makes the folders of this package on volumes that it writes to, where an option of storage mounts such folders.
#
# Usage: identity.sh FOLDER HOME
set -eu
folder=$1 home=$2
uid=$(id -u) gid=$(id -g)

# An image may lack either file.
users=/etc/passwd groups=/etc/group
[ -r $users ] || users=/dev/null
[ -r $groups ] || groups=/dev/null

known=
while IFS=: read -r name password id group rest || [ "$name" ]; do # the last line may have no end
  if [ "$id" = "$uid" ]; then
    # sshd runs what it is asked to by the user's shell, which is often one that refuses (nologin).
    rest=${rest%:*}:/bin/sh known=yes
  fi
  printf '%s\n' "$name:$password:$id:$group:$rest"
done <$users >"$folder/passwd"
[ "$known" ] || echo "uid$uid:x:$uid:$gid:mlops user:$home:/bin/sh" >>"$folder/passwd"

known=
while IFS=: read -r name password id members || [ "$name" ]; do
  [ "$id" != "$gid" ] || known=yes
  printf '%s\n' "$name:$password:$id:$members"
done <$groups >"$folder/group"
[ "$known" ] || echo "gid$gid:x:$gid:" >>"$folder/group"

[ -z "${OUTPUT_FOLDER-}" ] || mkdir -p "/mnt/output/$OUTPUT_FOLDER"
[ -z "${DATASET_FOLDER-}" ] || mkdir -p "/mnt/dataset/$DATASET_FOLDER"
[ -z "${CHECKPOINT_FOLDER-}" ] || mkdir -p "/mnt/checkpoint/$CHECKPOINT_FOLDER"
