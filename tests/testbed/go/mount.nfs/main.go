// The helper that mount(8) calls for `mount -t nfs server:/path folder`, where the kernel has no NFS client of its own: it
// speaks NFS version 3 (RFC 1813) to the server and FUSE to the kernel.
//
// What it does as the kernel's client does: every request carries the user, group and supplementary groups of the process
// that makes it (AUTH_SYS), and it is the server that allows or refuses; who opened a file reads and writes it to the end;
// what is written is on the server before write(2) returns, and nothing about names and attributes is kept, as with
// `-o sync,noac`. What it does otherwise: locks hold on this machine only (`-o nolock`); a file that is deleted while it is
// open is gone at once; a server that goes away is an I/O error at once, where the kernel's client would wait for it.
//
// Messages and exit codes are those of mount.nfs(8) of nfs-utils, since it is these that a kubelet passes on.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

const (
	failed = 32 // mount(8): "mount failure"

	// Set for the half that stays: it answers the kernel for as long as the mount is there.
	stays = "MOUNT_NFS_STAYS"
	// Where that half says how it went, on a descriptor that it inherits: nothing, if all is well.
	verdict = 3
)

// A mount as the command line asks for it.
type request struct {
	server, path, folder string
	readOnly             bool
}

func (r request) spec() string {
	return r.server + ":" + r.path
}

func main() {
	asked, err := parse(os.Args[1:])
	if err == nil {
		if os.Getenv(stays) == "" {
			err = startOther()
		} else {
			stay(asked)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount.nfs:", err)
		os.Exit(failed)
	}
}

// Reads `server:/path folder [-o option,…]`. Options for which this client has no other way are refused, not forgotten.
func parse(arguments []string) (request, error) {
	var asked request
	var operands []string
	for len(arguments) > 0 {
		argument := arguments[0]
		arguments = arguments[1:]
		switch {
		case argument == "-o" && len(arguments) > 0:
			for _, option := range strings.Split(arguments[0], ",") {
				switch option {
				case "ro":
					asked.readOnly = true
				case "rw", "vers=3", "nfsvers=3", "nolock", "sync", "noac":
				default:
					return asked, fmt.Errorf("an incorrect mount option was specified: %s", option)
				}
			}
			arguments = arguments[1:]
		case strings.HasPrefix(argument, "-"):
			return asked, fmt.Errorf("unknown flag %s", argument)
		default:
			operands = append(operands, argument)
		}
	}
	if len(operands) != 2 {
		return asked, errors.New("expected server:/path, a folder and options")
	}
	server, path, found := strings.Cut(operands[0], ":/")
	if !found {
		return asked, errors.New("remote share not in 'host:dir' format")
	}
	asked.server, asked.path, asked.folder = server, "/"+path, operands[1]
	return asked, nil
}

// Starts the half that stays, and returns when the folder is mounted or never will be.
func startOther() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	hear, say, err := os.Pipe()
	if err != nil {
		return err
	}
	other := exec.Command(program, os.Args[1:]...)
	other.Args[0] = os.Args[0]
	other.Env = append(os.Environ(), stays+"=1")
	other.ExtraFiles = []*os.File{say}
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Not this half's output: who waits for the end of that would wait for the mount's.
	other.Stderr, _ = os.OpenFile("/var/log/mount.nfs.log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err := other.Start(); err != nil {
		return err
	}
	say.Close()
	said, err := io.ReadAll(hear)
	if err == nil && len(said) > 0 {
		err = errors.New(string(said))
	}
	return err
}

// Mounts, says so, and serves until somebody unmounts.
func stay(asked request) {
	syscall.CloseOnExec(verdict)
	said := os.NewFile(verdict, "verdict")
	server, err := mount(asked)
	if err != nil {
		fmt.Fprint(said, err)
		os.Exit(failed)
	}
	said.Close()
	log.Printf("%s is mounted on %s", asked.spec(), asked.folder)
	server.Wait()
	log.Printf("%s is unmounted from %s", asked.spec(), asked.folder)
}

// Says why a mount failed in the words of nfs-utils (mount_error in utils/mount/error.c).
func (r request) failure(err error) error {
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("Failed to resolve server %s: Name or service not known", r.server)
	case !errors.As(err, &number):
		return err
	case number == syscall.EACCES || number == syscall.EPERM:
		return fmt.Errorf("access denied by server while mounting %s", r.spec())
	case number == syscall.ENOENT:
		return fmt.Errorf("mounting %s failed, reason given by server: No such file or directory", r.spec())
	case number == syscall.ENOTDIR:
		return fmt.Errorf("mount spec %s or point %s is not a directory", r.spec(), r.folder)
	}
	message := number.Error()
	return errors.New(strings.ToUpper(message[:1]) + message[1:])
}
