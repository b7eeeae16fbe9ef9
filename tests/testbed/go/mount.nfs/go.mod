module mlpack.test/mount.nfs

go 1.25.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/willscott/go-nfs-client v0.0.0-20240104095149-b44639837b00
)

require (
	github.com/rasky/go-xdr v0.0.0-20170124162913-1a41d1a06c93 // indirect
	golang.org/x/sys v0.28.0 // indirect
)
