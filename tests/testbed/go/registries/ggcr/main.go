// A registry with a referrers API, for tests: go-containerregistry's, with TLS, Basic and Bearer authentication.
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

var (
	address  = flag.String("address", "127.0.0.1:0", "the address to listen on")
	data     = flag.String("data", "", "the folder for blobs")
	cert     = flag.String("cert", "", "the certificate; empty for http")
	key      = flag.String("key", "", "the key of the certificate")
	auth     = flag.String("auth", "none", "none, basic or bearer")
	user     = flag.String("user", "user", "the name of the user")
	password = flag.String("password", "secret", "the password")
	validity = flag.Duration("validity", 2*time.Second, "the time that a token is valid")
)

// tokens has the end of the validity of each token that was issued.
type tokens struct {
	sync.Mutex
	ends map[string]time.Time
}

func (t *tokens) issue() string {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		log.Fatal(err)
	}
	token := base64.RawURLEncoding.EncodeToString(random)
	t.Lock()
	defer t.Unlock()
	t.ends[token] = time.Now().Add(*validity)
	return token
}

func (t *tokens) isValid(token string) bool {
	t.Lock()
	defer t.Unlock()
	return time.Now().Before(t.ends[token])
}

func isUser(r *http.Request) bool {
	name, secret, ok := r.BasicAuth()
	return ok && name == *user && secret == *password
}

func refuse(w http.ResponseWriter, challenge string) {
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(http.StatusUnauthorized)
	io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
}

func guarded(next http.Handler, scheme string) http.Handler {
	issued := &tokens{ends: map[string]time.Time{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch *auth {
		case "basic":
			if !isUser(r) {
				refuse(w, `Basic realm="test"`)
				return
			}
		case "bearer":
			if r.URL.Path == "/token" {
				if !isUser(r) {
					refuse(w, `Basic realm="test"`)
					return
				}
				json.NewEncoder(w).Encode(map[string]any{"token": issued.issue(), "expires_in": validity.Seconds()})
				return
			}
			if !issued.isValid(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
				realm := fmt.Sprintf("%s://%s/token", scheme, r.Host)
				refuse(w, fmt.Sprintf(`Bearer realm="%s",service="test",scope="repository:test:pull,push"`, realm))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	handler := registry.New(
		registry.WithReferrersSupport(true),
		registry.WithBlobHandler(registry.NewDiskBlobHandler(*data)),
		registry.Logger(log.New(io.Discard, "", 0)),
	)
	if *cert == "" {
		log.Fatal(http.Serve(listener, guarded(handler, "http")))
	}
	log.Fatal(http.ServeTLS(listener, guarded(handler, "https"), *cert, *key))
}
