// Argo CD's repo-server, with a Redis in memory, and a client that prints the manifests of a package. For tests.
//
//	argocd serve PORT METRICS_PORT
//	argocd manifests SERVER REPOSITORY REVISION PATH
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/reposerver/apiclient"
)

func serve(port, metrics string) error {
	redis, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer redis.Close()
	command := commands.NewCommand()
	command.SetArgs([]string{
		"--address=127.0.0.1", "--port=" + port, "--metrics-address=127.0.0.1", "--metrics-port=" + metrics,
		"--redis=" + redis.Addr(), "--disable-tls", "--loglevel=warn",
	})
	return command.Execute()
}

func manifests(server, repository, revision, path string) error {
	set := apiclient.NewRepoServerClientset(server, 60, apiclient.TLSConfiguration{DisableTLS: true})
	closer, client, err := set.NewRepoServerClient()
	if err != nil {
		return err
	}
	defer closer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	source := &v1alpha1.ApplicationSource{RepoURL: repository, TargetRevision: revision, Path: path}
	answer, err := client.GenerateManifest(ctx, &apiclient.ManifestRequest{
		Repo:               &v1alpha1.Repository{Repo: repository, Type: "oci", InsecureOCIForceHttp: true},
		Revision:           revision,
		NoCache:            true,
		AppName:            "checks",
		ApplicationSource:  source,
		KubeVersion:        "1.36.0",
		ProjectName:        "default",
		ProjectSourceRepos: []string{"*"},
		TrackingMethod:     "annotation",
	})
	if err != nil {
		return err
	}
	for _, manifest := range answer.Manifests {
		fmt.Println(manifest)
	}
	return nil
}

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) == 6 && os.Args[1] == "manifests":
		err = manifests(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	default:
		err = fmt.Errorf("expected serve PORT METRICS_PORT, or manifests SERVER REPOSITORY REVISION PATH")
	}
	if err != nil {
		log.Fatal(err)
	}
}
