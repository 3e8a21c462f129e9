package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// nothing is a state machine that keeps nothing.
type nothing struct{}

func (nothing) Apply([]raft.Entry, [][]byte) error                           { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error)                          { return nil, errors.New("there is nothing") }
func (nothing) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error { return nil }

// onlyOperators stands for the authentication of your program.
func onlyOperators(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "operator" || password != "secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// The handler is mounted behind the authentication of the program, beside its own paths.
func ExampleHandler() {
	ctx := context.Background()
	n, err := node.Start(ctx, node.Config{ID: "n1", Cluster: "example", Initial: []raft.Member{{ID: "n1", Address: "n1:1"}}},
		nothing{}, storage.NewMemory(), transport.NewNetwork().Join("n1"))
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	if err := n.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/raft/", onlyOperators(http.StripPrefix("/raft", admin.Handler(n, admin.Options{}))))

	for _, password := range []string{"guess", "secret"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.0.0.1/raft/members", nil)
		r.SetBasicAuth("operator", password)
		mux.ServeHTTP(w, r)
		var members admin.Members
		_ = json.Unmarshal(w.Body.Bytes(), &members)
		fmt.Println(w.Code, members.Voters())
	}
	// Output:
	// 401 []
	// 200 [n1]
}
