// The client of registries of a newer Argo CD: it unpacks a package as the repo-server does. For tests.
//
//	argocd-oci REPOSITORY REVISION FOLDER
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	utilio "github.com/argoproj/argo-cd/v3/util/io"
	"github.com/argoproj/argo-cd/v3/util/oci"
)

// The types that the repo-server accepts unless an administrator changes them.
var types = []string{
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.cncf.helm.chart.content.v1.tar+gzip",
}

func unpack(repository, revision, target string) error {
	cache, err := os.MkdirTemp("", "argocd-oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	// Only the methods that are called below need their handlers.
	begun := func(string) func() { return func() {} }
	failed := func(string) func(string) { return func(string) {} }
	client, err := oci.NewClient(
		repository, oci.Creds{InsecureHTTPOnly: true}, "", "", types,
		oci.WithImagePaths(utilio.NewRandomizedTempPaths(cache)),
		oci.WithManifestMaxExtractedSize(1e9), // the repo-server's default
		oci.WithEventHandlers(oci.EventHandlers{
			OnExtract: begun, OnExtractFail: failed,
			OnResolveRevision: begun, OnResolveRevisionFail: failed,
			OnGetTags: begun, OnGetTagsFail: begun,
		}),
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	digest, err := client.ResolveRevision(ctx, revision, true)
	if err != nil {
		return err
	}
	folder, closer, err := client.Extract(ctx, digest)
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := os.CopyFS(target, os.DirFS(folder)); err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("expected REPOSITORY REVISION FOLDER")
	}
	if err := unpack(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}
