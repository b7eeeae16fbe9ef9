package main

import (
	"context"
	"hash/fnv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"
)

// Mounts the folder of a server; whoever may enter the mount's own folder may ask the server.
func mount(asked request) (*fuse.Server, error) {
	remote, err := attach(asked.server, asked.path)
	if err != nil {
		return nil, asked.failure(err)
	}
	root := &node{export: remote, handle: remote.root}
	attributes, err := root.attributes(credentials(0, 0, nil))
	if err != nil {
		return nil, asked.failure(err)
	}
	if attributes.Type != nfs.NF3Dir {
		return nil, asked.failure(syscall.ENOTDIR)
	}
	flags := uintptr(syscall.MS_NOSUID | syscall.MS_NODEV)
	if asked.readOnly {
		flags |= syscall.MS_RDONLY
	}
	// Without timeouts, the kernel keeps neither names nor attributes. Without default_permissions, it leaves it to us,
	// and so to the server, who may do what.
	stable := stable(attributes, remote.root)
	server, err := fs.Mount(asked.folder, root, &fs.Options{
		NullPermissions: true,
		RootStableAttr:  &stable,
		MountOptions: fuse.MountOptions{
			AllowOther:         true,
			DirectMountStrict:  true,
			DirectMountFlags:   flags,
			DisableReadDirPlus: true,
			FsName:             asked.spec(),
			MaxWrite:           remote.transfer,
			Name:               "nfs",
		},
	})
	if err != nil {
		return nil, asked.failure(err)
	}
	return server, nil
}

// A file, folder or link of the server.
type node struct {
	fs.Inode
	*export
	handle []byte
}

// A file as somebody has opened it.
type file struct {
	*node
	opener rpc.Auth
}

var (
	_ fs.NodeAccesser   = (*node)(nil)
	_ fs.NodeCreater    = (*node)(nil)
	_ fs.NodeFsyncer    = (*node)(nil)
	_ fs.NodeGetattrer  = (*node)(nil)
	_ fs.NodeLinker     = (*node)(nil)
	_ fs.NodeLookuper   = (*node)(nil)
	_ fs.NodeMkdirer    = (*node)(nil)
	_ fs.NodeOpener     = (*node)(nil)
	_ fs.NodeReaddirer  = (*node)(nil)
	_ fs.NodeReader     = (*node)(nil)
	_ fs.NodeReadlinker = (*node)(nil)
	_ fs.NodeRenamer    = (*node)(nil)
	_ fs.NodeRmdirer    = (*node)(nil)
	_ fs.NodeSetattrer  = (*node)(nil)
	_ fs.NodeStatfser   = (*node)(nil)
	_ fs.NodeSymlinker  = (*node)(nil)
	_ fs.NodeUnlinker   = (*node)(nil)
	_ fs.NodeWriter     = (*node)(nil)
)

// What the server returns of an object that it has made.
type made struct {
	Handle     nfs.PostOpFH3
	Attributes nfs.PostOpAttr
	Folder     nfs.WccData
}

func (n *node) in(name string) nfs.Diropargs3 {
	return nfs.Diropargs3{FH: n.handle, Filename: name}
}

func (n *node) attributes(who rpc.Auth) (*nfs.Fattr, error) {
	var found nfs.Fattr
	err := n.ask(nfs.NFSProc3GetAttr, who, &n.handle, &found)
	return &found, err
}

func (n *node) Getattr(ctx context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	found, err := n.attributes(caller(ctx))
	if err == nil {
		fill(&out.Attr, found)
	}
	return errno(err)
}

func (n *node) Setattr(ctx context.Context, open fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	who := caller(ctx)
	if opened, is := open.(*file); is {
		who = opened.opener
	}
	var change nfs.Sattr3
	change.Mode.Mode, change.Mode.SetIt = in.GetMode()
	change.UID.UID, change.UID.SetIt = in.GetUID()
	change.GID.UID, change.GID.SetIt = in.GetGID()
	change.Size.Size, change.Size.SetIt = in.GetSize()
	if at, given := in.GetATime(); given {
		change.Atime = moment(at, in.Valid&fuse.FATTR_ATIME_NOW != 0)
	}
	if at, given := in.GetMTime(); given {
		change.Mtime = moment(at, in.Valid&fuse.FATTR_MTIME_NOW != 0)
	}
	if err := n.change(who, change); err != nil {
		return errno(err)
	}
	return n.Getattr(ctx, open, out)
}

func (n *node) change(who rpc.Auth, change nfs.Sattr3) error {
	arguments := struct {
		Handle  []byte
		Change  nfs.Sattr3
		Guarded bool
	}{n.handle, change, false}
	var changed nfs.WccData
	return n.ask(nfs.NFSProc3SetAttr, who, &arguments, &changed)
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	in := n.in(name)
	var found struct {
		Handle             []byte
		Attributes, Folder nfs.PostOpAttr
	}
	if err := n.ask(nfs.NFSProc3Lookup, caller(ctx), &in, &found); err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, found.Handle, found.Attributes, out)
}

// The node of an object of this folder.
func (n *node) child(
	ctx context.Context, handle []byte, known nfs.PostOpAttr, out *fuse.EntryOut,
) (*fs.Inode, syscall.Errno) {
	child := &node{export: n.export, handle: handle}
	attributes := &known.Attr
	if !known.IsSet {
		var err error
		if attributes, err = child.attributes(caller(ctx)); err != nil {
			return nil, errno(err)
		}
	}
	fill(&out.Attr, attributes)
	return n.NewInode(ctx, child, stable(attributes, handle)), 0
}

// The node of an object that this folder has got; a server need not say what it has made.
func (n *node) newChild(ctx context.Context, name string, created made, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if !created.Handle.IsSet {
		return n.Lookup(ctx, name, out)
	}
	return n.child(ctx, created.Handle.FH, created.Attributes, out)
}

func (n *node) Access(ctx context.Context, mask uint32) syscall.Errno {
	var wanted uint32
	if mask&4 != 0 {
		wanted |= nfs.ACCESS3_READ
	}
	if mask&2 != 0 {
		wanted |= nfs.ACCESS3_MODIFY | nfs.ACCESS3_EXTEND
	}
	if mask&1 != 0 {
		if n.IsDir() {
			wanted |= nfs.ACCESS3_LOOKUP
		} else {
			wanted |= nfs.ACCESS3_EXECUTE
		}
	}
	return n.permits(caller(ctx), wanted)
}

// Asks the server whether somebody may do all of what is wanted.
func (n *node) permits(who rpc.Auth, wanted uint32) syscall.Errno {
	arguments := struct {
		Handle []byte
		Wanted uint32
	}{n.handle, wanted}
	var granted struct {
		Attributes nfs.PostOpAttr
		Granted    uint32
	}
	if err := n.ask(nfs.NFSProc3Access, who, &arguments, &granted); err != nil {
		return errno(err)
	}
	if granted.Granted&wanted != wanted {
		return syscall.EACCES
	}
	return 0
}

// NFS 3 opens nothing: as the kernel's client does, ask whether it would be allowed.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	wanted := uint32(nfs.ACCESS3_READ)
	switch flags & syscall.O_ACCMODE {
	case syscall.O_WRONLY:
		wanted = nfs.ACCESS3_MODIFY | nfs.ACCESS3_EXTEND
	case syscall.O_RDWR:
		wanted |= nfs.ACCESS3_MODIFY | nfs.ACCESS3_EXTEND
	}
	who := caller(ctx)
	if refused := n.permits(who, wanted); refused != 0 {
		return nil, 0, refused
	}
	return &file{n, who}, 0, 0
}

func (n *node) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	who := caller(ctx)
	arguments := struct {
		In      nfs.Diropargs3
		Guarded bool // UNCHECKED or GUARDED: whether it is a failure that the file exists
		Set     nfs.Sattr3
	}{n.in(name), flags&syscall.O_EXCL != 0, permissions(mode)}
	var created made
	if err := n.ask(nfs.NFSProc3Create, who, &arguments, &created); err != nil {
		return nil, nil, 0, errno(err)
	}
	inode, failed := n.newChild(ctx, name, created, out)
	if failed != 0 {
		return nil, nil, 0, failed
	}
	return inode, &file{inode.Operations().(*node), who}, 0, 0
}

func (n *node) Read(_ context.Context, open fs.FileHandle, into []byte, from int64) (fuse.ReadResult, syscall.Errno) {
	read := 0
	for read < len(into) { // to the kernel, fewer bytes than it wanted mean the end of the file
		arguments := struct {
			Handle []byte
			From   uint64
			Count  uint32
		}{n.handle, uint64(from) + uint64(read), uint32(len(into) - read)}
		var got struct {
			Attributes nfs.PostOpAttr
			Count      uint32
			End        bool
			Data       []byte
		}
		if err := n.ask(nfs.NFSProc3Read, open.(*file).opener, &arguments, &got); err != nil {
			return nil, errno(err)
		}
		read += copy(into[read:], got.Data)
		if got.End || len(got.Data) == 0 {
			break
		}
	}
	return fuse.ReadResultData(into[:read]), 0
}

func (n *node) Write(_ context.Context, open fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	arguments := struct {
		Handle []byte
		At     uint64
		Count  uint32
		Stable uint32
		Data   []byte
	}{n.handle, uint64(at), uint32(len(data)), fileSync, data}
	var written struct {
		File      nfs.WccData
		Count     uint32
		Committed uint32
		Verifier  uint64
	}
	err := n.ask(nfs.NFSProc3Write, open.(*file).opener, &arguments, &written)
	return written.Count, errno(err)
}

// Nothing is left to do: every write was for good.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return 0
}

type entry struct {
	Number uint64
	Name   string
	Cookie uint64
	Next   *entry `xdr:"optional"`
}

func (n *node) Readdir(ctx context.Context) (fs.DirStream, syscall.Errno) {
	var entries []fuse.DirEntry
	who := caller(ctx)
	arguments := struct {
		Handle           []byte
		Cookie, Verifier uint64
		Count            uint32
	}{Handle: n.handle, Count: 32 << 10}
	for {
		var listed struct {
			Folder   nfs.PostOpAttr
			Verifier uint64
			First    *entry `xdr:"optional"`
			End      bool
		}
		if err := n.ask(procReadDir, who, &arguments, &listed); err != nil {
			return nil, errno(err)
		}
		for each := listed.First; each != nil; each = each.Next {
			entries = append(entries, fuse.DirEntry{Ino: each.Number, Name: each.Name})
			arguments.Cookie = each.Cookie
		}
		if listed.End || listed.First == nil {
			return fs.NewListDirStream(entries), 0
		}
		arguments.Verifier = listed.Verifier
	}
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	arguments := struct {
		In  nfs.Diropargs3
		Set nfs.Sattr3
	}{n.in(name), permissions(mode)}
	var created made
	if err := n.ask(nfs.NFSProc3Mkdir, caller(ctx), &arguments, &created); err != nil {
		return nil, errno(err)
	}
	return n.newChild(ctx, name, created, out)
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	arguments := struct {
		In     nfs.Diropargs3
		Set    nfs.Sattr3
		Target string
	}{In: n.in(name), Target: target}
	var created made
	if err := n.ask(nfs.NFSProc3Symlink, caller(ctx), &arguments, &created); err != nil {
		return nil, errno(err)
	}
	return n.newChild(ctx, name, created, out)
}

func (n *node) Readlink(ctx context.Context) ([]byte, syscall.Errno) {
	var link struct {
		Attributes nfs.PostOpAttr
		Target     []byte
	}
	err := n.ask(nfs.NFSProc3Readlink, caller(ctx), &n.handle, &link)
	return link.Target, errno(err)
}

func (n *node) Link(
	ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut,
) (*fs.Inode, syscall.Errno) {
	arguments := struct {
		Handle []byte
		In     nfs.Diropargs3
	}{target.(*node).handle, n.in(name)}
	var linked struct {
		Attributes nfs.PostOpAttr
		Folder     nfs.WccData
	}
	if err := n.ask(procLink, caller(ctx), &arguments, &linked); err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, arguments.Handle, linked.Attributes, out)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.remove(ctx, nfs.NFSProc3Remove, name)
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.remove(ctx, nfs.NFSProc3RmDir, name)
}

func (n *node) remove(ctx context.Context, procedure uint32, name string) syscall.Errno {
	in := n.in(name)
	var folder nfs.WccData
	return errno(n.ask(procedure, caller(ctx), &in, &folder))
}

func (n *node) Rename(
	ctx context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32,
) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL // NFS 3 knows neither an exchange nor a rename that replaces nothing
	}
	arguments := struct{ From, To nfs.Diropargs3 }{n.in(name), to.(*node).in(newName)}
	var folders struct{ From, To nfs.WccData }
	return errno(n.ask(nfs.NFSProc3Rename, caller(ctx), &arguments, &folders))
}

func (n *node) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	var found struct {
		Attributes                  nfs.PostOpAttr
		Bytes, FreeBytes, OursBytes uint64
		Files, FreeFiles, OursFiles uint64
		Seconds                     uint32
	}
	err := n.ask(procFSStat, caller(ctx), &n.handle, &found)
	out.Bsize, out.Frsize, out.NameLen = block, block, 255
	out.Blocks, out.Bfree, out.Bavail = found.Bytes/block, found.FreeBytes/block, found.OursBytes/block
	out.Files, out.Ffree = found.Files, found.FreeFiles
	return errno(err)
}

const block = 4096

// Tells an object from every other one, also from one that gets its number after it: what NFS calls a handle does.
func stable(attributes *nfs.Fattr, handle []byte) fs.StableAttr {
	digest := fnv.New64a()
	digest.Write(handle)
	return fs.StableAttr{Mode: kind(attributes), Ino: attributes.Fileid, Gen: digest.Sum64()}
}

func kind(attributes *nfs.Fattr) uint32 {
	switch attributes.Type {
	case nfs.NF3Dir:
		return syscall.S_IFDIR
	case nfs.NF3Lnk:
		return syscall.S_IFLNK
	case nfs.NF3Blk:
		return syscall.S_IFBLK
	case nfs.NF3Chr:
		return syscall.S_IFCHR
	case nfs.NF3Sock:
		return syscall.S_IFSOCK
	case nfs.NF3FIFO:
		return syscall.S_IFIFO
	}
	return syscall.S_IFREG
}

func fill(out *fuse.Attr, from *nfs.Fattr) {
	out.Ino, out.Size, out.Nlink = from.Fileid, from.Filesize, from.Nlink
	out.Mode = kind(from) | from.FileMode&0o7777
	out.Uid, out.Gid = from.UID, from.GID
	out.Blocks, out.Blksize = (from.Used+511)/512, block
	out.Atime, out.Atimensec = uint64(from.Atime.Seconds), from.Atime.Nseconds
	out.Mtime, out.Mtimensec = uint64(from.Mtime.Seconds), from.Mtime.Nseconds
	out.Ctime, out.Ctimensec = uint64(from.Ctime.Seconds), from.Ctime.Nseconds
}

func permissions(mode uint32) nfs.Sattr3 {
	return nfs.Sattr3{Mode: nfs.SetMode{SetIt: true, Mode: mode & 0o7777}}
}

func moment(at time.Time, now bool) nfs.SetTime {
	if now {
		return nfs.SetTime{SetIt: nfs.SetToServerTime}
	}
	given := nfs.NFS3Time{Seconds: uint32(at.Unix()), Nseconds: uint32(at.Nanosecond())}
	return nfs.SetTime{SetIt: nfs.SetToClientTime, Time: given}
}
