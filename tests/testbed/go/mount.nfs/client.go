package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"
	"github.com/willscott/go-nfs-client/nfs/xdr"
)

// Of RFC 1813, and not among the module's constants.
const (
	procLink    = 15
	procReadDir = 16
	procFSStat  = 18

	authSys       = 1
	mostGroups    = 16 // that AUTH_SYS carries
	fileSync      = 2
	largestRecord = 4 << 20
)

// A connection to one program of the server. The module has a client too, which binds to a random local port and gives up
// when that one is taken, and tries again after some seconds what a busy server is still at.
type connection struct {
	program, version uint32

	socket  net.Conn
	lock    sync.Mutex
	last    uint32
	waiting map[uint32]chan<- []byte // nil once the connection is lost
}

// Connects to a program by the port that the server's rpcbind names.
func dialProgram(server string, program, version uint32) (*connection, error) {
	binder, err := dial(server, rpc.PmapPort, rpc.PmapProg, rpc.PmapVers)
	if err != nil {
		return nil, err
	}
	defer binder.socket.Close()
	wanted := rpc.Mapping{Prog: program, Vers: version, Prot: rpc.IPProtoTCP}
	reader, err := binder.call(rpc.PmapProcGetPort, rpc.AuthNull, &wanted)
	if err != nil {
		return nil, err
	}
	port, err := xdr.ReadUint32(reader)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, syscall.EPROTONOSUPPORT
	}
	return dial(server, port, program, version)
}

func dial(server string, port, program, version uint32) (*connection, error) {
	address := net.JoinHostPort(strings.Trim(server, "[]"), strconv.Itoa(int(port)))
	socket, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &connection{program: program, version: version, socket: socket, waiting: map[uint32]chan<- []byte{}}
	// A server may still know the answers to a client that had this address and port before: not to the same number.
	c.last = rand.Uint32()
	go c.receive()
	return c, nil
}

// Calls a procedure of ONC RPC (RFC 5531) and returns what there is to read of its results.
func (c *connection) call(procedure uint32, credentials rpc.Auth, arguments any) (io.Reader, error) {
	answer := make(chan []byte, 1)
	if err := c.send(procedure, credentials, arguments, answer); err != nil {
		return nil, err
	}
	record, ok := <-answer
	if !ok {
		return nil, syscall.EIO
	}
	reader := bytes.NewReader(record)
	var message struct{ ID, Type, Denied uint32 }
	if err := xdr.Read(reader, &message); err != nil {
		return nil, err
	}
	if message.Denied != 0 {
		return nil, syscall.EACCES
	}
	var accepted struct {
		Verifier rpc.Auth
		Status   uint32
	}
	if err := xdr.Read(reader, &accepted); err != nil {
		return nil, err
	}
	if accepted.Status != rpc.Success {
		return nil, fmt.Errorf("RPC program %d does not do procedure %d: status %d", c.program, procedure, accepted.Status)
	}
	return reader, nil
}

// Calls a procedure whose results begin with a status, 0 for success, as those of NFS and of its mount protocol do. The
// status is returned as an errno; of what comes after a failure's, nothing is of use.
func (c *connection) ask(procedure uint32, credentials rpc.Auth, arguments, result any) error {
	reader, err := c.call(procedure, credentials, arguments)
	if err != nil {
		return err
	}
	status, err := xdr.ReadUint32(reader)
	if err != nil {
		return err
	}
	if status != nfs.NFS3Ok {
		return number(status)
	}
	return xdr.Read(reader, result)
}

func (c *connection) send(procedure uint32, credentials rpc.Auth, arguments any, answer chan<- []byte) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.waiting == nil {
		return syscall.EIO
	}
	c.last++
	call := struct {
		ID, Type uint32
		rpc.Header
	}{ID: c.last}
	call.Header = rpc.Header{Rpcvers: 2, Prog: c.program, Vers: c.version, Proc: procedure, Cred: credentials}
	record := bytes.NewBuffer(make([]byte, 4))
	if err := xdr.Write(record, &call); err != nil {
		return err
	}
	if err := xdr.Write(record, arguments); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(record.Bytes(), 1<<31|uint32(record.Len()-4))
	c.waiting[c.last] = answer
	if _, err := c.socket.Write(record.Bytes()); err != nil {
		delete(c.waiting, c.last)
		return syscall.EIO
	}
	return nil
}

// Hands answers to those who wait for them, until the connection is lost.
func (c *connection) receive() {
	for {
		record, err := c.record()
		c.lock.Lock()
		if err != nil {
			for _, answer := range c.waiting {
				close(answer)
			}
			c.waiting = nil
			c.lock.Unlock()
			return
		}
		id := binary.BigEndian.Uint32(record)
		if answer, found := c.waiting[id]; found {
			delete(c.waiting, id)
			answer <- record
		}
		c.lock.Unlock()
	}
}

// Reads one message: fragments, the last of which has its first bit set.
func (c *connection) record() ([]byte, error) {
	var record []byte
	for {
		var mark [4]byte
		if _, err := io.ReadFull(c.socket, mark[:]); err != nil {
			return nil, err
		}
		size := binary.BigEndian.Uint32(mark[:])
		length := int(size &^ (1 << 31))
		if length+len(record) > largestRecord {
			return nil, io.ErrShortBuffer
		}
		start := len(record)
		record = append(record, make([]byte, length)...)
		if _, err := io.ReadFull(c.socket, record[start:]); err != nil {
			return nil, err
		}
		if size&(1<<31) != 0 {
			if len(record) < 4 {
				return nil, io.ErrUnexpectedEOF
			}
			return record, nil
		}
	}
}

// A folder of the server.
type export struct {
	*connection
	root     []byte
	transfer int // the most bytes that one request reads or writes
}

// Asks the server for a folder, as the user who mounts.
func attach(server, path string) (*export, error) {
	mounts, err := dialProgram(server, nfs.MountProg, nfs.MountVers)
	if err != nil {
		return nil, err
	}
	defer mounts.socket.Close()
	self := credentials(uint32(os.Getuid()), uint32(os.Getgid()), nil)
	folder := struct{ Path string }{path}
	var mounted struct {
		Root    []byte
		Flavors []uint32
	}
	if err := mounts.ask(nfs.MountProc3MNT, self, &folder, &mounted); err != nil {
		return nil, err
	}
	files, err := dialProgram(server, nfs.Nfs3Prog, nfs.Nfs3Vers)
	if err != nil {
		return nil, err
	}
	var information nfs.FSInfo
	e := &export{connection: files, root: mounted.Root}
	if err := e.ask(nfs.NFSProc3FSInfo, self, &mounted.Root, &information); err != nil {
		return nil, err
	}
	e.transfer = int(min(information.RTMax, information.WTMax, 128<<10)) // more than that the kernel does not ask of FUSE
	return e, nil
}

// The errno of a status of NFS or of its mount protocol. Those not here have the number that they have in Linux.
func number(status uint32) syscall.Errno {
	switch status {
	case nfs.NFS3ErrNameTooLong:
		return syscall.ENAMETOOLONG
	case nfs.NFS3ErrNotEmpty:
		return syscall.ENOTEMPTY
	case nfs.NFS3ErrDQuot:
		return syscall.EDQUOT
	case nfs.NFS3ErrStale, nfs.NFS3ErrBadHandle:
		return syscall.ESTALE
	case nfs.NFS3ErrNotSupp:
		return syscall.ENOTSUP
	}
	if status > nfs.NFS3ErrRemote {
		return syscall.EIO
	}
	return syscall.Errno(status)
}

// What FUSE returns for an error.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if number, known := err.(syscall.Errno); known {
		return number
	}
	log.Print(err)
	return syscall.EIO
}

// Who makes a request, in the form that the server is told of it.
func caller(ctx context.Context) rpc.Auth {
	who, known := fuse.FromContext(ctx)
	if !known {
		return rpc.AuthNull
	}
	return credentials(who.Uid, who.Gid, groups(who.Pid))
}

func credentials(uid, gid uint32, groups []uint32) rpc.Auth {
	host, _ := os.Hostname()
	body := new(bytes.Buffer)
	fields := struct {
		Stamp    uint32
		Host     string
		UID, GID uint32
		Groups   []uint32
	}{Host: host, UID: uid, GID: gid, Groups: groups}
	if err := xdr.Write(body, &fields); err != nil {
		log.Fatal(err) // numbers and a name: there is nothing in it to fail
	}
	return rpc.Auth{Flavor: authSys, Body: body.Bytes()}
}

// The supplementary groups of a process; FUSE does not tell them.
func groups(pid uint32) []uint32 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, line := range strings.Split(string(status), "\n") {
		if words, found := strings.CutPrefix(line, "Groups:"); found {
			var all []uint32
			for _, word := range strings.Fields(words) {
				if id, err := strconv.ParseUint(word, 10, 32); err == nil && len(all) < mostGroups {
					all = append(all, uint32(id))
				}
			}
			return all
		}
	}
	return nil
}
